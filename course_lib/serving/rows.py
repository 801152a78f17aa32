"""The rows of the block table: which sequence has which, and the inputs of a step's tokens, as arrays on the host.

May import: model, its own modules, numpy.
"""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from .inputs import CHOICES, NUMPY, OPTIONS
from .request import State


@dataclass
class _Place:
    """A sequence's row, the pages that the device's table has there, and all its noise."""

    row: int
    num_prompt: int
    pages: list = field(default_factory=list)
    noise: list | None = None


@dataclass
class Batch:
    """A step's tokens, piece after piece.

    Attributes
    ----------
    starts : list, where the tokens of each piece begin, and their number
    seq_lens : list, tokens of each sequence after the step
    piece_rows : array, the row of each piece
    fresh : list of rows whose tables the device must get whole
    tokens, choices : dict, name -> array: the fields of `inputs`
    chosen : list of (name, first choice, drafts), for each piece that samples; it has a choice, and one each draft
    """

    starts: list
    seq_lens: list
    piece_rows: np.ndarray
    fresh: list
    tokens: dict
    choices: dict
    chosen: list

    @property
    def num_tokens(self):
        return self.starts[-1]

    @property
    def longest_piece(self):
        return max(stop - start for start, stop in pairwise(self.starts))

    @property
    def greedy(self):
        return not self.choices["temperature"].any()

    def by_rows(self, dummy):
        """All fields with a number for each token; tokens that choose nothing have what padding has."""
        spread = dict(self.tokens)
        for name, dtype, padding in CHOICES:
            spread[name] = np.full(self.num_tokens, dummy.get(name, padding), NUMPY[dtype])
            spread[name][self.choices["index"]] = self.choices[name]
        return spread


class SequenceRows:
    """Rows 0 to max_num_seqs - 1 of the block table belong to sequences, the last one to nobody: `dummy`.

    Attributes
    ----------
    table : array, (max_num_seqs + 1, max_pages), int32: what the device's table has, or gets in the next step
    """

    def __init__(self, config, max_positions):
        self.page_size, self.dummy = config.page_size, config.max_num_seqs
        longest = min(config.max_model_len or max_positions, max_positions, config.num_pages * config.page_size)
        self.table = np.zeros((config.max_num_seqs + 1, config.pages_for(longest)), np.int32)
        dtypes = {name: NUMPY[dtype] for name, dtype, _ in CHOICES}
        self.options = {name: np.zeros(self.dummy + 1, dtypes[name]) for name in OPTIONS}
        self._places, self._free = {}, list(range(self.dummy))

    @property
    def capacity(self):
        """Tokens of the longest sequence."""
        return self.table.shape[1] * self.page_size

    @property
    def padding(self):
        """name -> what padding rows have."""
        return {"rows": self.dummy, "places": self.dummy * self.table.shape[1], "targets": self.dummy}

    def batch(self, step, drafts):
        """The Batch of a Step; drafts: dict, name -> the tokens that are proposed."""
        ids, rows, starts, counts, fresh, chosen = [], [], [], [], [], []
        index, noise = [], []
        for piece in step.pieces:
            sequence, start = piece.sequence, piece.start
            place = self._places.get(sequence) or self._take(sequence)
            if place.pages != sequence.pages:
                self._renew(place, sequence.pages, start, fresh)
            known, proposed = start + piece.num_tokens - piece.num_drafts, ()
            if piece.num_drafts:
                proposed = drafts.get(sequence.name, ())[: piece.num_drafts]
            ids += sequence.tokens[start:known]
            ids += proposed
            rows.append(place.row)
            starts.append(start)
            counts.append(known - start + len(proposed))
            if piece.samples:
                chosen.append((sequence.request.name, len(index), proposed))
                index += range(len(ids) - 1 - len(proposed), len(ids))
                noise += self._noise(place, known, len(proposed)) if place.noise else [0.0] * (1 + len(proposed))
        rows, starts, counts = (np.array(x, np.int64) for x in (rows, starts, counts))
        tokens = self._tokens(ids, rows, starts, counts)
        choices = self._choices(tokens["rows"], np.array(index, np.int64), noise)
        ends = np.concatenate(([0], np.cumsum(counts))).tolist()
        return Batch(ends, (starts + counts).tolist(), rows, fresh, tokens, choices, chosen)

    def _tokens(self, ids, rows, starts, counts):
        if len(ids) == len(rows):
            positions = starts
        else:
            positions = np.arange(len(ids)) + np.repeat(starts - np.cumsum(counts) + counts, counts)
            rows = np.repeat(rows, counts)
        page_index, place_in_page = np.divmod(positions, self.page_size)
        pages = self.table[rows, page_index]
        return {
            "ids": ids, "slots": pages.astype(np.int64) * self.page_size + place_in_page, "rows": rows,
            "places": rows * self.table.shape[1] + page_index, "positions": positions, "seq_lens": positions + 1,
            "pages": pages,
        }  # fmt: skip

    def _choices(self, rows, index, noise):
        rows = rows[index]
        return {"index": index, "targets": rows, "noise": noise} | {
            name: numbers[rows] for name, numbers in self.options.items()
        }

    def _take(self, sequence):
        """A row for a sequence that had none."""
        if not self._free:
            for other in [other for other in self._places if other.state is not State.RUNNING]:
                self._free.append(self._places.pop(other).row)
        place = self._places[sequence] = _Place(self._free.pop(), len(sequence.request.prompt))
        sampling = sequence.request.sampling
        for name, numbers in self.options.items():
            numbers[place.row] = getattr(sampling, name)
        if sampling.temperature > 0:
            place.noise = sampling.noise(sequence.request.max_new_tokens).tolist()
        return place

    def _renew(self, place, pages, start, fresh):
        """Take over a sequence's pages; those from `start` on reach the device with the tokens written to them."""
        known = place.pages
        if len(known) < start // self.page_size or pages[: len(known)] != known:
            fresh.append(place.row)
        self.table[place.row, : len(pages)] = pages
        place.pages = list(pages)

    @staticmethod
    def _noise(place, known, num_drafts):
        """Of the token after `known` ones, and of those after its drafts."""
        first = known - place.num_prompt
        found = place.noise[first : first + 1 + num_drafts]
        return found + [0.0] * (1 + num_drafts - len(found))

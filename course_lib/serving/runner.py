"""What executes a step: the model over the step's tokens, their keys and values in pages, a token for each sequence.

A step of few tokens a sequence runs by rows: each token is a row with a table and a length of its own. Any other step
is ragged: a sequence has a stretch of tokens, and the attention engine plans the batch. Both are padded to a bucket; on
a GPU they are CUDA graphs.

In the deterministic mode all steps run by rows, in blocks of one fixed size (BLOCK_ROWS): every operation then has one
shape, so that a token's bits depend on the tokens before it alone, however they were batched.

May import: its own modules, numpy, torch.
"""

import numpy as np
import torch

from .graphs import StepGraphs, eager, row_buckets, token_buckets
from .inputs import OPTIONS, layout, packed, views
from .paged_forward import KernelAttention, Pools, TorchAttention
from .rows import Batch, SequenceRows

BLOCK_ROWS = {"cpu": 1, "cuda": 256}  # of the deterministic mode
SHORTEST = 2048  # tokens: steps whose sequences are shorter share their graphs
LONG = 8192  # tokens of the sequences that warm the engine up


class Runner:
    """Runs steps on the model's device, in the order of the calls.

    Parameters
    ----------
    model : Transformer
    config : ServingConfig
    attention : "kernels", the course's, or "torch"; None: as the device is a GPU or not

    Attributes
    ----------
    pools : Pools
    """

    def __init__(self, model, config, attention=None):
        self.model, self.config, self.device = model, config, model.device
        self.on_gpu = self.device.type == "cuda"
        self.with_kernels = (attention or ("kernels" if self.on_gpu else "torch")) == "kernels"
        self.block_rows = BLOCK_ROWS[self.device.type] if config.deterministic else None
        most = config.max_num_seqs * (1 + config.speculate)
        self.buckets = [self.block_rows] if self.block_rows else row_buckets(most)
        self.token_buckets = [] if self.block_rows else token_buckets(config.max_num_tokens)
        self.pools = Pools(model, config.num_pages, config.page_size, config.num_swap_pages)
        attention = KernelAttention if self.with_kernels else TorchAttention
        self.attention = attention(model, self.pools, self.buckets[-1], config.deterministic)
        self.sequences = SequenceRows(config, model.config.max_positions)
        self.table = torch.zeros(self.sequences.table.shape, dtype=torch.int32, device=self.device)
        self.last = torch.zeros(len(self.table), dtype=torch.int64, device=self.device)  # each sequence's newest token
        self.chosen = torch.zeros(self.buckets[-1], dtype=torch.int64, device=self.device)
        sizes = [(self.buckets[-1], self.buckets[-1]), (config.max_num_tokens, most)]
        self.inputs = torch.zeros(max(layout(*pair)[1] for pair in sizes), dtype=torch.uint8, device=self.device)
        self._draws_in_torch = model.kernels.sources["sample"] == "torch"  # on the host, row by row
        recorded = self.on_gpu and self.with_kernels and config.graphs and not self._draws_in_torch
        self._call = StepGraphs() if recorded else eager

    @torch.no_grad()
    def run(self, step, drafts=None):
        """Start a Step. -> Result

        drafts : dict, name -> list of tokens that a draft proposes, for pieces that have num_drafts
        """
        self.pools.swap(step.swaps_out, step.swaps_in)
        batch = self.sequences.batch(step, drafts or {})
        if batch.fresh:
            rows = self._to_device(torch.tensor(batch.fresh))
            self.table.index_copy_(0, rows, self._to_device(torch.from_numpy(self.sequences.table[batch.fresh])))
        self._greedy = self._draws_in_torch and batch.greedy
        by_rows = self.block_rows or batch.longest_piece <= 1 + self.config.speculate
        return self._by_rows(batch) if by_rows else self._ragged(batch)

    @torch.no_grad()
    def warm_up(self):
        """Record the graphs: ragged steps of every size, then rows of up to SHORTEST tokens; the largest first.

        Nothing is written: all tokens are padding. On a CPU there is nothing to compile or record.
        """
        if not (self.on_gpu and self.with_kernels):
            return
        self._greedy, longest = self._draws_in_torch, min(self.sequences.capacity, LONG)
        table_width = self.sequences.table.shape[1]
        self.attention.reserve(self.token_buckets, self.config.max_num_seqs, longest, table_width)
        for size in reversed(self.token_buckets):
            row = np.array([self.sequences.dummy])
            self._ragged(Batch([0, size], [min(size, longest)], row, [], {}, {"index": [0]}, []))
        for size in reversed(self.buckets):
            self._send(self._packed({}, size, size))
            self._call(self._rows, size, self._longest([1]))

    def _by_rows(self, batch):
        """Blocks of rows, all of one size in the deterministic mode; else one block, padded to a bucket."""
        fields, parts = batch.by_rows(self.sequences.padding), []
        step = self.block_rows or batch.num_tokens
        for first in range(0, batch.num_tokens, step):
            part = {name: array[first : first + step] for name, array in fields.items()}
            count = len(part["ids"])
            size = self._bucket(count, self.buckets)
            self._send(self._packed(part, size, size))
            self._call(self._rows, size, self._longest(part["seq_lens"]))
            parts.append(_to_host(self.chosen[:count]))
        return Result(batch, batch.choices["index"].tolist(), parts, self.device)

    # region: rows
    def _rows(self, size, longest):
        """The step of `size` rows whose inputs are on the device: what a graph records."""
        inputs = views(self.inputs, size, size)
        table = self._take_pages(inputs).index_select(0, inputs["rows"])
        attend = self.attention.rows(table, inputs["seq_lens"], inputs["slots"], longest)
        x = self.model.hidden(self._ids(inputs), inputs["positions"], attend)
        self.chosen[:size].copy_(self._choose(x, inputs))

    # endregion
    def _ragged(self, batch):
        """All tokens at once, padded to a bucket; what is chosen after them varies too much to be recorded."""
        size, num_choices = self._bucket(batch.num_tokens, self.token_buckets), len(batch.choices["index"])
        self._send(self._packed(batch.tokens | batch.choices, size, num_choices))
        inputs = views(self.inputs, size, num_choices)
        self._attend = self._planned(batch, size, inputs["slots"])
        x = self._call(self._tokens, size, self.attention.addresses)
        if num_choices == 0:
            return Result(batch, [], [], self.device)
        chosen = self._choose(x.index_select(0, inputs["index"]), inputs)
        return Result(batch, range(num_choices), [_to_host(chosen)], self.device)

    def _planned(self, batch, size, slots):
        """The attention of a ragged step; its padding is a request more, whose tokens see no key."""
        starts, seq_lens, rows = batch.starts, batch.seq_lens, batch.piece_rows
        if size > batch.num_tokens:
            starts, seq_lens, rows = [*starts, size], [*seq_lens, 0], np.append(rows, self.sequences.dummy)
        table = self._to_device(torch.from_numpy(self.sequences.table[rows]))
        return self.attention.ragged(starts, seq_lens, table, slots)

    def _tokens(self, size, addresses):
        """The ragged step of `size` tokens whose inputs are on the device and whose attention is planned."""
        inputs = views(self.inputs, size, 0)
        self._take_pages(inputs)
        return self.model.hidden(self._ids(inputs), inputs["positions"], self._attend)

    def _take_pages(self, inputs):
        """The block table, with the pages that this step writes to."""
        self.table.view(-1).index_copy_(0, inputs["places"], inputs["pages"])
        return self.table

    def _ids(self, inputs):
        """The tokens; one that the host did not know yet is still where the step before left it."""
        ids = inputs["ids"]
        return torch.where(ids < 0, self.last.index_select(0, inputs["rows"]), ids)

    def _choose(self, x, inputs):
        """A token after each row of x (num_choices, hidden_size), kept for the next step."""
        logits, kernels = self.model.logits(x), self.model.kernels
        if self._greedy:
            tokens = kernels.greedy(logits)
        else:
            tokens = kernels.sample(logits, noise=inputs["noise"], **{name: inputs[name] for name in OPTIONS})
        self.last.index_copy_(0, inputs["targets"], tokens)
        return tokens

    def _bucket(self, count, sizes):
        """What `count` rows or tokens are padded to; torch needs no padding."""
        return next(size for size in sizes if size >= count) if self.with_kernels else count

    def _longest(self, seq_lens):
        """What the kernels are told of the longest sequence: a power of two, so that few graphs are needed."""
        longest = int(max(seq_lens))
        if not self.with_kernels:
            return longest
        return min(self.sequences.capacity, max(SHORTEST, 1 << (longest - 1).bit_length()))

    def _packed(self, arrays, num_tokens, num_choices):
        return packed(arrays, num_tokens, num_choices, self.sequences.padding, self.on_gpu)

    def _send(self, buffer):
        self.inputs[: len(buffer)].copy_(buffer, non_blocking=True)

    def _to_device(self, x):
        return (x.pin_memory() if self.on_gpu and not x.is_pinned() else x).to(self.device, non_blocking=True)


class Result:
    """The tokens that a step chose, as soon as they are on the host."""

    def __init__(self, batch, where, parts, device):
        """where : for each choice its place in `parts`, one after the other"""
        self._chosen, self._where, self._parts, self._event = batch.chosen, where, parts, None
        if device.type == "cuda":
            self._event = torch.cuda.Event()
            self._event.record()

    def tokens(self, *, lists=False):
        """dict, name -> token; waits for the device.

        lists : bool; all tokens of a sequence in a list: the drafts that the model would have chosen, and the next one
        """
        if self._event is not None:
            self._event.synchronize()
        tokens = torch.cat(self._parts).tolist() if self._parts else []
        tokens = [tokens[place] for place in self._where]
        if not lists:
            return {name: tokens[first] for name, first, _ in self._chosen}
        return {
            name: _accepted(tokens[first : first + 1 + len(drafts)], drafts) for name, first, drafts in self._chosen
        }


def _accepted(tokens, drafts):
    """The tokens up to the first that is not the draft's: each is what the model chooses after those before it."""
    same = next((i for i, draft in enumerate(drafts) if draft != tokens[i]), len(drafts))
    return tokens[: same + 1]


def _to_host(x):
    """A copy on the host, there when the device has done all that was asked of it before."""
    if x.device.type == "cpu":
        return x.clone()
    return torch.empty(x.shape, dtype=x.dtype, pin_memory=True).copy_(x, non_blocking=True)

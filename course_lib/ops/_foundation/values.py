"""Values that a kernel believes: lengths, page numbers, slots. A wrong one reads or writes another's memory.

Checked where the tensors lie on the CPU; on a GPU a look at them waits for it, so there only with ``validate=True``.

May import: errors, sizes, torch.
"""

import torch

from ...errors import ShapeError
from .sizes import ceil_div


def looked_at(tensor, validate):
    """Whether the values of a tensor are checked."""
    return validate or not tensor.is_cuda


def require_lengths(seq_lens, most, max_seq_len=None, validate=False, name="seq_lens", most_name="capacity"):
    """Lengths from 0 to `most`, none above `max_seq_len`."""
    if max_seq_len is not None and max_seq_len < 0:
        raise ShapeError(f"max_seq_len={max_seq_len}; expected at least 0.")
    if not looked_at(seq_lens, validate):
        return
    low, high = (int(number) for number in torch.aminmax(seq_lens))
    if low < 0 or high > most:
        raise ShapeError(f"{name} holds lengths from {low} to {high}; expected 0 to {most_name}={most}.")
    if max_seq_len is not None and high > max_seq_len:
        raise ShapeError(f"max_seq_len={max_seq_len}, and {name} holds {high}; keys beyond it would be left out.")


def require_pages(block_table, seq_lens, page_size, num_pages, validate=False):
    """Page numbers of the pool in the entries that a sequence uses; the others are undefined and may be anything."""
    if not looked_at(block_table, validate):
        return
    used = torch.arange(block_table.shape[1], device=block_table.device) < ceil_div(seq_lens, page_size)[:, None]
    wrong = used & ((block_table < 0) | (block_table >= num_pages))
    if bool(wrong.any()):
        row, place = (int(number) for number in wrong.nonzero()[0])
        page = int(block_table[row, place])
        raise ShapeError(f"block_table[{row}, {place}] is {page}; the pool has the pages 0 to {num_pages - 1}.")


def require_starts(cu_seqlens, total, longest, validate=False, name="cu_seqlens_q"):
    """Starts of packed sequences: from 0 to `total`, never decreasing, no sequence longer than `longest`."""
    if not looked_at(cu_seqlens, validate):
        return
    lengths = cu_seqlens.diff()
    if int(cu_seqlens[0]) != 0 or int(cu_seqlens[-1]) != total or bool((lengths < 0).any()):
        raise ShapeError(f"{name} is {cu_seqlens.tolist()[:9]}; expected numbers that rise from 0 to {total}.")
    if int(lengths.max()) > longest:
        raise ShapeError(f"max_seq_len_q={longest}, and a sequence of {name} has {int(lengths.max())} queries.")


def require_positions(positions, num_positions):
    """Rows of a table of cosines and sines; of tensors on the CPU alone."""
    if looked_at(positions, validate=False) and not bool(((positions >= 0) & (positions < num_positions)).all()):
        raise ShapeError(
            f"positions go from {positions.min()} to {positions.max()}; "
            f"the table has the positions 0 to {num_positions - 1}."
        )


def require_slots(slot_mapping, num_slots, validate=False, name="slot_mapping"):
    """Slots of the pool; a negative one is not stored, and none comes twice."""
    if not looked_at(slot_mapping, validate):
        return
    stored = slot_mapping[slot_mapping >= 0]
    if stored.numel() and int(stored.max()) >= num_slots:
        raise ShapeError(f"{name} holds {int(stored.max())}; the pool has the slots 0 to {num_slots - 1}.")
    if stored.unique().numel() != stored.numel():
        raise ShapeError(f"{name} holds a slot twice; which token it would keep is undefined.")


def require_copies(copies, num_pages, validate=False):
    """Pages of the pool to copy: none is written twice, or both read and written."""
    if not looked_at(copies, validate):
        return
    low, high = (int(number) for number in torch.aminmax(copies))
    if low < 0 or high >= num_pages:
        raise ShapeError(f"copies holds pages from {low} to {high}; the pool has the pages 0 to {num_pages - 1}.")
    sources, targets = copies.unbind(1)
    if targets.unique().numel() != len(copies) or bool(torch.isin(targets, sources).any()):
        raise ShapeError("copies writes a page twice, or reads one that it writes; the order of copies is undefined.")

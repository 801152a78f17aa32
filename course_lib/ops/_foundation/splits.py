"""Splits of the keys of a sequence: how many blocks share them, and the scratch memory in which they meet.

May import: errors, checks, sizes, torch.
"""

import functools

import torch

from ...errors import ShapeError
from .checks import require_tensor
from .sizes import ceil_div

MAX_SPLITS = 1024
MIN_SPLIT_LEN = 128  # keys below which a block of dense decode is not worth its merge


def slots(tensor, blocks_per_sm):
    """Blocks that the card of `tensor` holds at a time; on the CPU those of an H200, so that plans look the same."""
    return (_num_sms(tensor.device) if tensor.is_cuda else 132) * blocks_per_sm


@functools.cache
def _num_sms(device):
    return torch.cuda.get_device_properties(device).multi_processor_count


def choose_num_splits(num_pairs, longest, num_slots, *, min_split_len=MIN_SPLIT_LEN):
    """Blocks that share the keys of a sequence: as many as still start at once, but no block too short.

    Parameters
    ----------
    num_pairs : int, blocks without a split: batch_size * num_kv_heads, or * num_heads where each head has its own
    longest : int, tokens of the longest sequence
    num_slots : int, blocks that keep the memory of the card busy

    Returns
    -------
    int, 1 to MAX_SPLITS; a split has ceil(longest / num_splits) keys
    """
    one_wave = num_slots // num_pairs  # as many splits as still start at once
    worth_it = ceil_div(longest, min_split_len)  # as many as have min_split_len keys each
    return max(1, min(one_wave, worth_it, MAX_SPLITS))


def choose_split_len(num_pairs, longest, num_slots, waves, *, min_split_len):
    """Keys of a block: `waves` blocks for each slot of the card, but no block too short for its merge.

    Parameters
    ----------
    num_pairs : int, batch_size * num_kv_heads
    longest : int, tokens of the longest sequence
    num_slots : int, blocks that the card holds at a time
    """
    fewest, most = ceil_div(longest, MAX_SPLITS), ceil_div(longest, min_split_len)
    splits = max(1, min(most, num_slots * waves // num_pairs))
    return max(fewest, ceil_div(longest, splits), 1)


def partials(q, num_splits):
    """(partial_out, partial_lse), float32, (batch_size, num_heads, num_splits[, head_dim]), not initialised."""
    shape = (*q.shape[:2], num_splits)
    return q.new_empty(*shape, q.shape[2], dtype=torch.float32), q.new_empty(shape, dtype=torch.float32)


def scratch(q, num_counted_heads, num_splits, counters=None):
    """(partial_out, partial_lse, counters) of a launch that merges its own splits; counters are 0 on entry and exit."""
    shape = (q.shape[0], num_counted_heads)
    if counters is None:
        counters = torch.zeros(shape, dtype=torch.int32, device=q.device)
    require_tensor(counters, "counters", 2, torch.int32)
    if counters.shape != shape:
        raise ShapeError(f"counters have the shape {tuple(counters.shape)}; expected {shape}.")
    return *partials(q, num_splits), counters

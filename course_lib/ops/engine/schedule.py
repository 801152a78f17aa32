"""The plan of a batch: which rows and keys make an item of work, and which block does which items.

An item is some packed query rows (a token's query heads of one key-value head are neighbours) and some of the keys
that they see. Keys that are many are cut into several items for the same rows, whose parts the last of them merges;
keys that several requests share are an item for the rows of all of them. Items are dealt out largest first, each to
the block that has least so far.

May import: errors, ops._foundation, numpy.
"""

import heapq
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ...errors import ShapeError
from .._foundation.sizes import ceil_div

ITEM_INTS = 12  # of kernels_cu/common/work_item.cuh
BLOCK_ROWS = 128  # rows of an item, at most
KEY_STEP = 64  # an item's keys begin at a multiple of it
MIN_KEYS = 256  # keys below which an item is not worth its merge
FIXED_KEYS = 2048  # keys of an item where bits must not depend on the batch
OVERHEAD = 160, 48  # what an item with many rows, with few, costs beside its keys, in keys
NARROW_COST = 0.3  # what a key costs an item of few rows, which only reads it, beside one of many
(
    REQUEST, KV_HEAD, FIRST_TOKEN, NUM_ROWS, FIRST_KEY, END_KEY, FIRST_POSITION, PART, WHOLE, NARROW, SEQ_LEN_KV,
    FIRST_MASK_BIT,
) = range(ITEM_INTS)  # fmt: skip


@dataclass(frozen=True)
class Schedule:
    """Items in the order in which the blocks do them.

    Attributes
    ----------
    items : array, (num_items, 12), int32: the fields of kernels_cu/common/work_item.cuh
    first_items : array, (num_blocks + 1,), int32: block b does items first_items[b] to first_items[b + 1] - 1
    token_parts : array, (total_q + 1,), int32: where the parts of each token begin in the scratch
    item_costs : array, (num_items,), float64: what each item costs, in keys of an item with all its rows
    """

    items: np.ndarray
    first_items: np.ndarray
    token_parts: np.ndarray
    item_costs: np.ndarray

    @property
    def num_parts(self):
        """Parts of all tokens, each num_heads rows of scratch."""
        return int(self.token_parts[-1])

    @property
    def lists(self):
        """For each block its items in order, [(request, cost)]."""
        pairs = list(zip(self.items[:, REQUEST].tolist(), self.item_costs.tolist(), strict=True))
        return [pairs[first:end] for first, end in pairwise(self.first_items.tolist())]

    def places(self, cu_seqlens_q, group, kv_head=0):
        """Where the items of a KV head lie: [(block, request, first row, rows, first key, end key)]."""
        blocks = np.repeat(np.arange(len(self.first_items) - 1), np.diff(self.first_items))
        return [
            (block, item[REQUEST], (item[FIRST_TOKEN] - cu_seqlens_q[item[REQUEST]]) * group, *item[3:6])
            for block, item in zip(blocks.tolist(), self.items.tolist(), strict=True)
            if item[KV_HEAD] == kv_head
        ]

    @property
    def imbalance(self):
        """The largest cost of a block over the mean of all."""
        loads = [sum(cost for _, cost in items) for items in self.lists]
        return max(loads) * len(loads) / sum(loads) if any(loads) else 1.0


@dataclass(frozen=True)
class Batch:
    """Lengths of a batch, as arrays of int64.

    Attributes
    ----------
    starts : (batch_size + 1,), where the new tokens of each request begin
    seq_lens : (batch_size,), keys of each request, its new tokens included
    first_keys : (batch_size,), the keys before it are shared with others and planned with them
    """

    starts: np.ndarray
    seq_lens: np.ndarray
    first_keys: np.ndarray

    @property
    def num_tokens(self):
        return np.diff(self.starts)


def make_schedule(
    cu_seqlens_q, seq_lens, *, num_kv_heads, group, num_blocks, causal=True, window_left=None, shared=(),
    deterministic=False, chunk_keys=None, block_rows=BLOCK_ROWS, narrow=True,
):  # fmt: skip
    """Cut a batch into items and deal them out to `num_blocks` blocks.

    Parameters
    ----------
    cu_seqlens_q : sequence of int, (batch_size + 1): where the new tokens of each request begin
    seq_lens : sequence of int, (batch_size): keys of each request, its new tokens included
    group : int, query heads of a key-value head
    num_blocks : int, blocks of the launch
    causal : bool; a token sees the keys up to its own
    window_left : int or None; a token sees that many keys before its own
    shared : sequence of (first request, end request, num_keys): neighbours whose first keys are the same
    deterministic : bool; cut every request as if it were alone, so that its bits do not depend on its batch
    chunk_keys : int or None, the most keys of an item; None: as many as balance the blocks
    block_rows : int, the most rows of an item
    narrow : bool; items with few rows are marked, and cost less

    Raises
    ------
    ShapeError  lengths that do not belong together
    """
    batch = _batch(cu_seqlens_q, seq_lens, shared)
    tile_tokens, narrow_tokens = block_rows // group, _narrow_rows(group) // group if narrow else 0
    own = _own_tiles(batch, group, causal, window_left, tile_tokens, narrow_tokens)
    tiles = np.concatenate([own, *_shared_tiles(batch, group, shared, tile_tokens, narrow_tokens)])
    if chunk_keys is None:
        chunk_keys = FIXED_KEYS if deterministic else _balanced_chunk(tiles, num_kv_heads / num_blocks)
    items, token_parts = _items(tiles, num_kv_heads, group, int(chunk_keys), batch)
    costs = _cost(items)
    order, first_items = _deal(costs, num_blocks)
    return Schedule(np.ascontiguousarray(items[order]), first_items, token_parts, costs[order])


def _batch(cu_seqlens_q, seq_lens, shared):
    """The batch after every check."""
    starts, seq_lens = np.asarray(cu_seqlens_q, np.int64), np.asarray(seq_lens, np.int64)
    if starts.ndim != 1 or len(starts) != len(seq_lens) + 1 or starts[0] != 0:
        raise ShapeError(
            f"cu_seqlens_q has {starts.size} entries beginning with {starts.flat[0]}; expected {len(seq_lens) + 1}, "
            "from 0 on."
        )
    if (np.diff(starts) < 0).any() or (seq_lens < 0).any():
        raise ShapeError("cu_seqlens_q decreases or a length is negative; every request has 0 or more tokens.")
    first_keys, before = np.zeros_like(seq_lens), 0
    for first, end, num_keys in shared:
        if not before <= first < end <= len(seq_lens):
            raise ShapeError(f"shared requests {first} to {end - 1}; expected ranges of {len(seq_lens)}, in order.")
        known = int((seq_lens - np.diff(starts))[first:end].min())
        if not 0 < num_keys <= known:
            raise ShapeError(
                f"requests {first} to {end - 1} share {num_keys} keys; they have {known} before their new tokens."
            )
        first_keys[first:end], before = num_keys, end
    return Batch(starts, seq_lens, first_keys)


def _own_tiles(batch, group, causal, window_left, tile_tokens, narrow_tokens):
    """One row a tile of a request's tokens: request, first token, rows, first and end key, position, narrow, shared."""
    num_tiles = ceil_div(batch.num_tokens, tile_tokens)
    request = np.repeat(np.arange(len(batch.seq_lens)), num_tiles)
    ordinal = np.arange(len(request)) - np.repeat(np.cumsum(num_tiles) - num_tiles, num_tiles)
    first = ordinal * tile_tokens  # the tile's first token in its request
    tokens = np.minimum(tile_tokens, batch.num_tokens[request] - first)
    seq_len = batch.seq_lens[request]
    position = first + seq_len - batch.num_tokens[request]
    end_key = np.clip(position + tokens if causal else seq_len, 0, seq_len)
    first_key = batch.first_keys[request]
    if window_left is not None:
        first_key = np.maximum(first_key, np.maximum(position - window_left, 0) // KEY_STEP * KEY_STEP)
    first_key = np.minimum(first_key, end_key)
    narrow = batch.num_tokens[request] <= narrow_tokens
    columns = (request, batch.starts[request] + first, tokens * group, first_key, end_key, position, narrow)
    return np.stack([*columns, np.zeros_like(request)], axis=1)


def _shared_tiles(batch, group, shared, tile_tokens, narrow_tokens):
    """The same for the keys that requests share: their tokens are neighbours, and all see all of these keys."""
    for first, end, num_keys in shared:
        tokens = np.arange(batch.starts[first], batch.starts[end], tile_tokens)
        rows = np.minimum(tile_tokens, batch.starts[end] - tokens) * group
        fixed = np.broadcast_to([first, 0, 0, 0, num_keys, num_keys, 0, 1], (len(tokens), 8)).copy()
        fixed[:, 1], fixed[:, 2] = tokens, rows
        fixed[:, 6] = batch.starts[end] - batch.starts[first] <= narrow_tokens
        yield fixed


def _narrow_rows(group):
    """Rows of an item that has them as the columns of its products."""
    return 16 if group > 8 else 8


def _balanced_chunk(tiles, heads_a_block):
    """Keys of an item such that the largest is about what a block has to do."""
    narrow = tiles[:, 6] == 1
    share = _tile_cost(tiles[:, 4] - tiles[:, 3], tiles[:, 2], narrow).sum() * heads_a_block
    if narrow.all():
        share /= NARROW_COST
    return max(MIN_KEYS, int(ceil_div(share, KEY_STEP)) * KEY_STEP)


def _items(tiles, num_kv_heads, group, chunk_keys, batch):
    """(items, token_parts): each tile for each key-value head, cut into ranges of at most chunk_keys keys."""
    keys = tiles[:, 4] - tiles[:, 3]
    splits = np.maximum(1, ceil_div(keys, chunk_keys))
    step = np.maximum(1, ceil_div(ceil_div(keys, splits), KEY_STEP)) * KEY_STEP  # all about the same
    splits = np.maximum(1, ceil_div(keys, step))
    first_part, token_parts = _parts(tiles, splits, group, batch)
    of = np.repeat(np.arange(len(tiles)), splits * num_kv_heads)  # the tile of each item
    within = np.arange(len(of)) - np.repeat(
        np.cumsum(splits * num_kv_heads) - splits * num_kv_heads, splits * num_kv_heads
    )
    split, kv_head = within // num_kv_heads, within % num_kv_heads
    tile = tiles[of]
    items = np.zeros((len(of), ITEM_INTS), np.int32)
    items[:, REQUEST], items[:, KV_HEAD] = tile[:, 0], kv_head
    items[:, FIRST_TOKEN], items[:, NUM_ROWS], items[:, NARROW] = tile[:, 1], tile[:, 2], tile[:, 6]
    items[:, FIRST_KEY] = tile[:, 3] + split * step[of]
    items[:, END_KEY] = np.minimum(tile[:, 4], tile[:, 3] + (split + 1) * step[of])
    items[:, FIRST_POSITION], items[:, PART] = tile[:, 5], first_part[of] + split
    items[:, WHOLE] = np.diff(token_parts)[tile[:, 1]] == 0
    items[:, SEQ_LEN_KV] = batch.seq_lens[tile[:, 0]]
    items[:, FIRST_MASK_BIT] = _first_bits(tile, batch).astype(np.uint32).view(np.int32)
    return items, token_parts


def _first_bits(tile, batch):
    """Where the mask of each tile's first token begins: masks lie one after the other, a row of keys a token."""
    bits = batch.num_tokens * batch.seq_lens
    request = tile[:, 0]
    return (np.cumsum(bits) - bits)[request] + (tile[:, 1] - batch.starts[request]) * batch.seq_lens[request]


def _parts(tiles, splits, group, batch):
    """(the first part of each tile, token_parts): shared keys come before a token's own; one part needs no scratch."""
    tokens = tiles[:, 2] // group
    count, first_part = np.zeros(int(batch.starts[-1]), np.int64), np.zeros(len(tiles), np.int64)
    for tile in np.flatnonzero(tiles[:, 7]):
        count[tiles[tile, 1] : tiles[tile, 1] + tokens[tile]] = splits[tile]
    own = np.flatnonzero(tiles[:, 7] == 0)  # in the order of the tokens, each token once
    first_part[own] = count[tiles[own, 1]]
    count += np.repeat(splits[own], tokens[own])
    return first_part, np.concatenate([[0], np.cumsum(np.where(count > 1, count, 0))]).astype(np.int32)


def _tile_cost(keys, rows, narrow):
    """What rows and keys cost a block, in keys of an item with all its rows."""
    busy = 0.4 + 0.6 * (ceil_div(rows, 32) * 32 / BLOCK_ROWS)  # warps without rows only copy
    return np.where(narrow, NARROW_COST * (keys + OVERHEAD[1]), busy * keys + OVERHEAD[0])


def _cost(items):
    keys = (items[:, END_KEY] - items[:, FIRST_KEY]).astype(np.float64)
    return _tile_cost(keys, items[:, NUM_ROWS], items[:, NARROW] == 1)


def _deal(costs, num_blocks):
    """(order, first_items): the largest item first, each to the block that has least."""
    blocks = np.empty(len(costs), np.int64)
    loads = [(0.0, block) for block in range(num_blocks)]
    by_size = np.argsort(-costs, kind="stable")
    for item, cost in zip(by_size.tolist(), costs[by_size].tolist(), strict=True):
        load, block = loads[0]
        blocks[item] = block
        heapq.heapreplace(loads, (load + cost, block))
    order = by_size[np.argsort(blocks[by_size], kind="stable")]  # within a block the largest first
    counts = np.bincount(blocks, minlength=num_blocks)
    return order, np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)

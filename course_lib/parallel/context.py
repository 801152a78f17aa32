"""Attention over a sequence that is spread over the ranks: ring attention and Ulysses.

Every rank has seq_len / num_ranks tokens of q, k and v, (batch_size, num_heads, its tokens, head_dim).

ring     K and V go round; every rank merges the states of its queries over each block. (n - 1) hops
Ulysses  an all-to-all gives every rank all tokens of some heads, another one gives the tokens back

Source: H. Liu, M. Zaharia, P. Abbeel, "Ring Attention with Blockwise Transformers", 2023, arXiv:2310.01889
Source: W. Brandon et al., "Striped Attention", 2023, arXiv:2311.09431, for the balance of causal work
Source: S. A. Jacobs et al., "DeepSpeed Ulysses", 2023, arXiv:2309.14509

May import: errors, expect, ops.flash_attention_2, ops._foundation, parallel.checked, parallel.states,
parallel.world, torch.
"""

import functools

import torch

from .. import expect
from ..errors import ShapeError
from ..ops._foundation.checks import require_attention
from ..ops._foundation.typed import typed
from ..ops.flash_attention_2 import flash_attention_lse
from .checked import counted, require_alike, require_dim
from .states import merge_into
from .world import require_world

ORDERS = ("contiguous", "zigzag")


def _of_orders(function):
    """Decorate what takes an order last: UnsupportedError for one that is none."""

    @functools.wraps(function)
    def checked(rank, source, order):
        return function(rank, source, expect.choice("order", order, ORDERS))

    return checked


@counted
def chunks_of(rank, num_ranks, order):
    """Numbers of the chunks that a rank has, in order: "contiguous" 1 of n; "zigzag" 2 of 2n, rank and 2n - 1 - rank.

    The visible pairs of a causal mask grow with the row, so one early and one late chunk are as much as any other two.
    """
    expect.choice("order", order, ORDERS)
    return (rank,) if order == "contiguous" else (rank, 2 * num_ranks - 1 - rank)


@counted
def shard(x, rank, num_ranks, *, dim=2, order="zigzag"):
    """The tokens of a rank, of a tensor of all tokens along `dim`; contiguous."""
    expect.choice("order", order, ORDERS)
    dim = require_dim(x, dim)
    count = num_ranks if order == "contiguous" else 2 * num_ranks
    if x.shape[dim] % count:
        raise ShapeError(f"{x.shape[dim]} tokens in {count} chunks; the order {order} on {num_ranks} ranks needs a "
                         f"multiple of {count}: pad the sequence.")  # fmt: skip
    parts = x.chunk(count, dim)
    return torch.cat([parts[chunk] for chunk in chunks_of(rank, num_ranks, order)], dim)


def unshard(parts, *, dim=2, order="zigzag"):
    """All tokens in their order, from the tensors of all ranks."""
    expect.choice("order", order, ORDERS)
    require_alike(parts)
    dim, num_ranks, per_rank = require_dim(parts[0], dim), len(parts), 1 if order == "contiguous" else 2
    if parts[0].shape[dim] % per_rank or not parts[0].shape[dim]:
        raise ShapeError(f"a rank has {parts[0].shape[dim]} tokens; the order {order} needs a multiple of {per_rank}.")
    pieces = {}
    for rank, part in enumerate(parts):
        pieces |= zip(chunks_of(rank, num_ranks, order), part.chunk(per_rank, dim), strict=True)
    return torch.cat([pieces[chunk] for chunk in sorted(pieces)], dim)


@_of_orders
@counted
# region: visible
def visible(rank, source, order):
    """What the queries of `rank` see of the keys of `source` under a causal mask: (rows, keys, causal), or None.

    rows, keys : "all", "first" or "last", the half of the rank's tokens; causal : the mask within
    """
    if rank == source:
        return "all", "all", True
    if order == "contiguous":
        return ("all", "all", False) if source < rank else None
    return ("all", "first", False) if source < rank else ("last", "all", False)


# endregion


@counted
def work(num_ranks, order):
    """Pairs of chunks that each rank computes at each hop of a causal ring: [rank][hop], in (half chunks)^2.

    The longest of a hop decides how long it takes: the ranks wait for each other.
    """
    expect.choice("order", order, ORDERS)
    sizes = {"all": 2, "first": 1, "last": 1}
    table = []
    for rank in range(num_ranks):
        seen = [visible(rank, (rank - hop) % num_ranks, order) for hop in range(num_ranks)]
        table.append([0 if s is None else sizes[s[0]] * sizes[s[1]] * (0.5 if s[2] else 1) for s in seen])
    return table


def _require_sharded(world, q, k, v, attend):
    """Raise where these are not what `shard` gives of q, k and v."""
    require_world(world)
    require_attention(q, k, v)
    expect.function("attend", attend)
    if q.shape[2] != k.shape[2]:
        raise ShapeError(f"a rank has {q.shape[2]} tokens of q and {k.shape[2]} of k; `shard` gives as many of both.")


@typed
# region: ring
def ring_attention(world, q, k, v, *, causal=True, order="zigzag", softmax_scale=None, attend=flash_attention_lse):
    """Exact attention of this rank's queries over the keys of all ranks.

    Parameters
    ----------
    q : (batch_size, num_heads, tokens, head_dim); k, v : with num_kv_heads; contiguous, cut by `shard`
    causal, softmax_scale : as in flash attention; order : as in `shard`, which matters under a causal mask alone
    attend : function(q, k, v, causal=…, softmax_scale=…) -> (out, lse), the local kernel

    Returns
    -------
    (out, lse) : out like q; lse (batch_size, num_heads, tokens), natural log

    Notes
    -----
    On the wire  (n - 1) * 2 * tokens * num_kv_heads * head_dim * itemsize bytes sent by each rank, see `ring_bytes`
    Overlap      the next block is on its way while the kernel works on this one; K and V have two buffers each
    """
    _require_sharded(world, q, k, v, attend)
    expect.choice("order", order, ORDERS)
    if causal and order == "zigzag" and q.shape[2] % 2:
        raise ShapeError(f"a rank has {q.shape[2]} tokens; the order zigzag gives it two chunks: use `shard`.")
    n, rank, blocks, spare = world.num_ranks, world.rank, (k, v), None
    out = lse = None
    for hop in range(n):
        pending = world.start_ring(*blocks, out=spare, label=f"hop {hop + 1}") if hop < n - 1 else None
        seen = visible(rank, (rank - hop) % n, order) if causal else ("all", "all", False)
        if seen is not None:
            rows, keys, mask = seen
            tensors = (_half(q, rows), *(_half(block, keys) for block in blocks))
            with world.span(f"attention {hop}"):
                part, part_lse = attend(*tensors, causal=mask, softmax_scale=softmax_scale)
                if out is None:
                    out, lse = part if n <= 2 or part.dtype == torch.float64 else part.float(), part_lse
                else:
                    merge_into(_half(out, rows), _half(lse, rows), part, part_lse)
        if pending is not None:
            spare = blocks if hop else None  # the caller's own k and v are not written
            blocks = pending.wait()
    return out.to(q.dtype), lse


def _half(x, part):
    """A view of all tokens (dimension 2), of the first half or of the last."""
    half = x.shape[2] // 2
    return {"all": x, "first": x[:, :, :half], "last": x[:, :, half:]}[part]


# endregion


@counted
def ring_bytes(num_ranks, num_tokens, num_kv_heads, head_dim, itemsize):
    """Bytes that each rank sends in `ring_attention` over `num_tokens` tokens in all: K and V of a rank, n - 1 times.

    Of all ranks together, a token: (n - 1) * 2 * num_kv_heads * head_dim * itemsize.
    """
    return (num_ranks - 1) * 2 * _tokens_a_rank(num_tokens, num_ranks) * num_kv_heads * head_dim * itemsize


def _tokens_a_rank(num_tokens, num_ranks):
    if num_tokens % num_ranks:
        raise ShapeError(f"{num_tokens} tokens on {num_ranks} ranks; every rank has as many: pad the sequence.")
    return num_tokens // num_ranks


@typed
# region: ulysses
def ulysses_attention(world, q, k, v, *, causal=True, softmax_scale=None, attend=flash_attention_lse):
    """Exact attention, each rank computing all tokens of num_heads / n heads.

    Parameters
    ----------
    q : (1, num_heads, tokens, head_dim); k, v : with num_kv_heads; n divides num_heads. With fewer KV heads than ranks
        each is sent to the ranks that need it
    tokens are cut by `shard` with order="contiguous"

    Returns
    -------
    out : like q
    """
    _require_sharded(world, q, k, v, attend)
    n = world.num_ranks
    if len(q) != 1:
        raise ShapeError(f"q has batch_size={len(q)}; Ulysses sends the heads of 1 sequence.")
    require_heads(q.shape[1], k.shape[1], n)
    if n > k.shape[1]:
        k, v = (x.repeat_interleave(n // k.shape[1], dim=1) for x in (k, v))
    q, k, v = (_heads_to_ranks(world, x, name) for x, name in ((q, "q"), (k, "k"), (v, "v")))
    with world.span("attention"):
        out, _ = attend(q, k, v, causal=causal, softmax_scale=softmax_scale)
    return _tokens_to_ranks(world, out)


def _heads_to_ranks(world, x, name):
    """(1, heads, tokens, d) -> (1, heads / n, all tokens, d): the rows that are sent are heads."""
    rows = world.all_to_all(x[0], label=f"{name}: heads to ranks")  # (n * heads / n, tokens, d), source rank first
    return rows.unflatten(0, (world.num_ranks, -1)).transpose(0, 1).flatten(1, 2)[None]


def _tokens_to_ranks(world, x):
    """(1, heads / n, all tokens, d) -> (1, heads, tokens, d)."""
    rows = x[0].unflatten(1, (world.num_ranks, -1)).transpose(0, 1).flatten(0, 1)
    return world.all_to_all(rows, label="out: tokens to ranks")[None]


# endregion


@counted
def ulysses_bytes(num_ranks, num_tokens, num_heads, num_kv_heads, head_dim, itemsize):
    """Bytes that each rank sends in `ulysses_attention`: (n - 1) / n of its part of q, k, v and out."""
    require_heads(num_heads, num_kv_heads, num_ranks)
    heads = 2 * num_heads + 2 * max(num_kv_heads, num_ranks)
    return (num_ranks - 1) * _tokens_a_rank(num_tokens, num_ranks) * heads * head_dim * itemsize // num_ranks


@counted
def require_heads(num_heads, num_kv_heads, num_ranks):
    """Raise where heads cannot be given to ranks in equal parts."""
    fits = num_kv_heads % num_ranks == 0 or num_ranks % num_kv_heads == 0
    if num_heads % num_kv_heads:
        raise ShapeError(f"{num_heads} query heads and {num_kv_heads} KV heads; the KV heads must divide the others.")
    if num_heads % num_ranks or not fits:
        raise ShapeError(
            f"{num_heads} query heads and {num_kv_heads} KV heads on {num_ranks} ranks; the ranks must divide the "
            "query heads, and the KV heads the ranks or the ranks the KV heads."
        )

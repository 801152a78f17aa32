"""Tensor parallelism: every rank has some rows or columns of every matrix, and two all-reduces join them in a layer.

column parallel  W cut by its outputs: y_r = x W_r^T, no communication; each rank has some of y
row parallel     W cut by its inputs: y = sum of x_r W_r^T, an all-reduce; the bias is added once, after it

A matrix is (out, in), tokens are (num_tokens, hidden_size), the same on every rank.

Source: M. Shoeybi et al., "Megatron-LM", 2019, arXiv:1909.08053, section 3

May import: errors, expect, ops._foundation, parallel.checked, parallel.context, parallel.world, torch.
"""

import functools
import inspect

import torch
import torch.nn.functional as F

from .. import expect
from ..errors import ShapeError
from ..ops._foundation.typed import typed
from ..ops._foundation.values import looked_at
from .checked import counted, require_dim
from .context import require_heads
from .world import require_world


@counted
def part_of(x, rank, num_ranks, dim=0):
    """The part of a rank, contiguous; num_ranks divides x.shape[dim]."""
    dim = require_dim(x, dim)
    if x.shape[dim] % num_ranks:
        raise ShapeError(f"{x.shape[dim]} along dim {dim} cannot be cut into {num_ranks} equal parts.")
    return x.chunk(num_ranks, dim)[rank].contiguous()


@counted
def parts_of_groups(x, sizes, rank, num_ranks):
    """The part of each of several stacked matrices, stacked again: gates and ups, or q, k and v; cut by rows."""
    sizes = expect.tokens("sizes", sizes, of="size", error=ShapeError)
    require_dim(x, 0)
    if sum(sizes) != len(x):
        raise ShapeError(f"sizes={sizes} are {sum(sizes)} rows together; x has {len(x)}.")
    return torch.cat([part_of(part, rank, num_ranks) for part in x.split(sizes)])


def _product(function):
    """Decorate a product of x (num_tokens, in) and weight (out, in), with or without a world before them."""
    first = list(inspect.signature(function).parameters).index("x")

    @functools.wraps(function)
    def checked(*args, **kwargs):
        x, weight, bias = _named(args[first:], kwargs, "x", "weight", "bias")
        if first:
            require_world(args[0] if args else kwargs["world"])
        fits = isinstance(x, torch.Tensor) and x.ndim >= 1 and weight.ndim == 2 and x.shape[-1] == weight.shape[1]
        if not fits or x.dtype != weight.dtype or not x.is_floating_point():
            raise ShapeError(
                f"x is {x.dtype} {tuple(x.shape)} and weight {weight.dtype} {tuple(weight.shape)}; expected "
                "(…, in) and (out, in) of one float type."
            )
        if bias is not None and (bias.shape != weight.shape[:1] or bias.dtype != x.dtype):
            raise ShapeError(f"bias is {bias.dtype} {tuple(bias.shape)}; expected {x.dtype} ({len(weight)},).")
        return function(*args, **kwargs)

    return typed(checked)


def _named(args, kwargs, *names):
    """Arguments by name, None where one is not given."""
    given = dict(zip(names, args, strict=False)) | kwargs
    return [given.get(name) for name in names]


def _activated(function):
    """Decorate the layer of two products and an activation between them."""

    @functools.wraps(function)
    def checked(world, x, up, down, activation, *biases, **named):
        expect.function("activation", activation)
        return function(world, x, up, down, activation, *biases, **named)

    return checked


# region: linear
def column_parallel(x, weight, bias=None):
    """x weight^T + bias for the outputs of this rank; x is whole, weight and bias are its rows of them."""
    return F.linear(x, weight, bias)


def row_parallel(world, x, weight, bias=None, *, label=""):
    """The whole x weight^T + bias on every rank; x and weight are this rank's inputs, the bias is whole.

    On the wire  one all-reduce of the output: 2 (n - 1) / n * num_tokens * out * itemsize bytes sent by each rank
    """
    y = world.all_reduce(F.linear(x, weight), label=label)
    return y if bias is None else y + bias


def mlp(world, x, up, down, activation, up_bias=None, down_bias=None):
    """down(activation(up x)) with the inner width over the ranks: one all-reduce, after the activation and `down`."""
    inner = activation(column_parallel(x, up, up_bias))
    return row_parallel(world, inner, down, down_bias, label="mlp")


# endregion

# checked here and not above, where chapter 15 shows them
column_parallel, row_parallel, mlp = _product(column_parallel), _product(row_parallel), _activated(mlp)


# region: heads
@counted
def heads_of(rank, num_ranks, num_heads, num_kv_heads):
    """(query heads, KV heads) of a rank, two ranges; with fewer KV heads than ranks several ranks have the same one.

    Query head h reads KV head h // (num_heads / num_kv_heads), whichever rank has it.
    """
    require_heads(num_heads, num_kv_heads, num_ranks)
    per_rank = num_heads // num_ranks
    queries = range(rank * per_rank, (rank + 1) * per_rank)
    num_q_per_kv = num_heads // num_kv_heads
    return queries, range(queries.start // num_q_per_kv, (queries.stop - 1) // num_q_per_kv + 1)


@counted
def qkv_part(qkv, rank, num_ranks, num_heads, num_kv_heads, head_dim):
    """Rows of the stacked matrix (or bias) of q, k and v that a rank needs."""
    queries, kv = heads_of(rank, num_ranks, num_heads, num_kv_heads)
    require_dim(qkv, 0)
    if len(qkv) != (num_heads + 2 * num_kv_heads) * head_dim:
        raise ShapeError(
            f"qkv has {len(qkv)} rows; {num_heads} query heads and twice {num_kv_heads} KV heads of {head_dim} are "
            f"{(num_heads + 2 * num_kv_heads) * head_dim}."
        )
    q, k, v = qkv.split((num_heads * head_dim, num_kv_heads * head_dim, num_kv_heads * head_dim))
    parts = ((q, queries), (k, kv), (v, kv))
    return torch.cat([x[heads.start * head_dim : heads.stop * head_dim] for x, heads in parts])


@counted
def attention(world, x, qkv, out, attend, num_heads, num_kv_heads, head_dim, qkv_bias=None, out_bias=None):
    """Attention with its heads over the ranks: one all-reduce, after the output projection.

    qkv : rows as `qkv_part` gives them; out : (hidden_size, q_size / n), columns of this rank's heads
    attend : function(q, k, v), (num_tokens, heads, head_dim) each -> like q, whatever mask it applies
    num_heads, num_kv_heads : of the whole layer
    """
    require_world(world)
    expect.function("attend", attend)
    queries, kv = heads_of(world.rank, world.num_ranks, num_heads, num_kv_heads)
    sizes = [len(heads) * head_dim for heads in (queries, kv, kv)]
    if not isinstance(qkv, torch.Tensor) or qkv.ndim != 2 or len(qkv) != sum(sizes):
        raise ShapeError(f"qkv is {expect.shown(qkv)}; expected the {sum(sizes)} rows that `qkv_part` gives this rank.")
    q, k, v = (part.unflatten(-1, (-1, head_dim)) for part in column_parallel(x, qkv, qkv_bias).split(sizes, dim=-1))
    return row_parallel(world, attend(q, k, v).flatten(1), out, out_bias, label="attention")


# endregion


def _require_ids(name, ids, vocab_size):
    """Whole numbers of the vocabulary; their values on the CPU alone, on a GPU a look would wait for it."""
    if ids.dtype not in (torch.int64, torch.int32) or not ids.numel():
        raise ShapeError(f"{name} are {ids.dtype} {tuple(ids.shape)}; expected whole numbers, at least one.")
    if looked_at(ids, validate=False):
        low, high = (int(number) for number in torch.aminmax(ids))
        if low < 0 or high >= vocab_size:
            raise ShapeError(f"{name} go from {low} to {high}; the vocabulary has 0 to {vocab_size - 1}.")


def _require_part(world, name, part, dim, vocab_size):
    rows = -(-vocab_size // world.num_ranks)
    if not isinstance(part, torch.Tensor) or part.ndim != 2 or part.shape[dim] != rows or part.is_meta:
        shape = tuple(part.shape) if isinstance(part, torch.Tensor) else expect.shown(part)
        raise ShapeError(f"{name} is {shape}; expected two dimensions, {rows} along dim {dim}: `vocabulary_part`.")
    if not part.is_floating_point():
        raise ShapeError(f"{name} is {part.dtype}; expected a float type.")


# region: vocabulary
@counted
def vocabulary_of(rank, num_ranks, vocab_size):
    """The tokens of a rank, a range; the last ranks may have fewer."""
    rows = -(-vocab_size // num_ranks)
    return range(min(rank * rows, vocab_size), min((rank + 1) * rows, vocab_size))


@counted
def vocabulary_part(table, rank, num_ranks):
    """Rows of the embedding or the head that a rank has, ceil(vocab_size / n), filled up with zeros."""
    if not isinstance(table, torch.Tensor) or table.ndim != 2 or table.is_meta or not len(table):
        raise ShapeError(f"table is {expect.shown(table)}; expected a tensor (vocab_size, hidden_size).")
    if not table.is_floating_point() or table.layout != torch.strided:
        raise ShapeError(f"table is {table.dtype}, {table.layout}; expected a float type in plain memory.")
    tokens, rows = vocabulary_of(rank, num_ranks, len(table)), -(-len(table) // num_ranks)
    part = table.new_zeros(rows, table.shape[1])
    part[: len(tokens)] = table[tokens.start : tokens.stop]
    return part


@typed
@counted
def embedding(world, ids, part, vocab_size):
    """The rows of `ids` from a table that is cut by tokens: zeros for the tokens of others, and one all-reduce."""
    require_world(world)
    tokens = vocabulary_of(world.rank, world.num_ranks, vocab_size)
    _require_ids("ids", ids, vocab_size)
    _require_part(world, "part", part, 0, vocab_size)
    own = (ids >= tokens.start) & (ids < tokens.stop)
    rows = F.embedding((ids - tokens.start).masked_fill(~own, 0), part).masked_fill(~own[..., None], 0.0)
    return world.all_reduce(rows, label="embedding")


@typed
@counted
def logits(world, x, part, vocab_size):
    """All logits on every rank, (num_tokens, vocab_size): an all-gather along the vocabulary."""
    require_world(world)
    _require_part(world, "part", part, 0, vocab_size)
    if x.ndim != 2 or x.shape[1] != part.shape[1] or x.dtype != part.dtype:
        raise ShapeError(
            f"x is {x.dtype} {tuple(x.shape)} and part {part.dtype} {tuple(part.shape)}; widths must agree."
        )
    return world.all_gather(F.linear(x, part), dim=1, label="logits")[:, :vocab_size]


@typed
@counted
def cross_entropy(world, own_logits, targets, vocab_size):
    """(mean loss, its gradient for this rank's logits) without gathering the logits.

    own_logits : (num_tokens, ceil(vocab_size / n)) of this rank; targets : (num_tokens,), of all tokens
    On the wire  three all-reduces of a number a token: largest logit, sum of exponentials, logit of the target
    """
    require_world(world)
    _require_part(world, "own_logits", own_logits, 1, vocab_size)
    _require_ids("targets", targets, vocab_size)
    if targets.shape != own_logits.shape[:1] or not len(targets):
        raise ShapeError(
            f"targets are {tuple(targets.shape)} and own_logits {tuple(own_logits.shape)}; a target a row."
        )
    tokens = vocabulary_of(world.rank, world.num_ranks, vocab_size)
    valid = own_logits[:, : len(tokens)]
    m = valid.amax(1) if len(tokens) else own_logits.new_full((len(own_logits),), -torch.inf)
    m = world.all_reduce(m.contiguous(), "max", label="largest logit")
    exponentials = torch.exp(valid - m[:, None])
    l = world.all_reduce(exponentials.sum(1), label="sum of exponentials")
    own = (targets >= tokens.start) & (targets < tokens.stop)
    index = (targets - tokens.start).masked_fill(~own, 0)[:, None]
    of_target = valid.gather(1, index)[:, 0] if len(tokens) else torch.zeros_like(m)
    of_target = world.all_reduce(of_target.masked_fill(~own, 0.0), label="logit of the target")
    gradient = torch.zeros_like(own_logits)
    gradient[:, : len(tokens)] = exponentials / l[:, None]
    gradient[own, index[own, 0]] -= 1.0
    return (m + l.log() - of_target).mean(), gradient / len(targets)


# endregion


@counted
def layer_bytes(num_ranks, hidden_size, itemsize):
    """Bytes that each rank sends for one token in one layer: two all-reduces of its hidden state."""
    return 2 * 2 * (num_ranks - 1) * hidden_size * itemsize / num_ranks

"""Expert parallelism: the experts of chapter 12's mixture over the ranks, tokens sent to them and back by all-to-all.

Rank r has the experts r * E / n to (r + 1) * E / n - 1, and tokens of its own. Its pairs of token and expert, sorted by
expert, are already in the order of the ranks: what goes to a rank is a stretch of rows.

Source: D. Lepikhin et al., "GShard", 2020, arXiv:2006.16668, section 3.2

May import: errors, expect, ops._foundation, ops.moe and ops.activation, parallel.checked, parallel.world, torch.
"""

import torch
import torch.nn.functional as F

from .. import expect
from ..errors import ShapeError
from ..ops import moe as kernels
from ..ops._foundation.typed import typed
from ..ops._foundation.values import looked_at
from ..ops.activation import swiglu
from .checked import counted, require_parts
from .world import require_world


@typed
# region: moe
def moe(world, x, router_logits, w_up, w_down, *, top_k, renormalise=True):
    """A mixture of SwiGLU experts, each on one rank: route, dispatch, experts, return, combine. No token is dropped.

    Parameters
    ----------
    x : (num_tokens, hidden), this rank's tokens; ranks may have different numbers of them
    router_logits : (num_tokens, num_experts), over the experts of all ranks
    w_up : (num_experts / n, 2 * width, hidden), gates, then ups, of this rank's experts
    w_down : (num_experts / n, hidden, width)

    Returns
    -------
    out : like x, equal to that of one rank with all experts

    Notes
    -----
    On the wire  hidden * itemsize bytes for each pair whose expert is elsewhere, there and back; see `moe_bytes`.
                 Before them num_experts / n counts to each rank
    Kernels      half precision on a GPU runs chapter 12's kernels, anything else plain torch
    """
    _require_experts(world, x, router_logits, w_up, w_down, top_k)
    num_experts, on_gpu = router_logits.shape[1], x.is_cuda and x.dtype != torch.float64
    run = _kernels if on_gpu else _plain
    with world.span("route"):
        experts, weights = run["route"](router_logits, top_k, renormalise)
        rows, places, counts = run["sort"](x, experts, num_experts)
    # region: dispatch
    theirs = world.all_to_all(counts, label="counts").view(world.num_ranks, -1)  # rows by source and own expert
    both = torch.stack((counts.view(world.num_ranks, -1), theirs))
    send_sizes, recv_sizes = both.sum(2).tolist()  # the only time that the host waits for the GPU
    arrived = world.all_to_all(rows, send_sizes, recv_sizes, label="dispatch")
    with world.span("experts"):
        done = run["experts"](arrived, theirs, w_up, w_down)
    returned = world.all_to_all(done, recv_sizes, send_sizes, label="return")
    # endregion
    with world.span("combine"):
        return run["combine"](returned, places, weights)


# endregion


def _require_experts(world, x, router_logits, w_up, w_down, top_k):
    """Shapes and dtypes that belong together, and finite logits where they are on the CPU."""
    require_world(world)
    if (x.ndim, router_logits.ndim, w_up.ndim, w_down.ndim) != (2, 2, 3, 3) or not min(len(w_up), x.shape[1]):
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in (x, router_logits, w_up, w_down))
        raise ShapeError(f"x, router_logits, w_up and w_down are {shapes}; expected 2, 2, 3 and 3 dimensions.")
    num_experts, own, hidden, width = router_logits.shape[1], len(w_up), x.shape[1], w_down.shape[2]
    if num_experts != world.num_ranks * own:
        raise ShapeError(f"{num_experts} experts; {world.num_ranks} ranks with {own} each have another number.")
    if len(router_logits) != len(x) or w_up.shape != (own, 2 * width, hidden) or w_down.shape != (own, hidden, width):
        raise ShapeError(
            f"x is {tuple(x.shape)}, router_logits {tuple(router_logits.shape)}, w_up {tuple(w_up.shape)} and w_down "
            f"{tuple(w_down.shape)}; expected a row of logits a token, (experts, 2 * width, hidden) and (experts, "
            "hidden, width)."
        )
    if not x.is_floating_point() or not router_logits.is_floating_point() or {w_up.dtype, w_down.dtype} != {x.dtype}:
        raise ShapeError(
            f"x is {x.dtype}, router_logits {router_logits.dtype}, w_up {w_up.dtype} and w_down {w_down.dtype}; "
            "expected float types, the same for all but the logits."
        )
    if not 1 <= top_k <= num_experts:
        raise ShapeError(f"top_k={top_k} of {num_experts} experts; expected 1 to {num_experts}.")
    if looked_at(router_logits, validate=False) and not bool(torch.isfinite(router_logits).all()):
        raise ShapeError("router_logits hold NaN or an infinity; experts are chosen by finite logits.")


@counted
def moe_bytes(experts, rank, num_ranks, num_experts, hidden, itemsize):
    """(bytes sent with the rows of this rank's tokens, bytes of its counts) for the experts (num_tokens, top_k) chosen.

    The rows come back from the ranks they went to, which send as many bytes for them: a layer's traffic is twice the
    sum of the first number over all ranks.
    """
    require_parts("num_experts", num_experts, num_ranks, "ranks")
    if not isinstance(experts, torch.Tensor) or experts.ndim != 2 or experts.is_meta:
        raise ShapeError(f"experts is {expect.shown(experts)}; expected whole numbers (num_tokens, top_k).")
    if experts.dtype not in (torch.int64, torch.int32):
        raise ShapeError(f"experts is {experts.dtype}; expected torch.int64 or torch.int32.")
    if experts.numel() and looked_at(experts, validate=False):
        low, high = int(experts.min()), int(experts.max())
        if low < 0 or high >= num_experts:
            raise ShapeError(f"experts holds {low} to {high}; there are 0 to {num_experts - 1}.")
    per_rank = num_experts // num_ranks
    elsewhere = int((experts // per_rank != rank).sum())
    return elsewhere * hidden * itemsize, (num_ranks - 1) * per_rank * 8


@counted
def expected_bytes(num_ranks, top_k, hidden, itemsize):
    """Bytes on the wire for a token and layer when the router is even: top_k rows, (n - 1) / n of them away."""
    return 2 * top_k * (num_ranks - 1) * hidden * itemsize / num_ranks


def _route(logits, top_k, renormalise):
    """(experts, weights), (num_tokens, top_k), the lower number first among equals."""
    wide = logits.double() if logits.dtype == torch.float64 else logits.float()
    weights, experts = torch.sort(wide.softmax(-1), dim=-1, descending=True, stable=True)
    weights, experts = weights[:, :top_k], experts[:, :top_k]
    return experts, weights / weights.sum(-1, keepdim=True) if renormalise else weights


def _sort(x, experts, num_experts):
    """(rows of x by expert, place of each pair among them, rows for each expert)."""
    order = torch.sort(experts.flatten(), stable=True).indices
    places = torch.empty_like(order)
    places[order] = torch.arange(len(order), device=order.device)
    counts = torch.bincount(experts.flatten(), minlength=num_experts)
    return x[order // experts.shape[1]], places.view_as(experts), counts


def _experts(rows, theirs, w_up, w_down):
    """down(silu(gate) * up) of every row by its expert; rows in the order of (source, expert)."""
    own = torch.arange(theirs.shape[1], device=rows.device).repeat(len(theirs))
    expert, out = own.repeat_interleave(theirs.flatten()), torch.empty_like(rows)
    for number, (up, down) in enumerate(zip(w_up, w_down, strict=True)):
        gate, linear = (rows[expert == number] @ up.T).chunk(2, dim=-1)
        out[expert == number] = (F.silu(gate) * linear) @ down.T
    return out


def _combine(rows, places, weights):
    return (rows[places] * weights[..., None].to(rows.dtype)).sum(1)


def _route_kernel(logits, top_k, renormalise):
    return kernels.route(logits, top_k, renormalise=renormalise)


def _sort_kernel(x, experts, num_experts):
    pairs = kernels.sort(experts, num_experts)
    counts = torch.empty(num_experts, dtype=torch.int64, device=x.device)
    torch.sub(pairs.offsets[1:], pairs.offsets[:-1], out=counts)
    return x[pairs.order // experts.shape[1]], pairs.places, counts


def _experts_kernel(rows, theirs, w_up, w_down):
    """Chapter 12's kernels on rows with one expert each: sort, two grouped products, and back to the order of rows."""
    if not len(rows):
        return rows
    number = torch.repeat_interleave(theirs.flatten().int(), output_size=len(rows))  # source * own experts + expert
    expert = number % len(w_up)
    language = "triton" if rows.is_cuda else "cuda"
    block_m = kernels.tile_rows(len(rows), len(w_up), language)
    pairs = kernels.sort(expert[:, None].contiguous(), len(w_up), block_m=block_m)
    both, width = kernels.grouped(rows, w_up, pairs, gather=True, language=language), w_down.shape[2]
    done = kernels.grouped(swiglu(both[:, :width], both[:, width:]), w_down, pairs, language=language)
    return done[pairs.places[:, 0]]


_plain = {"route": _route, "sort": _sort, "experts": _experts, "combine": _combine}
_kernels = {"route": _route_kernel, "sort": _sort_kernel, "experts": _experts_kernel, "combine": kernels.combine}

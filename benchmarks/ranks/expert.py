"""A layer of a mixture of experts with its experts over the ranks, beside one rank that has all of them.

128 experts of width 768 on 2,048 columns, 8 a token: the shape of Qwen3-30B-A3B. ``one rank`` runs all tokens of all
ranks; speedup is its time over the variant's. The peer is the same layer in plain torch: all_to_all_single and
torch._grouped_mm.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F

from course_lib.parallel import expert as ep

from .report import clear, fastest, ratio

SHAPE = {"num_experts": 128, "hidden": 2048, "width": 768, "top_k": 8}
DRY_SHAPE = {"num_experts": 8, "hidden": 32, "width": 16, "top_k": 2}
TOKENS, DRY_TOKENS = (128, 4096), (16,)  # of each rank
LIMIT = 0.03  # of the largest output: bfloat16 twice


@torch.no_grad()
def rows(world, report):
    for tokens in DRY_TOKENS if report.dry else TOKENS:
        one(world, report, tokens)
        clear()


def tensors(world, report, tokens):
    """x and logits of all ranks, and all experts; the same on every rank."""
    shape, n = DRY_SHAPE if report.dry else SHAPE, world.num_ranks
    dtype = torch.float32 if report.dry else torch.bfloat16
    generator = torch.Generator(world.device).manual_seed(7)

    def draw(*sizes, std=1.0, dtype=dtype):
        return torch.empty(sizes, dtype=dtype, device=world.device).normal_(0.0, std, generator=generator)

    experts, hidden, width = shape["num_experts"], shape["hidden"], shape["width"]
    x, logits = draw(n * tokens, hidden), draw(n * tokens, experts, dtype=torch.float32)
    return x, logits, draw(experts, 2 * width, hidden, std=hidden**-0.5), draw(experts, hidden, width, std=width**-0.5)


def one(world, report, tokens):
    """The rows of one number of tokens."""
    shape, n, rank = DRY_SHAPE if report.dry else SHAPE, world.num_ranks, world.rank
    x, logits, w_up, w_down = tensors(world, report, tokens)
    own = [part.chunk(n)[rank].contiguous() for part in (x, logits, w_up, w_down)]
    common = {"op": "MoE layer", "seq_len": tokens}
    columns = {"tokens_per_s": lambda us: f"{n * tokens / us * 1e6:.0f}"}
    solo = _Alone()
    whole = lambda: ep.moe(solo, x, logits, w_up, w_down, top_k=shape["top_k"])  # noqa: E731
    expected = whole().chunk(n)[rank].float()
    alone = report.add("one rank", whole, **common, **columns)
    columns["speedup"] = lambda us: ratio(alone, us)
    calls = {
        "torch all_to_all_single": lambda: plain(world, *own, shape["top_k"], report.dry),
        "course": lambda: ep.moe(world, *own, top_k=shape["top_k"]),
    }
    calls = calls if report.peers else {"course": calls["course"]}
    times = {}
    for name, call in calls.items():
        if name == "course":
            best = fastest(times.values())
            columns["ratio_to_best_peer"] = lambda us: ratio(best, us)  # noqa: B023
            columns["bytes_of"] = wire(world, logits, shape, x.element_size())
        try:
            error = report.largest((call().float() - expected).abs().max() / expected.abs().max())
        except Exception as problem:
            report.skip(name, problem, **common)
            continue
        times[name] = report.add(name, call, error=error, limit=LIMIT, **common, **columns)


def wire(world, logits, shape, itemsize):
    """Bytes that this rank sends: its rows away, counts, and the rows of others back."""
    n, rank = world.num_ranks, world.rank
    chosen = [part.topk(shape["top_k"]).indices for part in logits.chunk(n)]
    sizes = (n, shape["num_experts"], shape["hidden"], itemsize)
    rows, counts = ep.moe_bytes(chosen[rank], rank, *sizes)
    per_rank = shape["num_experts"] // n
    back = sum(int((part // per_rank == rank).sum()) for other, part in enumerate(chosen) if other != rank)
    return rows + counts + back * shape["hidden"] * itemsize


class _Alone:
    """A world of one, for the layer on one rank."""

    rank, num_ranks = 0, 1

    def all_to_all(self, x, *_, **__):
        return x

    def span(self, _):
        return torch.no_grad()


def plain(world, x, logits, w_up, w_down, top_k, dry):
    """The layer as a user of torch writes it."""
    n, per_rank = world.num_ranks, len(w_up)
    weights, experts = logits.softmax(-1).topk(top_k)
    weights = weights / weights.sum(-1, keepdim=True)
    order = experts.flatten().argsort(stable=True)
    counts = torch.bincount(experts.flatten(), minlength=n * per_rank)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    theirs = theirs.view(n, per_rank)
    send, recv = counts.view(n, -1).sum(1).tolist(), theirs.sum(1).tolist()
    rows = x.new_empty(sum(recv), x.shape[1])
    dist.all_to_all_single(rows, x[order // top_k], recv, send)
    expert = torch.arange(per_rank, device=x.device).repeat(n).repeat_interleave(theirs.flatten())
    by_expert = expert.argsort(stable=True)
    ends = theirs.sum(0).cumsum(0).to(torch.int32)
    gate, up = _grouped(rows[by_expert], w_up, ends, dry).chunk(2, dim=-1)
    done = torch.empty_like(rows)
    done[by_expert] = _grouped(F.silu(gate) * up, w_down, ends, dry)
    back = x.new_empty(len(order), x.shape[1])
    dist.all_to_all_single(back, done, send, recv)
    result = torch.empty_like(back)
    result[order] = back
    return (result.view(len(x), top_k, -1) * weights[..., None].to(x.dtype)).sum(1)


def _grouped(rows, weights, ends, dry):
    if not dry:
        return torch._grouped_mm(rows, weights.transpose(1, 2), offs=ends)
    parts = rows.tensor_split(ends.tolist()[:-1])
    return torch.cat([part @ weight.T for part, weight in zip(parts, weights, strict=True)])

"""Random calls of the layers of a model: rotary positions, sampling, experts, weights of four bits."""

import torch

from course_lib.ops import moe, rope, sampling, w4a16
from course_lib.reference import moe as reference_moe
from course_lib.reference import sampling as reference_sampling
from course_lib.reference import w4a16 as reference_w4a16
from course_lib.reference.rope import rope as reference_rope
from tests.unit.random_case import SIZES, Case


def _maybe(r, value):
    return r.choice((None, value))


def _rope(r):
    tokens, rotary_dim = r.choice(SIZES), r.choice((2, 8, 16))
    q, k = (torch.randn(tokens, r.choice((1, 3)), 16) for _ in range(2))
    arguments = {"q": q, "k": _maybe(r, k), "positions": torch.randint(-1 if r.random() < 0.2 else 0, 9, (tokens,))}
    arguments |= {"cos_sin": rope.cos_sin_cache(9, rotary_dim), "interleaved": r.random() < 0.5}
    arguments["inverse"] = r.random() < 0.5

    def expected(a):
        table, turned = a["cos_sin"], []
        assert bool(((a["positions"] >= 0) & (a["positions"] < len(table))).all()), "a position outside was taken"
        for x in (a["q"], a["k"]):
            if x is not None:
                turned.append(_turned(x.double(), table[a["positions"].long()].double()[:, None], a))
        return tuple(turned)

    return Case(_both, arguments, expected)


def _both(**arguments):
    return tuple(x for x in rope.rope(**arguments) if x is not None)


def _turned(x, table, a):
    """x with its pairs turned by rows of a table (tokens, 1, rotary_dim), which may be any."""
    rotary_dim = table.shape[-1]
    cos, sin = table.chunk(2, -1)
    sin = -sin if a["inverse"] else sin
    turned, rest = x[..., :rotary_dim], x[..., rotary_dim:]
    first, second = (turned[..., ::2], turned[..., 1::2]) if a["interleaved"] else turned.chunk(2, -1)
    pair = first * cos - second * sin, second * cos + first * sin
    joined = torch.stack(pair, -1).flatten(-2) if a["interleaved"] else torch.cat(pair, -1)
    return torch.cat((joined, rest), -1)


def _cache(r):
    def expected(a):
        ones = torch.ones(a["max_positions"], 1, a["rotary_dim"], dtype=torch.float64)
        ones[..., a["rotary_dim"] // 2 :] = 0.0  # 1 turned by an angle is its cosine and its sine
        return reference_rope(ones, torch.arange(a["max_positions"]), a["rotary_dim"], base=a["base"])[:, 0]

    arguments = {"max_positions": r.choice(SIZES), "rotary_dim": r.choice((2, 8, 64)), "base": r.choice((1e4, 5e5))}
    return Case(rope.cos_sin_cache, arguments, expected)


def _sample(r):
    rows, cols = r.choice(SIZES), r.choice((*SIZES, 300))
    arguments = {"logits": 4 * torch.randn(rows, cols), "temperature": torch.rand(rows) * r.choice((0, 2))}
    arguments |= {"noise": torch.rand(rows), "top_k": _maybe(r, torch.randint(-1, cols + 2, (rows,)).int())}
    arguments |= {"top_p": _maybe(r, torch.rand(rows)), "min_p": _maybe(r, torch.rand(rows) / 4)}

    def expected(a):
        assert not (a["logits"].isnan() | a["logits"].isposinf()).any() and a["logits"].isfinite().any(-1).all(), (
            "there is no token to take"
        )
        filters = {name: a[name] for name in ("top_k", "top_p", "min_p")}
        kept = reference_sampling.kept_probabilities(a["logits"], a["temperature"], **filters)
        return reference_sampling.sample(kept, a["noise"])

    return Case(sampling.sample, arguments, expected)


def _route(r):
    num_experts = r.choice((1, 8))  # each number is a kernel of its own
    arguments = {"logits": torch.randn(r.choice(SIZES), num_experts), "top_k": min(2, num_experts)}
    arguments["renormalise"] = r.random() < 0.5

    def expected(a):
        return reference_moe.route(a["logits"], a["top_k"], renormalise=a["renormalise"])

    return Case(moe.route, arguments, expected)


def _sort(r):
    num_experts = r.choice((1, 2, 8))
    experts = torch.randint(-1 if r.random() < 0.2 else 0, num_experts, (r.choice(SIZES), r.choice((1, 2)))).int()

    def expected(a):
        flat = a["experts"].flatten().long()
        assert 0 <= flat.min() and flat.max() < a["num_experts"], "an expert outside was taken"
        ends = torch.bincount(flat, minlength=a["num_experts"]).cumsum(0)
        return torch.cat((ends.new_zeros(1), ends)), flat.argsort(stable=True)

    return Case(_offsets_and_order, {"experts": experts, "num_experts": num_experts}, expected)


def _offsets_and_order(**arguments):
    pairs = moe.sort(**arguments)
    return pairs.offsets, pairs.order


def _combine(r):
    tokens, top_k = r.choice(SIZES), r.choice((1, 2, 3))
    places = torch.randperm(tokens * top_k).int().view(tokens, top_k)
    if r.random() < 0.2:
        places[-1, 0] = r.choice((-1, tokens * top_k))  # outside
    arguments = {"y": torch.randn(tokens * top_k, r.choice(SIZES)), "places": places}
    arguments["weights"] = torch.randn(tokens, top_k)

    def expected(a):
        assert a["places"].min() >= 0, "a place outside was taken"
        return (a["y"].double()[a["places"].long()] * a["weights"].double()[..., None]).sum(1)

    return Case(moe.combine, arguments, expected)


def _moe(r):
    tokens, num_experts, hidden, width = r.choice((1, 5)), 6, r.choice((8, 24)), r.choice((8, 16))
    arguments = {"x": torch.randn(tokens, hidden).half(), "router_logits": torch.randn(tokens, num_experts)}
    arguments["w_up"] = (0.03 * torch.randn(num_experts, 2 * width, hidden)).half()
    arguments |= {"w_down": (0.3 * torch.randn(num_experts, hidden, width)).half(), "top_k": 2}

    def expected(a):
        return reference_moe.moe(a["x"], a["router_logits"], a["w_up"], a["w_down"], top_k=a["top_k"])

    return Case(moe.moe, arguments, expected, 5e-2)


def _pack(r):
    q = torch.randint(0, r.choice((16, 17)), (r.choice(SIZES), r.choice((1, 32, 130))), dtype=torch.uint8)

    def expected(a):
        assert a["q"].max() < 16, "a number of more than four bits was taken"
        return reference_w4a16.pack(a["q"])

    return Case(w4a16.pack, {"q": q}, expected)


def _w4a16(r):
    group = r.choice((32, 64, 128))
    size_n, size_k = r.choice((1, 5, 16)), r.choice((128, 256))
    q, scales, zeros = reference_w4a16.quantise(torch.randn(size_n, size_k).half() / 8, group)
    arguments = {"x": torch.randn(r.choice((1, 5, 8, 9, 17)), size_k).half(), "packed": reference_w4a16.pack(q)}
    arguments |= {"scales": scales, "zeros": zeros}

    def expected(a):
        return reference_w4a16.product(a["x"], a["packed"], a["scales"], a["zeros"])

    return Case(r.choice((w4a16.linear, w4a16.gemv, w4a16.gemm)), arguments, expected, 2e-2)


MAKERS = (_rope, _cache, _sample, _route, _sort, _combine, _moe, _pack, _w4a16)

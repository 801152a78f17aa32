"""Random calls of what writes into caches and pools, compared as they are afterwards."""

import torch

from course_lib.ops import decode_linear, paged, rope
from course_lib.reference import norm as reference_norm
from tests.unit.random_case import Case


def _slots(r, count, num_slots):
    """Different slots, one sometimes negative, outside, or there twice."""
    slots = torch.randperm(num_slots)[:count]
    if r.random() < 0.4:
        slots[-1] = r.choice((-1, num_slots, int(slots[0])))
    return slots


def _require_slots(slots, num_slots):
    stored = slots[slots >= 0].tolist()
    assert max(stored, default=0) < num_slots, "a slot outside was taken"
    assert len(set(stored)) == len(stored), "a slot was taken twice"


def _norm_qkv(r):
    tokens, size_k, head_dim = r.choice((1, 3, 8)), r.choice((8, 72)), r.choice((2, 16))
    k_cache, v_cache = torch.randn(2, 12, 1, head_dim).half()
    arguments = {"x": torch.randn(tokens, size_k).half(), "norm_weight": torch.randn(size_k).half()}
    arguments |= {"weight": torch.randn(4 * head_dim, size_k).half() / 8, "k_cache": k_cache, "v_cache": v_cache}
    arguments |= {"slots": _slots(r, tokens, 12), "num_heads": 2, "eps": 1e-5}
    arguments |= {"positions": torch.randint(-1 if r.random() < 0.1 else 0, 9, (tokens,)).int()}
    arguments |= {"cos_sin": rope.cos_sin_cache(9, head_dim)}

    def expected(a):
        _require_slots(a["slots"], 12)
        places = a["positions"]
        assert places is None or (0 <= places.min() and places.max() < len(a["cos_sin"])), "a position outside"
        rows = reference_norm.rms_norm(a["x"], a["norm_weight"], a["eps"]).half().double() @ a["weight"].double().T
        heads = rows.unflatten(1, (4, -1))
        if places is not None:
            cos, sin = a["cos_sin"][places.long()].double()[:, None].chunk(2, -1)
            first, second = heads[:, :3].chunk(2, -1)
            heads[:, :3] = torch.cat((first * cos - second * sin, second * cos + first * sin), -1)
            heads[:, 3] += 0.0 * heads[:, 3].roll(a["cos_sin"].shape[1] // 2, -1)  # v is turned by 0: NaN spreads
        stored = a["slots"] >= 0
        caches = a["k_cache"].double(), a["v_cache"].double()
        for cache, head in zip(caches, (2, 3), strict=True):
            cache[a["slots"][stored]] = heads[stored, head : head + 1]
        return heads[:, :2], *caches

    return Case(_queries_and_caches, arguments, expected, 3e-2)


def _queries_and_caches(**arguments):
    return decode_linear.norm_qkv(**arguments), arguments["k_cache"], arguments["v_cache"]


def _reshape_and_cache(r):
    tokens = r.choice((1, 3, 5))
    k, v = torch.randn(2, tokens, 1, 64).half()
    k_pages, v_pages = torch.randn(2, 4, 8, 1, 64).half()
    arguments = {"k": k, "v": v, "k_pages": k_pages, "v_pages": v_pages, "slot_mapping": _slots(r, tokens, 32)}

    def expected(a):
        num_slots = a["k_pages"].shape[:2].numel()
        _require_slots(a["slot_mapping"], num_slots)
        stored = a["slot_mapping"] >= 0
        for name in "kv":
            a[name + "_pages"].view(num_slots, 1, 64)[a["slot_mapping"][stored]] = a[name][stored]
        return a["k_pages"], a["v_pages"]

    return Case(_written, arguments, expected)


def _written(**arguments):
    paged.reshape_and_cache(**arguments)
    return arguments["k_pages"], arguments["v_pages"]


def _copy_pages(r):
    k_pages, v_pages = torch.randn(2, 6, 8, 1, 64).half()
    copies = r.choice(([[0, 4]], [[0, 4], [0, 5]], [[0, 4], [4, 5]], [[0, 4], [1, 4]], [[0, 6]], [[-1, 2]]))
    arguments = {"k_pages": k_pages, "v_pages": v_pages, "copies": torch.tensor(copies)}

    def expected(a):
        sources, targets = a["copies"].unbind(1)
        pages = len(a["k_pages"])
        assert a["copies"].min() >= 0 and a["copies"].max() < pages, "a page outside was taken"
        assert len(set(targets.tolist())) == len(targets) and not torch.isin(targets, sources).any(), "an order"
        for name in ("k_pages", "v_pages"):
            a[name][targets] = a[name][sources]
        return a["k_pages"], a["v_pages"]

    return Case(_copied, arguments, expected)


def _copied(**arguments):
    paged.copy_pages(**arguments)
    return arguments["k_pages"], arguments["v_pages"]


MAKERS = (_norm_qkv, _reshape_and_cache, _copy_pages)

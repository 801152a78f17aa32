"""Pools of pages for every decode exercise of chapter 10: cases, inputs, runs, oracle, baseline.

The pages of a sequence are in random order. Slots without a token are NaN, except in page 0, which keeps the rows of an
ended sequence. Table entries past the end of a sequence name pages that no sequence holds, or are -1.

May import: spec, protocol, magnitude, inputs (by attention.cases), reference, torch.
"""

import torch

from ....reference import attention, paged
from ...exercise import magnitude
from ...exercise.spec import Case
from ...processes.protocol import Ref
from ..attention.cases import qkv

HEAD_DIM = 32
SIZES = ("num_heads", "num_kv_heads", "page_size", "seq_len_kv")  # seq_len_kv: of the longest sequence
SPARE = 3  # pages that no sequence holds
INPUTS = ("q", "k_pages", "v_pages", "block_table", "seq_lens")


def case(name, seq_lens, page_size=4, heads=(2, 1), values="normal", schedules=("forward",), **options):
    """A case of sequences with `seq_lens` tokens. options: hnd, minus_one (-1 past the end of the table), v."""
    sizes = dict(zip(SIZES, (*heads, page_size, max(seq_lens)), strict=True))
    return Case(name, sizes, values, options={"seq_lens": tuple(seq_lens), **options}, schedules=schedules)


def usual(schedules=("forward", "reverse"), page_size=4, first=("forward",), many=(21, 0, 9), many_heads=(2, 1)):
    """The cases of every decode kernel."""
    p = page_size
    return (
        case("one token", (1,), p, (1, 1), schedules=schedules),
        case("one below a page", (p - 1,), p, (1, 1), schedules=first),
        case("exactly one page", (p,), p, (1, 1), schedules=first),
        case("one above a page", (p + 1,), p, (1, 1), schedules=first),
        case("mixed lengths, grouped heads", (2 * p + 3, 1, 2 * p), p, (4, 2), schedules=schedules),
        case("a sequence without tokens", (0, p + 2), p, (1, 1), schedules=first),
        case("heads before slots", (2 * p + 1, p), p, (4, 2), schedules=first, hnd=True),
        case("rising scores", (3 * p + 3,), p, (1, 1), "rising", first),
        case("falling scores", (3 * p + 3,), p, (1, 1), "falling", first),
        case("scores near -100", (3 * p + 1,), p, (1, 1), "minus_100", first),
        case("scores near +100", (3 * p + 1,), p, (1, 1), "plus_100", first),
        case("one score of 120", (4 * p + 2,), p, (1, 1), "spikes", first),
        case("table that ends in -1", (2 * p + 2,), p, (1, 1), schedules=first, minus_one=True),
        case("many tokens", many, p, many_heads, schedules=()),
    )


def inputs(case, gen):
    """{"q", "k_pages", "v_pages", "block_table", "seq_lens"}: pools (num_pages, page_size, num_kv_heads, HEAD_DIM)."""
    if "slots" in case.options:
        return slot_inputs(case)
    num_heads, num_kv_heads, page_size, longest = case.sizes.values()
    lens = case.options["seq_lens"]
    shape = (len(lens), num_kv_heads, max(longest, 1), HEAD_DIM)
    dense = qkv(case, gen, (len(lens), num_heads, HEAD_DIM), shape)
    if case.options.get("v_of_head"):
        numbers = 1.0 + torch.arange(len(lens))[:, None] * num_kv_heads + torch.arange(num_kv_heads)[None, :]
        dense["v"] = numbers[:, :, None, None].expand(shape).clone()
    table, num_pages = _table(case, gen)
    tensors = {"q": dense["q"]}
    for name in ("k", "v"):
        pages = torch.full((num_pages, page_size, num_kv_heads, HEAD_DIM), torch.nan)
        pages[0] = torch.randn(pages[0].shape, generator=gen)
        for b, seq_len in enumerate(lens):
            tokens = torch.arange(seq_len)
            pages[table[b, tokens // page_size].long(), tokens % page_size] = dense[name][b, :, :seq_len].transpose(
                0, 1
            )
        if case.options.get("finite"):
            pages = pages.nan_to_num(0.0)
        if case.options.get("all_ones") and name == "v":
            pages = torch.ones_like(pages)
        tensors[f"{name}_pages"] = pages.transpose(1, 2).contiguous() if case.options.get("hnd") else pages
    return tensors | {"block_table": table, "seq_lens": torch.tensor(lens, dtype=torch.int32)}


def _table(case, gen):
    """(block_table, num_pages): random pages, then pages that no sequence holds, or -1."""
    page_size, lens = case.sizes["page_size"], case.options["seq_lens"]
    needed = [-(-seq_len // page_size) for seq_len in lens]
    num_pages = sum(needed) + SPARE
    order = torch.randperm(num_pages - 1, generator=gen) + 1
    order = torch.cat((order[: sum(needed)], torch.zeros(1, dtype=torch.int64), order[sum(needed) :]))
    spare = [-1] if case.options.get("minus_one") else order[sum(needed) :].tolist()
    rows, start = [], 0
    for count in needed:
        fill = max(needed) + SPARE - count
        rows.append(order[start : start + count].tolist() + (spare * fill)[:fill])
        start += count
    return torch.tensor(rows, dtype=torch.int32), num_pages


# the case in which every slot of the pool is distinguished: v of slot i is 1 in column i and 0 elsewhere
SLOT_PAGE_SIZE, SLOT_PAGES = 4, 8
SLOT_LENS = (6, 9, 3)
SLOT_TABLE = ((6, 2, 1, 4), (5, 0, 7, 1), (3, 4, 1, 0))


def slot_inputs(case):
    """One head, q = 0 and k = 7: each token weighs the same. With options["slots"] = "k", k of slot i gives i + 1."""
    slots = SLOT_PAGES * SLOT_PAGE_SIZE
    shape = (SLOT_PAGES, SLOT_PAGE_SIZE, 1, HEAD_DIM)
    q, k = torch.zeros(len(SLOT_LENS), 1, HEAD_DIM), torch.full(shape, 7.0)
    if case.options["slots"] == "k":
        q[..., -1] = HEAD_DIM**0.5
        k = torch.zeros(shape)
        k[..., -1] = torch.log(torch.arange(1.0, slots + 1)).reshape(shape[:3])
    v = torch.eye(slots).reshape(shape)
    lens, table = (torch.tensor(x, dtype=torch.int32) for x in (SLOT_LENS, SLOT_TABLE))
    return {"q": q, "k_pages": k, "v_pages": v, "block_table": table, "seq_lens": lens}


def layout(case):
    return "HND" if case.options.get("hnd") else "NHD"


def strides(case, tensors):
    """(stride_page, stride_slot, stride_kv_head) of both pools, in elements."""
    _, *steps, _ = tensors["k_pages"].stride()
    page = tensors["k_pages"].stride(0)
    return (page, *(steps[::-1] if case.options.get("hnd") else steps))


def outputs(tensors):
    """Shapes of out and lse."""
    return {"out": (tuple(tensors["q"].shape), "float32"), "lse": (tuple(tensors["q"].shape[:2]), "float32")}


def arguments(case, tensors, *between):
    """(q, k_pages, v_pages, block_table, seq_lens, out, lse, num_q_per_kv, *between, strides, softmax_scale)."""
    group = case.sizes["num_heads"] // case.sizes["num_kv_heads"]
    names = (*INPUTS, "out", "lse")
    return (*map(Ref, names), group, *between, *strides(case, tensors), HEAD_DIM**-0.5)


def grid(case, tensors):
    """(num_heads, batch_size, 1)."""
    return (case.sizes["num_heads"], len(tensors["seq_lens"]), 1)


def oracle(case, tensors):
    """{"out", "lse"}, float64."""
    results = paged.paged_attention_lse(*(tensors[name] for name in INPUTS), layout=layout(case))
    return dict(zip(("out", "lse"), results, strict=True))


def baseline(case, tensors):
    """{"out", "lse"} in float32, every intermediate rounded, a sequence at a time."""
    q = tensors["q"]
    out, lse = torch.zeros_like(q), torch.full(q.shape[:2], -torch.inf)
    for b, seq_len in enumerate(tensors["seq_lens"].tolist()):
        if seq_len:
            k, v = (
                paged.gathered(tensors[name], tensors["block_table"][b], seq_len, layout=layout(case))
                for name in ("k_pages", "v_pages")
            )
            row = attention.rounded_attention_lse(q[b, :, None], k, v)
            out[b], lse[b] = row[0][:, 0], row[1][:, 0]
    return {"out": out, "lse": lse}


def largest_score(case, tensors):
    """Largest score over the tokens of each sequence; other slots and pages are poison."""
    scores = [0.0]
    for b, seq_len in enumerate(tensors["seq_lens"].tolist()):
        k = paged.gathered(tensors["k_pages"], tensors["block_table"][b], seq_len, layout=layout(case))
        scores.append(magnitude.of_pairs(tensors["q"][b, :, None], k))
    return max(scores)


def bound(case):
    """Fewest bytes: K and V of every token once, q and out, lse, and a table entry a page."""
    num_heads, num_kv_heads, page_size, _ = case.sizes.values()
    lens = case.options["seq_lens"]
    numbers = 2 * sum(lens) * num_kv_heads * HEAD_DIM + len(lens) * num_heads * (2 * HEAD_DIM + 1)
    entries = sum(-(-seq_len // page_size) for seq_len in lens) + len(lens)
    return 4 * (numbers + entries), "k and v of each token, q, the table and the lengths read once, out and lse written"

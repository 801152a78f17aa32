"""Pools of pages for every decode exercise of chapter 10: cases, inputs, runs, oracle, baseline.

The pages of a sequence are in random order. Slots without a token are NaN, or what options["past"] says, except in
page 0, which keeps the rows of an ended sequence. Table entries past the end of a sequence name pages that no sequence
holds, or are -1.

May import: spec, protocol, magnitude, inputs (by attention.cases), extent, ledger, reference, torch.
"""

import math

import torch

from ....reference import attention, paged
from ...exercise import magnitude
from ...exercise.spec import Case
from ...processes.protocol import Ref
from ..attention.cases import FAR, qkv, scale_of, unread_lse
from ..ledger.dots import dots
from ..ledger.moved import moved
from ..ledger.share import share
from . import extent

HEAD_DIM = 32  # of most cases
SIZES = ("num_heads", "num_kv_heads", "page_size", "seq_len_kv")  # seq_len_kv: of the longest sequence
LEVEL = -127.0 * 256.0  # -32,512: a byte and a scale hold it; lower ones leave float32 too few digits for lse
FAINT = (-21.0 * math.log(2.0), -40.0 * math.log(2.0))  # scores of the two halves of the keys after the first
SPARE = 3  # pages that no sequence holds
INPUTS = ("q", "k_pages", "v_pages", "block_table", "seq_lens")


def case(name, seq_lens, page_size=4, heads=(2, 1), values="normal", schedules=("forward",), late=False, **options):
    """A case of sequences with `seq_lens` tokens.

    options: hnd, minus_one (-1 past the end of the table), past (in slots without a token), v, head_dim, scale (the
    softmax_scale; 1 / sqrt(head_dim) without), times (the scores of the distribution), level (of the scores, in odd
    heads its negative), whole (numbers in q and k; a level rises from key to key), faint (keys of tiny weight after the
    first), full_last (the first page is the last of the pool), cut, far and gaps (extent.py)
    """
    sizes = dict(zip(SIZES, (*heads, page_size, max(seq_lens)), strict=True))
    return Case(name, sizes, values, options={"seq_lens": tuple(seq_lens), **options}, schedules=schedules, late=late)


def usual(schedules=("forward", "reverse"), first=("forward",), many=(21, 0, 9), many_heads=(2, 1)):
    """The cases of every decode kernel."""
    p = 4
    return (
        case("one token", (1,), p, (1, 1), schedules=schedules),
        case("one below a page", (p - 1,), p, (1, 1), schedules=first, past=torch.inf),
        case("exactly one page", (p,), p, (1, 1), schedules=first),
        case("one above a page", (p + 1,), p, (1, 1), schedules=first),
        case("mixed lengths, grouped heads", (2 * p + 3, 1, 2 * p), p, (4, 2), schedules=schedules, late=True),
        case("a sequence without tokens", (0, p + 2), p, (1, 1), schedules=first),
        case("heads before slots", (2 * p + 1, p), p, (4, 2), schedules=first, hnd=True, late=True),
        case("three query heads for each of k", (p + 1,), p, (6, 2), schedules=first, full_last=True),
        case("softmax_scale of another size", (p + 2,), p, (2, 1), schedules=first, scale=0.4),
        case("rising scores", (3 * p + 3,), p, (1, 1), "rising", first),
        case("falling scores", (3 * p + 3,), p, (1, 1), "falling", first),
        case("scores falling by 60 a page", (3 * p + 3,), p, (1, 1), "falling", first, late=True, times=16.0),
        case("scores near -100", (3 * p + 1,), p, (1, 1), "minus_100", first, past=500.0),
        case("scores near +100", (3 * p + 1,), p, (1, 1), "plus_100", first),
        case("one score of 120", (4 * p + 2,), p, (1, 1), "spikes", first),
        case("table that ends in -1", (2 * p + 2,), p, (1, 1), schedules=first, minus_one=True),
        case("gaps between pages, slots and heads", (2 * p + 1, 3), p, (2, 2), schedules=first, late=True, gaps=True),
        case("many tokens", many, p, many_heads, schedules=(), late=True),
        *ends(),
        case("scores of -32,512 and 32,512", (p, p + 1), p, scale=0.25, level=LEVEL, whole=True, late=True),
        far_below((p, p + 1), p),
    )


def far_below(seq_lens, page_size=4, **options):
    """A case of equal scores below -1e9. A float32 log-sum-exp does not count them, so `lse` is not compared."""
    return case("scores below -1e9", seq_lens, page_size, (1, 1), "below_1e9", late=True, **options)


def lowest(case):
    """The lowest score of a case of scores far below 0; None of other cases."""
    if case.values == "below_1e9":
        return -FAR * FAR * head_dim(case) * scale(case)
    return case.options.get("level")


def unread(case, tensors):
    """{output: mask} of what is not compared."""
    return unread_lse(case, tensors["q"].shape[:2])


def ends(head_dim=HEAD_DIM):
    """Cases of which nothing lies behind the last token, or before page 2^29."""
    return (
        case("nothing after the last token", (4, 10), cut=True, head_dim=head_dim, late=True),
        case("nothing after a full page", (8,), cut=True, head_dim=head_dim, late=True),
        case("no token in the last sequence", (3, 0), heads=(1, 1), cut=True, head_dim=head_dim, late=True),
        case("pages from 2^29 on", (6,), heads=(1, 1), far=True, head_dim=head_dim, late=True),
    )


def inputs(case, gen):
    """{"q", "k_pages", "v_pages", "block_table", "seq_lens"}: pools (num_pages, page_size, num_kv_heads, HEAD_DIM)."""
    if "slots" in case.options:
        return slot_inputs(case)
    num_heads, num_kv_heads, page_size, longest = case.sizes.values()
    lens, dim = case.options["seq_lens"], head_dim(case)
    shape = (len(lens), num_kv_heads, max(longest, 1), dim)
    dense = qkv(case, gen, (len(lens), num_heads, dim), shape)
    dense["k"][..., -1] *= case.options.get("times", 1.0)
    if case.options.get("level"):
        steps = 64.0 * case.options.get("whole", False) * torch.arange(shape[2])  # lse is then one score, and exact
        dense["q"][..., -1], dense["k"][..., -1] = 1.0 / scale(case), case.options["level"] + steps
        dense["q"][:, 1::2, -1] *= -1.0
    if case.options.get("faint"):
        dense |= _faint(case, dense)
    if case.options.get("whole"):  # scores that float32 holds, so that their size costs no precision but the last
        dense |= {name: dense[name].round() for name in "qk"}
    if case.options.get("v_of_head"):
        numbers = 1.0 + torch.arange(len(lens))[:, None] * num_kv_heads + torch.arange(num_kv_heads)[None, :]
        dense["v"] = numbers[:, :, None, None].expand(shape).clone()
    table, num_pages = _table(case, gen)
    tensors = {"q": dense["q"]}
    for name in ("k", "v"):
        pages = torch.full((num_pages, page_size, num_kv_heads, dim), case.options.get("past", torch.nan))
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


def _faint(case, dense):
    """{"q", "k", "v"}: the first key has score 0 and v = 0, all others weigh little, and that times v is 1."""
    q, (k, v) = torch.zeros_like(dense["q"]), (torch.zeros_like(dense[name]) for name in "kv")
    q[..., -1], half = 1.0 / scale(case), k.shape[2] // 2
    for keys, score in zip((slice(1, half), slice(half, None)), FAINT, strict=True):
        k[:, :, keys, -1], v[:, :, keys] = score, math.exp(-score)
    return {"q": q, "k": k, "v": v}


def _table(case, gen):
    """(block_table, num_pages): random pages, then pages that no sequence holds, or -1."""
    page_size, lens = case.sizes["page_size"], case.options["seq_lens"]
    needed = [-(-seq_len // page_size) for seq_len in lens]
    num_pages = sum(needed) + SPARE
    order = torch.randperm(num_pages - 1, generator=gen) + 1
    order = torch.cat((order[: sum(needed)], torch.zeros(1, dtype=torch.int64), order[sum(needed) :]))
    if case.options.get("full_last"):  # heads beyond num_kv_heads lie outside the pool
        order[order == num_pages - 1] = order[0].clone()
        order[0] = num_pages - 1
    if case.options.get("cut"):  # nothing lies behind the last page of the last sequence
        order[order == num_pages - 1] = order[sum(needed) - 1].clone()
        order[sum(needed) - 1] = num_pages - 1
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


def head_dim(case):
    return case.options.get("head_dim", HEAD_DIM)


def scale(case):
    """softmax_scale of the case."""
    return scale_of(case, head_dim(case))


def layout(case):
    return "HND" if case.options.get("hnd") else "NHD"


def strides(case, tensors):
    """(stride_page, stride_slot, stride_kv_head) of both pools, in elements."""
    pool = extent.spaced(tensors["k_pages"]) if case.options.get("gaps") else tensors["k_pages"]
    page, *steps, _ = pool.stride()
    return (page, *(steps[::-1] if case.options.get("hnd") else steps))


def outputs(tensors):
    """Shapes of out and lse."""
    return {"out": (tuple(tensors["q"].shape), "float32"), "lse": (tuple(tensors["q"].shape[:2]), "float32")}


def arguments(case, tensors, *between):
    """(q, k_pages, v_pages, block_table, seq_lens, out, lse, num_q_per_kv, *between, strides, softmax_scale).

    They go with the tensors that `extent.given` gives.
    """
    group = case.sizes["num_heads"] // case.sizes["num_kv_heads"]
    steps = strides(case, tensors)
    refs = (Ref(n, before=extent.first_page(case) * steps[0] * n.endswith("pages")) for n in (*INPUTS, "out", "lse"))
    return (*refs, group, *between, *steps, scale(case))


def grid(case, tensors):
    """(num_heads, batch_size, 1)."""
    return (case.sizes["num_heads"], len(tensors["seq_lens"]), 1)


def oracle(case, tensors):
    """{"out", "lse"}, float64."""
    given = (tensors[name] for name in INPUTS)
    results = paged.paged_attention_lse(*given, layout=layout(case), softmax_scale=scale(case))
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
            row = attention.rounded_attention_lse(q[b, :, None], k, v, softmax_scale=scale(case))
            out[b], lse[b] = row[0][:, 0], row[1][:, 0]
    return {"out": out, "lse": lse}


def largest_score(case, tensors):
    """Largest score over the tokens of each sequence; other slots and pages are poison.

    0 where all scores are equal: no rounding of them moves a weight.
    """
    if case.values == "below_1e9":
        return 0.0
    scores = [0.0]
    for b, seq_len in enumerate(tensors["seq_lens"].tolist()):
        k = paged.gathered(tensors["k_pages"], tensors["block_table"][b], seq_len, layout=layout(case))
        scores.append(magnitude.of_pairs(tensors["q"][b, :, None], k, softmax_scale=scale(case)))
    return max(scores)


def traffic(case, ledger):
    """Diagnosis or None: no more bytes are stored than out and lse have, and a tl.dot rounds nothing to TF32."""
    if ledger.get("dots") and (found := dots(case, ledger, operands="fp32")):
        return found
    rows = len(case.options["seq_lens"]) * case.sizes["num_heads"]
    why = "each number of out and of lse is written once"
    found = moved(case, ledger, written=4 * rows * (head_dim(case) + 1), why=why)
    if found or "dots" not in ledger:  # of a CUDA kernel: four columns of out, and lse
        return found or share(case, ledger, stored=16 + 4, why="a block has one row, and its lanes share the columns")
    return share(case, ledger, stored=4 * (head_dim(case) + 1), why="a program has one row", unit="program")


def bound(case):
    """Fewest bytes: K and V of every token once, q and out, lse, and a table entry a page."""
    num_heads, num_kv_heads, page_size, _ = case.sizes.values()
    lens, dim = case.options["seq_lens"], head_dim(case)
    numbers = 2 * sum(lens) * num_kv_heads * dim + len(lens) * num_heads * (2 * dim + 1)
    entries = sum(-(-seq_len // page_size) for seq_len in lens) + len(lens)
    return 4 * (numbers + entries), "k and v of each token, q, the table and the lengths read once, out and lse written"


# What every exercise of decode over pages shares with the others, as arguments of `exercise`.
DECODE = {
    "make_inputs": inputs, "oracle": oracle, "baseline": baseline, "rules": {"out": "weights", "lse": "lse"},
    "largest_score": largest_score, "ledger_rule": traffic, "bound_bytes": bound, "unread": unread,
    "tile": lambda case: (1, head_dim(case)),
}  # fmt: skip

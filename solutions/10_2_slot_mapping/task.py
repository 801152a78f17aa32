"""10.2 Slot mapping: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Ref, Run

from . import diagnostics

ALL_SCHEDULES = ("forward", "reverse", "random", "resident")

SIZES = ("num_tokens", "num_kv_heads", "head_dim", "page_size", "num_pages")

STEP = diagnostics.STEP

NEGATIVE = (-1, -7, -(1 << 40))  # slots of tokens that are not stored, in turn


def _case(name, sizes, schedules=("forward",), late=False, **options):
    return Case(name, dict(zip(SIZES, sizes, strict=True)), "whole numbers", "int32", options, schedules, late)


def _numbers(case):
    """(rows of k, rows of v, cells of k_pages, cells of v_pages): whole numbers that never repeat."""
    num_tokens, num_kv_heads, head_dim, page_size, num_pages = case.sizes.values()
    row, cells = num_kv_heads * head_dim, num_pages * page_size * num_kv_heads * head_dim
    sizes = (num_tokens * row, num_tokens * row, cells, cells)
    numbers = torch.arange(sum(sizes), dtype=torch.int32) * STEP + (1 << 28)  # more than float32 holds exactly
    return numbers.split(sizes)


def inputs(case, gen):
    """{"k", "v", "slot_mapping", and the old contents of the pools, "k_before", "v_before"}."""
    num_tokens, num_kv_heads, head_dim, page_size, num_pages = case.sizes.values()
    k, v, k_cells, v_cells = _numbers(case)
    rows = (num_tokens, num_kv_heads, head_dim)
    shape = (num_pages, page_size, num_kv_heads, head_dim)
    slots = torch.randperm(num_pages * page_size, generator=gen)
    if case.options.get("not_stored"):  # leave free the slots that -1 would hit as an index
        slots = slots[(slots > 0) & (slots != page_size - 1)]
    if case.options.get("far") == "slots":  # the first token lies beyond 2^31
        slots = torch.cat((slots[slots >= 2 * page_size], slots[slots < 2 * page_size]))
    slots = torch.zeros(1, dtype=torch.int64) if num_tokens == 1 else slots[:num_tokens].clone()
    for token in case.options.get("not_stored", ()):
        slots[token] = NEGATIVE[token % 3] if case.options.get("any_negative") else -1
    if case.options.get("far") in ("slots", "pages", "offsets"):
        slots = diagnostics.far_slot(case, slots)
    return {
        "k": _spaced(k.reshape(rows), 1),
        "v": _spaced(v.reshape(rows), 2),
        "slot_mapping": slots,
        "k_before": _laid_out(k_cells.reshape(shape), case)[None],
        "v_before": _laid_out(v_cells.reshape(shape), case)[None],
    }


def _spaced(rows, extra):
    """Tokens with `extra` rows of -77 after the heads of each: the gaps that a fused q, k, v projection leaves."""
    num_tokens, num_kv_heads, head_dim = rows.shape
    whole = torch.full((num_tokens, num_kv_heads + extra, head_dim), -77, dtype=rows.dtype)
    whole[:, :num_kv_heads] = rows
    return whole


def _laid_out(pages, case):
    """(num_pages, page_size, num_kv_heads, head_dim) in the memory order of the case: NHD or HND."""
    if case.options.get("gaps"):  # between rows, heads, slots and pages
        return torch.nn.functional.pad(pages, (0, 4, 0, 1, 0, 1), value=-55)
    return pages.transpose(1, 2).contiguous().transpose(1, 2) if case.options.get("hnd") else pages.clone()


def _run(case, tensors):
    k, v, before = tensors["k"], tensors["v"], tensors["k_before"][0]
    page_size = diagnostics.page_size_of(case)
    outputs = {name: (tuple(before.shape), "int32") for name in ("k_pages", "v_pages")}
    ahead = diagnostics.numbers_ahead(case, before)
    pools = (Ref(name, before=ahead) for name in outputs)
    arguments = (Ref("k"), Ref("v"), *pools, Ref("slot_mapping"), case.sizes["head_dim"], page_size)
    arguments += (k.stride(0), v.stride(0), *before.stride()[:3])
    inputs_only = {name: tensors[name] for name in ("k", "v", "slot_mapping")}
    if case.options.get("far") == "tokens":  # only the last token exists
        arguments, inputs_only = _far_tokens(case, arguments, inputs_only)
    contents = {"k_pages": before, "v_pages": tensors["v_before"][0]}
    grid = (case.sizes["num_kv_heads"], case.sizes["num_tokens"], 1)
    return Run(case.name, inputs_only, outputs, arguments, grid=grid, block=(32, 1, 1), contents=contents)


def _far_tokens(case, arguments, tensors):
    """The arguments and inputs with k and v of which only the last token exists, that many numbers further on."""
    last = case.sizes["num_tokens"] - 1
    strides = dict(zip("kv", diagnostics.FAR_TOKENS, strict=True))
    tokens = (Ref(name, before=last * stride) for name, stride in strides.items())
    changed = tensors | {name: tensors[name][last:].clone() for name in strides}
    return (*tokens, *arguments[2:7], *strides.values(), *arguments[9:]), changed


def _written(case, tensors):
    """{"k_pages", "v_pages"} as they must be afterwards."""
    pools, (_, heads, head_dim, *_) = {}, case.sizes.values()
    for name, rows, before in (("k_pages", "k", "k_before"), ("v_pages", "v", "v_before")):
        pages = tensors[before][0].clone()
        for token, slot in enumerate(tensors["slot_mapping"].tolist()):
            if slot >= 0:
                page, offset = diagnostics.page_and_offset(case, slot)
                pages[page, offset, :heads, :head_dim] = tensors[rows][token, :heads]
        pools[name] = pages
    return pools


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one token", (1, 1, 1, 1, 2), ALL_SCHEDULES),
        _case("less than a warp", (3, 2, 20, 4, 3), ("forward", "reverse")),
        _case("exactly a warp", (5, 1, 32, 3, 4)),
        _case("more than a warp", (4, 3, 53, 5, 2), ALL_SCHEDULES),
        _case("tokens that are not stored", (6, 2, 40, 4, 3), not_stored=(1,)),
        _case("heads before slots", (5, 3, 40, 4, 3), ("forward", "random"), hnd=True),
        _case("heads before slots, one not stored", (7, 2, 64, 16, 2), not_stored=(0,), hnd=True),
        _case("slots beyond 2^31", (7, 2, 64, 4, 4), far="slots"),
        _case("a row of 1,300 numbers", (2, 1, 1300, 1, 3)),
        _case("other negative slots", (6, 2, 32, 3, 3), not_stored=(1, 2), any_negative=True, late=True),
        _case("pages beyond 2^31 numbers", (5, 2, 32, 4, 2), far="pages", late=True),
        _case("a page of more than 2^31 numbers", (5, 2, 32, 4, 2), far="offsets", late=True),
        _case("tokens more than 2^30 numbers apart", (3, 2, 32, 4, 2), not_stored=(0, 1), far="tokens", late=True),
        _case("gaps between rows, heads, slots and pages", (5, 2, 20, 4, 3), late=True, gaps=True),
        _case("many tokens", (90, 4, 64, 16, 8), ()),
    ),
    make_inputs=inputs,
    make_run=_run,
    oracle=lambda case, tensors: {name: pages.double() for name, pages in _written(case, tensors).items()},
    baseline=_written,
    rules={"k_pages": "exact", "v_pages": "exact"},
    diagnose=diagnostics.diagnose_write,
    explain=diagnostics.explain,
    ledger_rule=diagnostics.traffic,
    bound_bytes=lambda case: (
        case.sizes["num_tokens"] * (16 * case.sizes["num_kv_heads"] * case.sizes["head_dim"] + 8),
        "k and v of each token read once and written once, and its slot",
    ),
    tile=lambda case: (case.sizes["num_kv_heads"], case.sizes["head_dim"]),
)

"""11.3 Merge ragged parts: what the judge runs."""

import math

import torch

from course_lib.grading.exercise import inputs, magnitude
from course_lib.grading.exercise.spec import Case, Probe, exercise
from course_lib.grading.processes.protocol import Ref, Run
from course_lib.grading.subjects.decode.combine import combine_probes
from course_lib.grading.subjects.decode.partials import FAINT, FAINT_OUT, LARGE, LONGEST_SPLIT, LOW, STALE
from course_lib.grading.subjects.ledger.moved import moved
from course_lib.grading.subjects.ledger.share import share

from .diagnostics import LAYOUT, diagnose, numbered

NEG_INF, WARP_SIZE = float("-inf"), 32
LOWEST = -(2.0**32)  # below the numbers that people take for -inf
SCHEDULES = ("forward", "reverse", "random")
ONCE = "part_out once, part_lse twice a lane at most, out once; a token without parts not at all"


def _case(name, counts, num_heads=2, head_dim=64, values="normal", schedules=("forward",), **options):
    """A case; `counts`: parts of each token."""
    sizes = {"num_tokens": len(counts), "num_heads": num_heads, "head_dim": head_dim, "most_parts": max(counts)}
    return Case(name, sizes, values, options={"counts": counts} | options, schedules=schedules)


def _inputs(case, gen):
    """{"part_out", "part_lse", "token_parts", "old_out", "old_lse"}: the old ones are those of tokens without parts."""
    if "fixed" in case.options:
        return _fixed(case)
    (num_tokens, num_heads, head_dim, most), counts = case.sizes.values(), case.options["counts"]
    lse = inputs.scores(case.values, (num_tokens, num_heads, most), "float32", gen)
    if case.values == "spikes":
        lse[0] = lse[0].sort(dim=-1).values  # of one token the spike is the last part, never the first
    lse += torch.log(torch.randint(1, LONGEST_SPLIT + 1, lse.shape, generator=gen).float())
    lse += LOW if case.options.get("low") else 0.0
    if case.options.get("empty"):
        lse[torch.rand(lse.shape, generator=gen) < case.options["empty"]] = NEG_INF
    if case.options.get("faint"):
        lse = torch.where(torch.arange(most) > 0, FAINT, 0.0).expand(lse.shape)
    part_lse = torch.cat([lse[token, :, :count].T for token, count in enumerate(counts)]).contiguous()
    if case.options.get("lowest"):  # of the first part; the others weigh nothing beside it
        part_lse[:1], part_lse[1:] = LOWEST, 2.0 * LOWEST
    part_out = inputs.normal((*part_lse.shape, head_dim), "float32", gen) * (LARGE if case.options.get("large") else 1)
    if case.options.get("faint"):
        part_out = torch.where(part_lse[:, :, None] < 0.0, FAINT_OUT, 0.0).expand(part_out.shape).contiguous()
    stale = torch.tensor(STALE)[torch.randint(len(STALE), part_lse.shape, generator=gen)]
    part_out = torch.where((part_lse == NEG_INF)[:, :, None], stale[:, :, None], part_out)
    return _with_old(part_out, part_lse, counts, gen)


def _with_old(part_out, part_lse, counts, gen):
    """Inputs of a case whose tokens have `counts` parts."""
    kept = torch.tensor(counts) == 0
    old_out = torch.randn(len(counts), *part_out.shape[1:], generator=gen)
    old_lse = torch.randn(old_out.shape[:2], generator=gen)
    return {
        "part_out": part_out,
        "part_lse": part_lse,
        "token_parts": torch.tensor([0, *counts]).cumsum(0).int(),
        "old_out": torch.where(kept[:, None, None], old_out, math.nan),
        "old_lse": torch.where(kept[:, None], old_lse, math.nan),
    }


def _fixed(case):
    """Inputs of a probe: one row of parts, or the parts of the layout probe."""
    if case.options["fixed"] == "layout":
        part_out, part_lse = numbered(case.sizes["num_heads"], case.sizes["head_dim"])
        return _with_old(part_out, part_lse, LAYOUT, torch.Generator().manual_seed(0))
    out, lse = (torch.tensor(values) for values in case.options["fixed"])
    return _with_old(out[:, None, :], lse[:, None], (len(lse),), torch.Generator().manual_seed(0))


def _run(case, tensors):
    num_tokens, num_heads, head_dim, _ = case.sizes.values()
    rows = (num_tokens, num_heads)
    outputs = {"out": ((*rows, head_dim), "float32"), "lse": (rows, "float32")}
    given = {name: tensors[name] for name in ("part_out", "part_lse", "token_parts")}
    arguments = tuple(Ref(name) for name in (*given, *outputs))
    contents = {name: tensors[f"old_{name}"] for name in outputs} if 0 in case.options["counts"] else {}
    grid, block = (num_heads, num_tokens, 1), (WARP_SIZE, 1, 1)
    return Run(case.name, given, outputs, arguments, grid, block, constants={"HEAD_DIM": head_dim}, contents=contents)


def _merged(tensors, dtype):
    """{"out", "lse"} in `dtype`, token by token."""
    starts = tensors["token_parts"].tolist()
    out, lse = (tensors[f"old_{name}"].to(dtype, copy=True) for name in ("out", "lse"))
    for token, (first, end) in enumerate(zip(starts, starts[1:], strict=False)):
        if first == end:
            continue
        sums = tensors["part_lse"][first:end].to(dtype)
        m = sums.amax(dim=0)
        shift = torch.where(m == NEG_INF, 0.0, m)
        weights = torch.exp(sums - shift)
        l = weights.sum(dim=0)
        read = torch.where((sums == NEG_INF)[:, :, None], 0.0, tensors["part_out"][first:end].to(dtype))
        out[token] = (weights[:, :, None] * read).sum(dim=0) / torch.where(l > 0.0, l, 1.0)[:, None]
        lse[token] = shift + torch.log(l)
    return {"out": out, "lse": lse}


def _bytes_read(case):
    """Bytes of the parts, each read once."""
    _, num_heads, head_dim, _ = case.sizes.values()
    return 4 * sum(case.options["counts"]) * num_heads * (head_dim + 1)


def _way(case, ledger):
    """Diagnosis or None: parts read once, out written once, by all lanes alike."""
    num_tokens, num_heads, head_dim, most = case.sizes.values()
    counts = case.options["counts"]
    read = 4 * num_heads * (sum(counts) * (head_dim + 2 * WARP_SIZE) + num_tokens * 2 * WARP_SIZE)
    written = 4 * num_heads * sum(count > 0 for count in counts) * (head_dim + WARP_SIZE)
    cols = head_dim // WARP_SIZE
    extra = moved(case, ledger, read=read, why=ONCE) or moved(case, ledger, written=written, why=ONCE)
    why = f"{cols} columns of each part, and the log-sum-exps"
    return extra or share(case, ledger, loaded=4 * (most * (cols + 2) + 2), stored=4 * (cols + 1), why=why)


def _probes():
    """Those of two parts and of one of `combine`, and one that tells which parts a row was made of."""
    sizes = {"num_tokens": 1, "num_heads": 1, "head_dim": 32}
    found = []
    for probe in combine_probes(32):
        fixed = probe.case.options["fixed"]
        options = {"fixed": fixed, "counts": (len(fixed[1]),)}
        one = Case(probe.name, sizes | {"most_parts": len(fixed[1])}, "fixed", options=options)
        found.append(Probe(probe.name, one, _read_row))
    layout = {"num_tokens": len(LAYOUT), "num_heads": 2, "head_dim": 32, "most_parts": max(LAYOUT)}
    layout = Case("layout", layout, "fixed", options={"fixed": "layout", "counts": LAYOUT})
    return (*found, Probe("layout", layout, lambda _i, o: o["out"].double()[:, :, 0].tolist()))


def _read_row(_inputs, outputs):
    first, second = outputs["out"].double()[0, 0, :2].tolist()
    return {"first": first, "second": second, "lse": outputs["lse"].double()[0, 0].item()}


def _unread(case, _given):
    """lse of scores so low that base 2 and back rounds it by more than the sum of the weights."""
    rows = (case.sizes["num_tokens"], case.sizes["num_heads"])
    return {"lse": torch.full(rows, bool(case.options.get("lowest")))}


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one part, one row", (1,), 1, 32, schedules=SCHEDULES),
        _case("a prefix and one own part each", (2, 2, 2, 2), schedules=SCHEDULES),
        _case("ragged", (3, 1, 0, 7, 2), 3, 96),
        _case("tokens without parts", (0, 0, 2, 0), 2, 32),
        _case("128 columns", (2, 5), 1, 128),
        _case("256 columns", (3, 4), 1, 256),
        _case("more parts than lanes", (33, 1, 700), 1),
        _case("300 parts, one among faint ones", (300,), 1, 32, faint=True),
        _case("large values", (5, 2), large=True),
        _case("rising from part to part", (9, 4, 12), values="rising"),
        _case("falling from part to part", (9, 4, 12), values="falling"),
        _case("log-sum-exps near +100", (5, 3), values="plus_100"),
        _case("log-sum-exps near -100", (5, 3), values="minus_100"),
        _case("log-sum-exps near -12,000", (5, 2), low=True),
        _case("log-sum-exps below -1e9", (3,), 1, 32, low=True, lowest=True),
        _case("one part of 120", (12, 6), values="spikes"),
        _case("some parts empty", (8, 3, 12, 0, 5), 3, empty=0.4),
        _case("all parts empty", (1, 4), empty=1.1),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=lambda case, tensors: _merged(tensors, torch.float64),
    baseline=lambda case, tensors: _merged(tensors, torch.float32),
    rules={"out": "weights", "lse": "lse"},
    largest_score=lambda case, given: 0.0 if case.options.get("lowest") else magnitude.largest(given["part_lse"]),
    unread=_unread,
    probes=_probes(),
    diagnose=diagnose,
    bound_bytes=lambda case: (_bytes_read(case), "part_out and part_lse read once, 4 bytes each"),
    tile=lambda case: (1, case.sizes["head_dim"]),
    ledger_rule=_way,
)

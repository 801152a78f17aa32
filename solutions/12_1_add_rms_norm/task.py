"""12.1 Add and normalise in one launch: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import ALL_SCHEDULES, Case, exercise, late
from course_lib.grading.processes.protocol import Ref, Run
from course_lib.reference import norm

from . import diagnostics
from .diagnostics import BEYOND

BLOCK = 64  # threads of a block, where a case does not say otherwise


def _case(name, num_rows, num_cols, values="normal", schedules=("forward",), eps=1e-5, gaps=(0, 0, 0), **options):
    """`gaps`: numbers between two rows of x, residual and out, which belong to nobody."""
    sizes = {"num_rows": num_rows, "num_cols": num_cols}
    return Case(name, sizes, values, "float16", {"eps": eps, "gaps": gaps, **options}, schedules)


def _inputs(case, gen):
    """{"x": (num_rows, num_cols + gap) with the rows in front, "before": (1, …) residual so, "weight": (num_cols,)}."""
    num_rows, num_cols = case.sizes.values()
    x, residual = (torch.randn(num_rows, num_cols, generator=gen) for _ in range(2))
    weight = 1.0 + 0.5 * torch.randn(num_cols, generator=gen)
    if case.values == "mean_1000":
        residual = residual + 1000.0
    if case.values == "tiny":
        x, residual = 2e-3 * x, 2e-3 * residual
    if case.values == "cancels":
        residual = residual.half().float()
        x = torch.where(torch.arange(num_rows)[:, None] % 2 == 0, -residual, x)
    if case.values == "large":
        size = torch.tensor([1.0, 8000.0, 1e-2])[torch.arange(num_rows) % 3][:, None]
        x, residual = size * x.clamp(-3, 3), size * residual.clamp(-3, 3)
        x[1::3, 0], residual[1::3, 0], weight[0] = 31_000.0, 33_500.0, 3.0  # near the largest half
    x, residual, weight = x.half(), residual.half(), weight.half()
    gaps = case.options["gaps"]
    before = _widened(residual, gaps[1], BEYOND)[None]
    return {"x": _widened(x, gaps[0], float("nan")), "before": before, "weight": weight}


def _widened(rows, gap, value):
    """The rows with `gap` numbers `value` after each."""
    return torch.cat((rows, torch.full((len(rows), gap), value, dtype=rows.dtype)), dim=1)


def _results(case, out, residual):
    """{"out", "residual"} with what lies between the rows, which keeps its value."""
    gaps = case.options["gaps"]
    return {"out": _widened(out, gaps[2], BEYOND), "residual": _widened(residual, gaps[1], BEYOND)}


def _oracle(case, tensors):
    x, residual = diagnostics.rows_of(case, tensors)
    out, summed = norm.add_rms_norm(x, residual, tensors["weight"], case.options["eps"])
    return _results(case, out, summed.double())


def _baseline(case, tensors):
    """What three roundings to half leave that all err the same way: of the sum, before weight, and after it.

    A plain run rounds at some of these places, and in a row of one number may be exact by luck.
    """
    x, residual = diagnostics.rows_of(case, tensors)
    out, summed = norm.add_rms_norm(x, residual, tensors["weight"], case.options["eps"])
    return _results(case, (out * (1.0 + 2.0**-11) ** 3).half(), summed)


def _run(case, tensors):
    num_rows, num_cols = case.sizes.values()
    block, (gap_x, gap_residual, gap_out) = case.options.get("block", BLOCK), case.options["gaps"]
    given = {name: tensors[name] for name in ("x", "weight")}
    shapes = {"out": (num_rows, num_cols + gap_out), "residual": (num_rows, num_cols + gap_residual)}
    contents = {"residual": tensors["before"][0]}
    if gap_out:
        contents["out"] = torch.full(shapes["out"], BEYOND, dtype=torch.float16)
    strides = (num_cols + gap_x, num_cols + gap_residual, num_cols + gap_out)
    return Run(
        case.name,
        given,
        {name: (shape, "float16") for name, shape in shapes.items()},
        (Ref("x"), Ref("residual"), Ref("weight"), Ref("out"), num_cols, *strides, case.options["eps"]),
        (num_rows, 1, 1),
        (block, 1, 1),
        shared_bytes=2 * num_cols,
        constants={"BLOCK": block},
        contents=contents,
    )


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one number", 1, 1, schedules=ALL_SCHEDULES),
        _case("rows of 8", 3, 8, schedules=("forward", "reverse")),
        _case("one below the block", 4, 63, schedules=ALL_SCHEDULES),
        _case("one above the block, rows apart", 3, 65, gaps=(3, 7, 0), schedules=("forward", "random")),
        _case("rows of out apart", 3, 40, gaps=(0, 2, 5)),
        late(_case("numbers near 1000", 2, 1000, "mean_1000", block=256)),
        _case("numbers near 0.002", 4, 96, "tiny"),
        late(_case("numbers near 0.002, eps 1e-6", 3, 77, "tiny", eps=1e-6, block=32)),
        _case("eps 0.5", 3, 50, eps=0.5),
        _case("rows whose sum is 0", 4, 33, "cancels"),
        late(_case("rows of other sizes", 6, 130, "large", block=128)),
        late(_case("a row of 20,000", 1, 20_000, block=1024)),
        late(_case("70 rows", 70, 24, block=32)),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=_oracle,
    baseline=_baseline,
    rules={"out": "forward", "residual": "exact"},
    diagnose=diagnostics.diagnose,
    ledger_rule=lambda case, ledger: diagnostics.one_sweep(case, ledger, case.options.get("block", BLOCK)),
    bound_bytes=diagnostics.bound,
    usual_bytes=lambda case: diagnostics.bound(case)[0],
    tile=lambda case: (1, BLOCK),
)

"""12.8 Gates: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Ref, Run

from . import diagnostics

SCHEDULES = ("forward", "reverse", "random")


def _case(name, num_rows, num_cols, gelu, values="normal", dtype="float32", schedules=(), **options):
    """Options: "block", "gap" (numbers between two rows)."""
    sizes = {"num_rows": num_rows, "num_cols": num_cols}
    return Case(name, sizes, values, dtype, options | {"gelu": gelu}, schedules)


def _inputs(case, gen):
    """{"both": (num_rows, 2 * num_cols + gap)}; the gap holds NaN."""
    num_rows, num_cols = case.sizes.values()
    both = torch.randn(num_rows, 2 * num_cols, generator=gen)
    if case.values == "bend":  # where the tanh form and the one by erf differ most
        both[:, :num_cols] = torch.linspace(-3.2, 3.2, num_cols)
    if case.values == "left":  # small and not 0, each beside others as small
        ends = (-6.0, -3.0) if case.options["gelu"] else (-20.0, -5.0)
        both[:, :num_cols] = torch.linspace(*ends, num_cols)
    if case.values == "large":
        both[:, :num_cols] = torch.tensor([-100.0, -30.0, -9.0, 9.0, 30.0, 100.0])[torch.arange(num_cols) % 6]
    gap = torch.full((num_rows, case.options.get("gap", 0)), torch.nan)
    return {"both": torch.cat((both, gap), dim=1).to(getattr(torch, case.dtype))}


def _run(case, tensors):
    num_rows, num_cols = case.sizes.values()
    block = case.options.get("block", 64)
    arguments = (Ref("both"), Ref("out"), num_cols, tensors["both"].shape[1])
    outputs = {"out": ((num_rows, num_cols), case.dtype)}
    grid, constants = (num_rows, -(-num_cols // block), 1), {"GELU": case.options["gelu"], "BLOCK": block}
    return Run(case.name, tensors, outputs, arguments, grid, constants=constants)


EXERCISE = exercise(
    __file__,
    cases=(
        _case("SiLU, 3 x 100", 3, 100, False, schedules=SCHEDULES),
        _case("GELU, 3 x 100", 3, 100, True, schedules=SCHEDULES),
        _case("SiLU, one number", 1, 1, False),
        _case("GELU, one number", 1, 1, True),
        _case("SiLU of -20 to -5, exactly two blocks", 2, 128, False, "left"),
        _case("GELU of -6 to -3", 2, 40, True, "left"),
        _case("GELU, one above a block, rows apart", 4, 65, True, gap=7),
        _case("SiLU, one below a block, rows apart", 4, 63, False, gap=1),
        _case("GELU from -3.2 to 3.2", 2, 200, True, "bend", block=32),
        _case("SiLU from -3.2 to 3.2", 2, 200, False, "bend", block=16),
        _case("SiLU of -100 to 100", 2, 48, False, "large"),
        _case("GELU of -100 to 100", 2, 48, True, "large"),
        _case("SiLU, 5,000 columns", 1, 5000, False),
        _case("SiLU, float16", 3, 77, False, dtype="float16", block=128),
        _case("GELU, float16, -100 to 100", 3, 77, True, "large", dtype="float16"),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=lambda case, tensors: diagnostics.gated(case, tensors, torch.float64),
    baseline=lambda case, tensors: {
        "out": diagnostics.gated(case, tensors, torch.float32)["out"].to(getattr(torch, case.dtype))
    },
    rules={"out": "forward"},
    diagnose=diagnostics.diagnose,
    ledger_rule=diagnostics.each_once,
    bound_bytes=diagnostics.bound,
    usual_bytes=lambda case: diagnostics.bound(case)[0],
    tile=lambda case: (1, case.options.get("block", 64)),
)

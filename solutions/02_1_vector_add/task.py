"""02.1 Vector add with a tail: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import ALL_SCHEDULES, Case, Probe, exercise
from course_lib.grading.processes.protocol import Ref, Run

from .diagnostics import add_traffic, diagnose_add

THREADS = 64  # of a block, where a case does not say otherwise
EXTRA_BLOCKS = 3  # more than needed, in one case
INF, NAN = float("inf"), float("nan")
SPECIAL = (  # (x, y); no infinity meets the other one
    *((INF, 1.0), (-INF, 1.0), (-INF, -INF), (2.0, INF), (NAN, 1.0), (INF, NAN), (3e38, 3e38), (-3e38, -2e38)),
    *((-0.0, -0.0), (0.0, -0.0), (1.5, -1.5), (1e-40, 2e-40), (-3e-45, 1.4e-45)),
)


def vector_case(name, num_elements, values="normal", schedules=(), **options):
    return Case(name, {"num_elements": num_elements}, values, options=options, schedules=schedules)


def vectors(case, gen):
    """{"x", "y": (num_elements,)}; for the probes 0, 1, 2, … beside 0 ("places"), or 0 beside 1 ("ones").

    "special": pairs whose sum is an infinity, NaN, -0, 0 or a subnormal number, at drawn places among the others.
    """
    count = case.sizes["num_elements"]
    if case.values == "places":
        return {"x": torch.arange(float(count)), "y": torch.zeros(count)}
    if case.values == "ones":
        return {"x": torch.zeros(count), "y": torch.ones(count)}
    x, y = torch.randn(count, generator=gen), torch.randn(count, generator=gen)
    if "special" in case.options:
        at = torch.randperm(count, generator=gen)[: len(SPECIAL)]
        x[at], y[at] = torch.tensor(SPECIAL).T
    return {"x": x, "y": y}


def vector_run(case, tensors):
    count = case.sizes["num_elements"]
    threads = case.options.get("threads", THREADS)
    blocks = -(-count // threads) + case.options.get("extra_blocks", 0)
    arguments = (Ref("x"), Ref("y"), Ref("out"), count)
    return Run(case.name, tensors, {"out": ((count,), "float32")}, arguments, (blocks, 1, 1), (threads, 1, 1))


def elements(_inputs, outputs):
    """The elements of out, as a list."""
    return outputs["out"].tolist()


EXERCISE = exercise(
    __file__,
    cases=(
        vector_case("one element", 1, schedules=ALL_SCHEDULES),
        vector_case("one below a block", THREADS - 1, schedules=("forward", "reverse")),
        vector_case("exactly one block", THREADS, schedules=("forward",)),
        vector_case("one above a block", THREADS + 1, schedules=ALL_SCHEDULES),
        vector_case("more blocks than needed", 300, schedules=("forward", "random"), extra_blocks=EXTRA_BLOCKS),
        vector_case("blocks of 32", 100, schedules=("forward",), threads=32, extra_blocks=EXTRA_BLOCKS),
        vector_case("blocks of 100", 350, schedules=("forward",), threads=100),
        vector_case("infinities, NaN, -0 and subnormal sums", 90, schedules=("forward",), special=True),
        vector_case("sixteen blocks and a tail", 16 * THREADS + 5, schedules=("forward",)),
        vector_case("blocks of 1024", 2100, threads=1024),
        vector_case("many elements, blocks of 256", 70_003, threads=256),
    ),
    make_inputs=vectors,
    make_run=vector_run,
    oracle=lambda _case, tensors: {"out": (tensors["x"] + tensors["y"]).double()},  # one rounding: the same everywhere,
    baseline=lambda _case, tensors: {"out": tensors["x"] + tensors["y"]},
    rules={"out": "bits"},
    probes=(
        Probe("places", vector_case("places", 3 * THREADS, "places"), elements),
        Probe("ones", vector_case("ones", 3 * THREADS, "ones"), elements),
    ),
    diagnose=diagnose_add,
    ledger_rule=add_traffic,
    bound_bytes=lambda case: (
        12 * case.sizes["num_elements"],
        f"x and y read once, out written once: 3 x {case.sizes['num_elements']:,} numbers of 4 bytes",
    ),
    usual_bytes=lambda case: 12 * case.sizes["num_elements"],
    tile=lambda case: (1, THREADS),
)

"""03.1 Merge two states: what the judge runs."""

import torch

from course_lib.grading.exercise import inputs, magnitude
from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Ref, Run
from course_lib.reference import softmax as reference

from . import diagnostics

NEG_INF = float("-inf")
LARGEST = 1e12 / 41  # times the sums from 1 to 41 of other cases


def _states(case, gen):
    """{"m_a", "l_a", "m_b", "l_b"}, each of the case's shape."""
    options, shape = case.options, tuple(case.sizes.values())
    m = [inputs.normal(shape, "float32", gen) * 3 + options.get(side, 0.0) for side in ("m_a", "m_b")]
    l = [1.0 + 40.0 * torch.rand(shape, generator=gen) for _ in range(2)]
    tensors = {"m_a": m[0], "l_a": l[0], "m_b": m[1], "l_b": l[1]}
    tensors["l_a"] *= options.get("sums_of_a", 1.0)
    tensors["l_b"] *= options.get("sums_of_b", 1.0)
    if "gaps" in options:
        tensors["m_b"] = tensors["m_a"] - torch.linspace(*options["gaps"], shape[0])
    if options.get("equal"):
        tensors["m_b"] = tensors["m_a"].clone()
    if options.get("mixed"):
        _mix(tensors)
    for side in options.get("empty", ()):
        tensors[f"m_{side}"].fill_(NEG_INF)
        tensors[f"l_{side}"].zero_()
    if options.get("transposed"):
        tensors = {name: tensor.transpose(0, -1) for name, tensor in tensors.items()}
    return tensors | {name: torch.full(shape, value) for name, value in options.get("fixed", {}).items()}


def _mix(tensors):
    """In turn: both sides full, a empty, b empty, both empty; the maxima of neighbours 12,000 apart."""
    turn = torch.arange(tensors["m_a"].numel()) % 4
    height = (torch.arange(tensors["m_a"].numel()) // 4 % 3 - 1) * 12000.0
    for side, empty in (("a", (turn == 1) | (turn == 3)), ("b", turn >= 2)):
        tensors[f"m_{side}"] += height
        tensors[f"m_{side}"][empty], tensors[f"l_{side}"][empty] = NEG_INF, 0.0


def _merge_run(case, tensors):
    shape = tuple(tensors["m_a"].shape)
    arguments = tuple(Ref(name) for name in ("m_a", "l_a", "m_b", "l_b"))
    return Run(case.name, tensors, {"m": (shape, "float32"), "l": (shape, "float32")}, arguments)


def _merge_oracle(_case, tensors):
    m, l = reference.merge(**tensors)
    return {"m": m, "l": l}


def _merge_baseline(_case, tensors):
    m, l = reference.rounded_merge(**tensors)
    return {"m": m, "l": l}


def _merge_case(name, *shape, **options):
    return Case(name, {f"size {axis}": size for axis, size in enumerate(shape)}, name, options=options)


EXERCISE = exercise(
    __file__,
    cases=(
        _merge_case("one pair", 1),
        _merge_case("many pairs", 64),
        _merge_case("equal maxima", 16, equal=True),
        _merge_case("maxima near -100", 16, m_a=-100.0, m_b=-100.0),
        _merge_case("maxima near +100", 16, m_a=100.0, m_b=100.0),
        _merge_case("maxima near -3000", 16, m_a=-3000.0, m_b=-3000.0),
        _merge_case("maxima near -60000", 16, m_a=-59980.0, m_b=-59980.0),
        _merge_case("maxima near +60000", 16, m_a=59980.0, m_b=59980.0),
        _merge_case("first far above", 16, m_a=100.0, m_b=-100.0),
        _merge_case("second far above", 16, m_a=-100.0, m_b=100.0),
        _merge_case("first above, second the larger sum", 16, gaps=(34, 46), sums_of_a=1e-5, sums_of_b=LARGEST),
        _merge_case("second above, first the larger sum", 16, gaps=(-34, -46), sums_of_a=LARGEST, sums_of_b=1e-5),
        _merge_case("sums below 1", 16, sums_of_a=1e-5, sums_of_b=1e-5),
        _merge_case("large sums", 16, gaps=(0.1, 2), sums_of_a=LARGEST, sums_of_b=LARGEST),
        _merge_case("first empty", 16, empty="a"),
        _merge_case("second empty", 16, empty="b"),
        _merge_case("both empty", 2, empty="ab"),
        _merge_case("empty beside full", 24, mixed=True),
        _merge_case("a matrix, transposed", 5, 3, transposed=True),
        _merge_case("three axes", 2, 3, 4),
    ),
    make_inputs=_states,
    make_run=_merge_run,
    oracle=_merge_oracle,
    baseline=_merge_baseline,
    rules={"m": "exact", "l": "weights"},
    largest_score=magnitude.of_inputs("m_a", "m_b"),
    probes=diagnostics.merge_probes(_merge_case),
    diagnose=diagnostics.diagnose_merge,
)

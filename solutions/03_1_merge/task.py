"""03.1 Merge two states: what the judge runs."""

import torch

from course_lib.grading.exercise import inputs, magnitude
from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Ref, Run
from course_lib.reference import softmax as reference

from . import diagnostics

NEG_INF = float("-inf")


def _states(case, gen):
    """{"m_a", "l_a", "m_b", "l_b"}, each (num_states,)."""
    count = case.sizes["num_states"]
    m = [inputs.normal((count,), "float32", gen) * 3 + case.options.get(side, 0.0) for side in ("m_a", "m_b")]
    l = [1.0 + 40.0 * torch.rand(count, generator=gen) for _ in range(2)]
    tensors = {"m_a": m[0], "l_a": l[0], "m_b": m[1], "l_b": l[1]}
    for side in case.options.get("empty", ()):
        tensors[f"m_{side}"].fill_(NEG_INF)
        tensors[f"l_{side}"].zero_()
    return tensors | {name: torch.full((count,), value) for name, value in case.options.get("fixed", {}).items()}


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


def _merge_case(name, num_states=16, **options):
    return Case(name, {"num_states": num_states}, name, options=options)


EXERCISE = exercise(
    __file__,
    cases=(
        _merge_case("one pair", 1),
        _merge_case("many pairs", 64),
        _merge_case("maxima near -100", m_a=-100.0, m_b=-100.0),
        _merge_case("maxima near +100", m_a=100.0, m_b=100.0),
        _merge_case("maxima near -3000", m_a=-3000.0, m_b=-3000.0),
        _merge_case("first far above", m_a=100.0, m_b=-100.0),
        _merge_case("second far above", m_a=-100.0, m_b=100.0),
        _merge_case("first empty", empty="a"),
        _merge_case("second empty", empty="b"),
        _merge_case("both empty", 2, empty="ab"),
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

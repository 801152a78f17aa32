"""The exercise of chapter 07 on log-sum-exp: from a state in base 2 to out and a natural logarithm.

May import: spec, magnitude, protocol, verdict, inputs, notation, the readings of attention and log-sum-exp.
"""

import math

import torch

from ...notation import LOG2_E
from ..exercise import inputs, magnitude
from ..exercise.spec import Case, Exercise, Probe
from ..processes.protocol import Ref, Run
from ..report.verdict import Diagnosis
from ..subjects.attention.diagnostics import near
from ..subjects.softmax.lse import say_lse

BLOCK_M, NUM_KEYS = 16, 53
NEG_INF = float("-inf")
NAMES = ("acc", "m_log2", "l")


def _case(name, num_rows, head_dim=20, values="normal", schedules=("forward",), **options):
    return Case(name, {"num_rows": num_rows, "head_dim": head_dim}, values, options=options, schedules=schedules)


def _state(case, gen):
    """The state after NUM_KEYS keys whose scores follow the case's distribution; every third row has seen none."""
    num_rows, head_dim = case.sizes.values()
    fixed = case.options.get("fixed")
    if fixed:
        return {name: torch.tensor(value) for name, value in zip(NAMES, fixed, strict=True)}
    scores = inputs.scores(case.values, (num_rows, NUM_KEYS), "float32", gen) * LOG2_E
    if case.options.get("empty"):
        scores[::3] = NEG_INF
    m_log2 = scores.amax(dim=1)
    shift = torch.where(m_log2 == NEG_INF, torch.zeros_like(m_log2), m_log2)
    probs_unnorm = torch.exp2(scores - shift[:, None])
    acc = probs_unnorm @ inputs.normal((NUM_KEYS, head_dim), "float32", gen)
    return dict(zip(NAMES, (acc, m_log2, probs_unnorm.sum(dim=1)), strict=True))


def _run(case, tensors):
    num_rows, head_dim = case.sizes.values()
    outputs = {"out": ((num_rows, head_dim), "float32"), "lse": ((num_rows,), "float32")}
    constants = {"HEAD_DIM": head_dim, "BLOCK_D": 32, "BLOCK_M": BLOCK_M}
    arguments = (*(Ref(name) for name in (*NAMES, *outputs)), num_rows)
    return Run(case.name, tensors, outputs, arguments, grid=(-(-num_rows // BLOCK_M), 1, 1), constants=constants)


def _finished(acc, m_log2, l):
    """{"out", "lse"} in the dtype of the tensors."""
    safe = torch.where(l > 0, l, torch.ones_like(l))
    return {"out": acc / safe[:, None], "lse": m_log2 * math.log(2.0) + torch.log(safe)}


def _diagnose(evidence):
    looks = (_by_base, _by_division, _by_size, _by_empty)
    return next((found for look in looks if (found := look(evidence)) is not None), None)


def _by_base(evidence):
    equal, single = evidence.readings.get("equal lse"), evidence.readings.get("one score")
    if equal is None or single is None:
        return None
    half = f"m_log2 = log2(e) and l = 1, a single score of 1, must give lse = 1; here it is {single:.4g}"
    if near(single, LOG2_E**2):
        return Diagnosis(
            "converted_backwards",
            f"{half} = log2(e) squared: multiplied by log2(e) where it must be divided. A logarithm to the base 2 "
            "times ln(2) = 0.693 is the natural one.",
        )
    found = say_lse(equal, NUM_KEYS, single)
    if found is not None:
        return found
    if near(equal, math.log(NUM_KEYS)) and not near(single, 1.0):
        return Diagnosis("lse_wrong", f"{half}. lse = m_log2 * ln(2) + log(l).")
    return None


def _by_division(evidence):
    got = evidence.readings.get("mean")
    if got is None or near(got, 1.0):
        return None
    start = f"acc = {NUM_KEYS} and l = {NUM_KEYS} must give out = 1; here it is {got:.4g}"
    if near(got, NUM_KEYS):
        return Diagnosis("no_division", f"{start}: acc has never been divided, and this is the last place for it.")
    if near(got, NUM_KEYS**2):
        return Diagnosis("multiplied_by_l", f"{start}: multiplied by l in place of divided.")
    return Diagnosis("division_wrong", f"{start}: out is acc / l.")


def _by_size(evidence):
    high = evidence.failing("plus_100", "minus_100")
    if not high or evidence.failing("normal"):
        return None
    return Diagnosis(
        "no_max",
        f"Right for scores near 0, wrong in the case {high[0].case.name!r}: 2 to the m_log2 is more or less than "
        "float32 holds. Never undo the maximum inside the logarithm; add it outside.",
    )


def _by_empty(evidence):
    if [case for case in evidence.failing() if not case.case.options.get("empty")]:
        return None
    case = evidence.failing()[0]
    name, comparison = next((n, c) for n, c in case.comparisons.items() if not c.passed)
    return Diagnosis(
        "masked_row",
        f"Row {comparison.index[0]} of the case {case.case.name!r} saw no key: its state is (-inf, 0, 0), out must be "
        f"0 and lse -inf. {name} is {comparison.got:.4g} there. 0 / 0 is NaN; a large negative number is not -inf.",
    )


def _first(output):
    return lambda _inputs, outputs: outputs[output].double().flatten()[0].item()


_EQUAL = _case("equal lse", 1, 1, fixed=([[float(NUM_KEYS)]], [0.0], [float(NUM_KEYS)]))
_SINGLE = _case("one score", 1, 1, fixed=([[1.0]], [LOG2_E], [1.0]))

LOG_SUM_EXP = Exercise(
    id="07.4",
    title="From (m, l) in base 2 to a natural log-sum-exp",
    language="triton",
    entry="finish_kernel",
    signature="finish_kernel(acc_ptr, m_log2_ptr, l_ptr, out_ptr, lse_ptr, num_rows, HEAD_DIM, BLOCK_D, BLOCK_M)",
    contract=(
        "acc (num_rows, HEAD_DIM), m_log2 and l (num_rows,), float32: what a walk over the keys left, with scores "
        "times log2(e) and exp2 in place of exp. out (num_rows, HEAD_DIM) is the attention output; lse (num_rows,) "
        "the log-sum-exp of the scores, natural. A row that saw no key, state (-inf, 0, 0): out 0, lse -inf."
    ),
    size_lines=6,
    minutes=10,
    solution="course_lib/triton_kernels/flash_attention_2_exercises.py#finish_kernel",
    cases=(
        _case("one row", 1, 1, schedules=("forward", "reverse")),
        _case("exactly one tile", 16),
        _case("one below a tile", 15),
        _case("one above a tile", 17, schedules=("forward", "reverse")),
        _case("ragged", 53),
        _case("scores near -100", 5, values="minus_100"),
        _case("scores near +100", 5, values="plus_100"),
        _case("rows without a key", 19, empty=True),
        _case("no key at all", 1, empty=True),
    ),
    make_inputs=_state,
    make_run=_run,
    oracle=lambda case, tensors: _finished(**{name: tensor.double() for name, tensor in tensors.items()}),
    baseline=lambda case, tensors: _finished(**tensors),
    rules={"out": "weights", "lse": "lse"},
    largest_score=magnitude.of_inputs("m_log2"),
    hints=(
        "m_log2 is a logarithm to the base 2. What turns it into a natural one, and does l need the same?",
        "lse = ln(2 ** m_log2 * l). Take that apart before you compute it: the power overflows at scores of 100.",
        "l_safe = tl.where(l > 0.0, l, 1.0); out = acc / l_safe[:, None]; lse = m_log2 * ln_2 + tl.log(l_safe). For a "
        "row that saw nothing that is 0 / 1 and -inf + 0.",
    ),
    explanation=(
        "l is a plain number, whatever the base of the exponent was; only m is a logarithm. One number a row, lse, is "
        "all that the backward pass needs: P = exp(score - lse). Which base it has must be said: FlashInfer and "
        "Triton's tutorial keep base 2, PyTorch, FlashAttention and this course the natural one."
    ),
    probes=(
        Probe("equal lse", _EQUAL, _first("lse")),
        Probe("mean", _EQUAL, _first("out")),
        Probe("one score", _SINGLE, _first("lse")),
    ),
    diagnose=_diagnose,
    bound_bytes=lambda case: (
        4 * case.sizes["num_rows"] * (2 * case.sizes["head_dim"] + 3),
        "acc, m_log2 and l read once, out and lse written once, 4 bytes each",
    ),
    tile=lambda case: (BLOCK_M, case.sizes["head_dim"]),
)

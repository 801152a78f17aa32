"""07.4 From (m, l) in base 2 to a natural log-sum-exp: what the judge runs."""

import math

import torch

from course_lib.grading.exercise import inputs, magnitude
from course_lib.grading.exercise.spec import Case, Probe, exercise
from course_lib.grading.processes.protocol import Ref, Run
from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.attention.diagnostics import near
from course_lib.grading.subjects.flash_attention_2.diagnostics import by_parameters
from course_lib.grading.subjects.ledger.moved import moved
from course_lib.grading.subjects.ledger.share import share
from course_lib.grading.subjects.softmax.lse import say_lse
from course_lib.notation import LOG2_E

BLOCK_M, NUM_KEYS = 16, 53

NEG_INF = float("-inf")

NAMES = ("acc", "m_log2", "l")

LARGE, LOW = "large l", "low m"
_DRAWN = {LARGE: (1.0, (7, 9), (0, 1)), LOW: (-1.0, (0.2, 2), (31, 37))}  # sign of m; powers of 10 of l and of |m|


def _case(name, num_rows, head_dim=20, values="normal", schedules=("forward",), **options):
    return Case(name, {"num_rows": num_rows, "head_dim": head_dim}, values, options=options, schedules=schedules)


def _state(case, gen):
    """The state after NUM_KEYS keys whose scores follow the case's distribution; every third row has seen none."""
    num_rows, head_dim = case.sizes.values()
    fixed = case.options.get("fixed")
    if fixed:
        return {name: torch.tensor(value) for name, value in zip(NAMES, fixed, strict=True)}
    if case.values in _DRAWN:
        sign, *powers = _DRAWN[case.values]
        l, m_log2 = (10.0 ** (low + (high - low) * torch.rand(num_rows, generator=gen)) for low, high in powers)
        v = inputs.normal((num_rows, head_dim), "float32", gen)
        return {"acc": l[:, None] * v, "m_log2": sign * m_log2, "l": l}
    num_keys = case.options.get("num_keys", NUM_KEYS)
    scores = inputs.scores(case.values, (num_rows, num_keys), "float32", gen) * LOG2_E
    if case.options.get("empty"):
        scores[::3] = NEG_INF
    m_log2 = scores.amax(dim=1)
    shift = torch.where(m_log2 == NEG_INF, torch.zeros_like(m_log2), m_log2)
    probs_unnorm = torch.exp2(scores - shift[:, None])
    v = inputs.normal((num_keys, head_dim), "float32", gen) * case.options.get("v_scale", 1.0)
    acc = probs_unnorm @ v
    return dict(zip(NAMES, (acc, m_log2, probs_unnorm.sum(dim=1)), strict=True))


def _run(case, tensors):
    num_rows, head_dim = case.sizes.values()
    outputs = {"out": ((num_rows, head_dim), "float32"), "lse": ((num_rows,), "float32")}
    block_m = case.options.get("block_m", BLOCK_M)
    constants = {"HEAD_DIM": head_dim, "BLOCK_D": max(1 << (head_dim - 1).bit_length(), 16), "BLOCK_M": block_m}
    arguments = (*(Ref(name) for name in (*NAMES, *outputs)), num_rows)
    return Run(case.name, tensors, outputs, arguments, grid=(-(-num_rows // block_m), 1, 1), constants=constants)


def _finished(acc, m_log2, l):
    """{"out", "lse"} in the dtype of the tensors."""
    safe = torch.where(l > 0, l, torch.ones_like(l))
    return {"out": acc / safe[:, None], "lse": m_log2 * math.log(2.0) + torch.log(safe)}


def _largest_score(case, tensors):
    """0 where m_log2 is read as it is: its rounding, at the end of a loop, moves no weight."""
    return 0.0 if case.values in _DRAWN else magnitude.of_inputs("m_log2")(case, tensors)


def _diagnose(evidence):
    looks = (_by_few_keys, _by_large_l, by_parameters, _by_rows, _by_base, _by_division, _by_size, _by_empty)
    return next((found for look in looks if (found := look(evidence)) is not None), None)


def _by_rows(evidence):
    """Only a case with more rows than all others fails."""
    failing, most = evidence.failing(), max((c.case.sizes["num_rows"] for c in evidence.passing()), default=0)
    if not failing or not most or any(case.case.sizes["num_rows"] <= most for case in failing):
        return None
    rows = failing[0].case.sizes["num_rows"]
    return Diagnosis("limited", f"Right up to {most} rows, wrong with {rows}: the rows beyond are left out.")


def _wrong_where_l_is_small(case):
    wrong = torch.zeros(case.case.sizes["num_rows"], dtype=torch.bool)
    for name, comparison in case.comparisons.items():
        if not comparison.passed and comparison.wrong is not None:
            wrong |= comparison.wrong.any(dim=1) if name == "out" else comparison.wrong
    return bool(wrong.any()) and bool((case.inputs["l"][wrong] < 2.0).all())


def _by_few_keys(evidence):
    """Only rows fail whose l lies between 1 and 2: all states of one or two keys, and a few others."""
    failing = evidence.failing()
    case = next((case for case in failing if case.case.options.get("num_keys")), None)
    if case is None or not all(case.case.options.get("num_keys") or _wrong_where_l_is_small(case) for case in failing):
        return None
    name, comparison = case.first_wrong
    return Diagnosis(
        "l_changed",
        f"Right where a row saw {NUM_KEYS} keys, wrong in the case {case.case.name!r}, where l lies between 1 and 2: "
        f"{name} is {comparison.got:.7g} instead of {comparison.expected:.7g}. l is taken as it is: nothing is added "
        "to it, and no number but 0 means that a row saw nothing.",
    )


def _by_large_l(evidence):
    """Only states of very many keys are wrong."""
    if not evidence.fails_only(LARGE):
        return None
    case = evidence.failing()[0]
    name, comparison = case.first_wrong
    return Diagnosis(
        "l_changed",
        f"Right for fewer keys, wrong in the case {case.case.name!r}: {name} is {comparison.got:.7g} instead of "
        f"{comparison.expected:.7g}. A row may have seen any number of keys, and l is taken as it is.",
    )


def _traffic(case, ledger):
    """Diagnosis or None: each number read once and written once, by the program of its rows."""
    num_rows, head_dim = case.sizes.values()
    block_m, row = case.options.get("block_m", BLOCK_M), 4 * (head_dim + 1)
    why = "each number of acc, m_log2 and l is read once, each of out and lse written once"
    found = moved(case, ledger, read=num_rows * (row + 4), written=num_rows * row, why=why)
    said = f"{block_m} rows of out and lse"
    return found or share(case, ledger, stored=block_m * row, why=said, unit="program")


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
        return Diagnosis("no_division", f"{start}: acc was not divided, and no later step divides it.")
    if near(got, NUM_KEYS**2):
        return Diagnosis("multiplied_by_l", f"{start}: multiplied by l in place of divided.")
    return Diagnosis("division_wrong", f"{start}: out is acc / l.")


def _by_size(evidence):
    below = evidence.failing()
    if evidence.fails_only("minus_12000", LOW):
        limit = "-1e4" if any(case.case.values == "minus_12000" for case in below) else "-1e30"
        return Diagnosis(
            "finite_infinity",
            f"Right for ordinary scores, wrong in the case {below[0].case.name!r}: rows whose scores lie below {limit} "
            "saw keys. A row saw none when l is 0 (m_log2 is -inf there and no other number).",
        )
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
    name, comparison = case.first_wrong
    return Diagnosis(
        "masked_row",
        f"Row {comparison.index[0]} of the case {case.case.name!r} saw no key: its state is (-inf, 0, 0), out must be "
        f"0 and lse -inf. {name} is {comparison.got:.4g} there. 0 / 0 is NaN; a large negative number is not -inf.",
    )


def _first(output):
    return lambda _inputs, outputs: outputs[output].double().flatten()[0].item()


_EQUAL = _case("equal lse", 1, 1, fixed=([[float(NUM_KEYS)]], [0.0], [float(NUM_KEYS)]))

_SINGLE = _case("one score", 1, 1, fixed=([[1.0]], [LOG2_E], [1.0]))


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one row", 1, 1, schedules=("forward", "reverse")),
        _case("exactly one tile", 16),
        _case("one below a tile", 15),
        _case("one above a tile", 17, schedules=("forward", "reverse")),
        _case("ragged", 53),
        _case("tiles of 8 rows", 19, block_m=8),
        _case("tiles of 64 rows", 70, block_m=64),
        _case("head_dim 5", 18, 5),
        _case("head_dim 128", 18, 128),
        _case("300 rows", 300, block_m=128),
        _case("two keys", 19, num_keys=2),
        # With l = 1, few terms and numbers far above the 0.3 of the tolerance's floor, out is allowed 4e-7 of itself.
        _case("one key", 5, 1, values="ones", num_keys=1, v_scale=2.0**40),
        _case("scores near -12000", 18, values="minus_12000", empty=True),
        _case("scores below -1e30", 5, values=LOW),
        _case("ten million keys and more", 5, values=LARGE),
        _case("scores near -100", 5, values="minus_100"),
        _case("scores near +100", 5, values="plus_100"),
        _case("rows without a key", 19, empty=True),
        _case("no key at all", 1, empty=True),
    ),
    make_inputs=_state,
    make_run=_run,
    oracle=lambda case, tensors: _finished(**{name: tensor.double() for name, tensor in tensors.items()}),
    baseline=lambda case, tensors: _finished(**tensors),
    unread=lambda case, _: {"lse": torch.ones(case.sizes["num_rows"], dtype=torch.bool)} if case.values == LOW else {},
    rules={"out": "weights", "lse": "lse"},
    largest_score=_largest_score,
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
    ledger_rule=_traffic,
    tile=lambda case: (case.options.get("block_m", BLOCK_M), case.sizes["head_dim"]),
)

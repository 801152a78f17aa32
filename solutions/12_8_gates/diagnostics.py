"""What wrong gates of 12.8 look like, and the traffic of a right answer."""

import math

import torch

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.guesses import by_guess
from course_lib.grading.subjects.ledger.moved import moved

ROOT = math.sqrt(2.0 / math.pi)


def _silu(x):
    return x * torch.sigmoid(x)


def _gelu(x, *, root=ROOT, cubic=0.044715, power=3, half=0.5):
    return half * x * (1.0 + torch.tanh(root * (x + cubic * x**power)))


def gated(case, tensors, dtype=torch.float64, *, silu=_silu, gelu=_gelu, join=lambda gate, up: gate * up, halves=None):
    """{"out"}; the keywords make mistakes."""
    num_cols = case.sizes["num_cols"]
    both = tensors["both"][:, : 2 * num_cols].to(dtype)
    gate, up = halves(both) if halves else both.chunk(2, dim=1)
    return {"out": join((gelu if case.options["gelu"] else silu)(gate), up)}


def _erf(x):
    return 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0)))


_TABLE = (
    ("halves_exchanged", "The second half went through the gate: a row holds the gate first, then up.",
     {"halves": lambda both: both.chunk(2, dim=1)[::-1]}),
    ("neighbours", "Gate and up were taken as neighbours: all of the gate comes first.",
     {"halves": lambda both: (both[:, 0::2], both[:, 1::2])}),
    ("up_missing", "up is not in the result.", {"join": lambda gate, up: gate}),
    ("added", "up was added: it is multiplied.", {"join": lambda gate, up: gate + up}),
    ("silu_always", "SiLU came in the cases with GELU as well.", {"gelu": _silu}),
    ("gelu_always", "GELU came in the cases with SiLU as well.", {"silu": _gelu}),
    ("sigmoid_alone", "SiLU is x * sigmoid(x); x is missing.", {"silu": torch.sigmoid}),
    ("exponent_sign", "The sigmoid has the other sign: 1 / (1 + exp(-x)).", {"silu": lambda x: x * torch.sigmoid(-x)}),
    ("erf", "GELU is the one by erf; the tanh form differs from it by up to 0.0005, most near 2.7.", {"gelu": _erf}),
    ("sigmoid_1702", "GELU is x * sigmoid(1.702 x), a coarser approximation.",
     {"gelu": lambda x: x * torch.sigmoid(1.702 * x)}),
    ("cubic_missing", "GELU lacks 0.044715 x^3.", {"gelu": lambda x: _gelu(x, cubic=0.0)}),
    ("squared", "GELU has x^2 where x^3 is wanted.", {"gelu": lambda x: _gelu(x, power=2)}),
    ("root_missing", "GELU lacks sqrt(2 / pi) in the tanh.", {"gelu": lambda x: _gelu(x, root=1.0)}),
    ("half_missing", "GELU lacks the factor 0.5.", {"gelu": lambda x: _gelu(x, half=1.0)}),
    ("slope_halved", "GELU has sigmoid(y) where it is sigmoid(2 y) = 0.5 (1 + tanh(y)).",
     {"gelu": lambda x: _gelu(x, root=ROOT / 2.0)}),
)  # fmt: skip
_GUESSES = [
    (code, words, lambda case, tensors, options=options: gated(case, tensors, **options))
    for code, words, options in _TABLE
]


def diagnose(evidence):
    """Diagnosis of a wrong result, or None."""
    return _apart(evidence) or _overflow(evidence) or by_guess(evidence, _GUESSES) or _left(evidence)


def _apart(evidence):
    """Wrong only where rows are further apart than they are wide."""
    failing = [case.case for case in evidence.failing() if case.ran]
    if not failing or len(failing) < len(evidence.failing()) or not all(case.options.get("gap") for case in failing):
        return None
    case = failing[0]
    wide = 2 * case.sizes["num_cols"]
    return Diagnosis(
        "row_stride",
        f"Wrong only where rows are apart (first in the case {case.name!r}: {wide} numbers a row, "
        f"{wide + case.options['gap']} from one to the next): row r begins at r * stride_row.",
    )


def _overflow(evidence):
    """NaN or infinity at large gates alone."""
    failing = [case for case in evidence.failing() if case.ran]
    if not failing or any(case.case.values != "large" for case in evidence.failing()):
        return None
    if all(bool(torch.isfinite(case.first.outputs["out"]).all()) for case in failing):
        return None
    return Diagnosis(
        "overflow",
        f"Right near 0, and not finite in the case {failing[0].case.name!r}: exp(100) is more than float holds, and "
        "infinity divided by infinity is NaN. Write it so that the exponential only stands in a denominator.",
    )


def _left(evidence):
    """0 at gates far below 0, and right elsewhere."""
    failing = [case for case in evidence.failing() if case.ran]
    if not failing or len(failing) < len(evidence.failing()):
        return None
    if any(bool(case.first.outputs["out"][case.comparisons["out"].wrong].any()) for case in failing):
        return None
    one = next((case for case in failing if case.case.values == "left"), None)
    if one is None or {case.case.values for case in failing} - {"left", "large"}:
        return None
    return Diagnosis(
        "cut_on_the_left",
        f"Gates far below 0 give 0 (case {one.case.name!r}: {one.comparisons['out'].expected:.4g} is right). There the "
        "gate function is small, and not 0: silu(-10) is -0.00045 and gelu(-4) is -0.00007.",
    )


def bound(case):
    """Fewest bytes: gate and up read once, the result written once."""
    size = {"float32": 4, "float16": 2}[case.dtype]
    num_rows, num_cols = case.sizes.values()
    return 3 * num_rows * num_cols * size, f"{2 * num_rows * num_cols:,} numbers read and half as many written"


def each_once(case, ledger):
    """Diagnosis or None: each number is read once and each result written once."""
    size, why = {"float32": 4, "float16": 2}[case.dtype], "gate and up are read once, the result is written once"
    numbers = case.sizes["num_rows"] * case.sizes["num_cols"] * size
    return moved(case, ledger, read=2 * numbers, written=numbers, why=why)

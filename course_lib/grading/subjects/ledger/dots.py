"""What a contract says of tl.dot, judged by the ledger: that there are products, on which types, added up in which.

    ledger_rule=lambda case, ledger: dots(case, ledger, operands="fp16", fewest=2 * macs(case))

May import: verdict.
"""

import math

from ...report.verdict import Diagnosis

_NAMES = {"fp16": "half", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64", "fp8e4nv": "fp8"}


def dots(case, ledger, *, operands, accumulator="fp32", precision="ieee", fewest=1):
    """Diagnosis or None: every tl.dot multiplies `operands`, adds up in `accumulator`, and there are enough of them.

    Parameters
    ----------
    case : Case
    ledger : dict of a Triton run; where a GPU gave none there is nothing to judge
    operands : str or tuple of str, Triton's names of the types that may be multiplied: "fp16", "bf16", "fp32"
    accumulator : str, in which the products must be added up
    precision : str or None, the input_precision that a tl.dot on float32 must have; None: any
    fewest : int, multiply-adds of all products together, those of tiles that are not full counted as they are in the
        contract; fewer mean that a product was computed in another way
    """
    found = ledger.get("dots", [])
    allowed = (operands,) if isinstance(operands, str) else operands
    wanted = f"{' or '.join(map(_name, allowed))} with {_article(accumulator)} {_name(accumulator)} accumulator"
    start = f"Every value is right (case {case.name!r}), but the contract asks for tl.dot on {wanted}"
    if not found:
        return Diagnosis("no_dot", f"{start}, and no tl.dot was executed.")
    wrong = (_of_types(f"{start}; line {dot['line']}", dot, allowed, accumulator, precision) for dot in found)
    if (first := next(filter(None, wrong), None)) is not None:
        return first
    made = sum(dot["count"] * math.prod(dot["shape"]) for dot in found)
    if made < fewest:
        lines = ", ".join(str(line) for line in sorted({dot["line"] for dot in found}))
        return Diagnosis(
            "dots_missing",
            f"{start}; the tl.dot of line {lines} make {made:,} multiply-adds, and the products of the contract take "
            f"{fewest:,}: one of them is computed in another way.",
        )
    return None


def _of_types(at, dot, allowed, accumulator, precision):
    """Diagnosis of one tl.dot on other types than the contract's, or None."""
    if dot["lhs"] not in allowed or dot["rhs"] not in allowed:
        words = f"{at} multiplies {_name(dot['lhs'])} by {_name(dot['rhs'])}."
        return Diagnosis("dot_operands", words, dot["line"])
    if dot["accumulator"] != accumulator:
        words = f"{at} adds the products up in {_name(dot['accumulator'])}."
        return Diagnosis("dot_accumulator", words, dot["line"])
    if precision and dot["lhs"] == "fp32" and dot["input_precision"] != precision:
        given = dot["input_precision"].upper()
        words = f"{at} has the input_precision {given}; pass input_precision={precision!r}."
        return Diagnosis("dot_precision", words, dot["line"])
    return None


def _name(dtype):
    return _NAMES.get(dtype, dtype)


def _article(dtype):
    return "an" if dtype.startswith("i") else "a"

"""Diagnoses of merged ragged parts: which parts a row was made of, and what was done with empty ones.

May import: verdict, decode.combine, decode.limits.
"""

import math
from dataclasses import replace

import torch

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.attention.diagnostics import near
from course_lib.grading.subjects.decode import combine
from course_lib.grading.subjects.decode.limits import by_bound

LAYOUT = (2, 0, 3, 1)  # parts of the tokens of the layout probe; all log-sum-exps are 0
NEG_INF = float("-inf")


def numbered(num_heads, head_dim):
    """(part_out, part_lse) of the layout probe: part_out is 10 part + head."""
    values = 10.0 * torch.arange(sum(LAYOUT))[:, None] + torch.arange(num_heads)
    return values[:, :, None].expand(-1, -1, head_dim).contiguous(), torch.zeros(sum(LAYOUT), num_heads)


def diagnose(evidence):
    """Diagnosis of a failing merge, or None."""
    looks = (
        _by_kept,
        _by_layout,
        _by_weights,
        _by_faint,
        _by_low,
        _by_bounds,
        _by_level,
        _by_empty,
    )
    return next((diagnosis for look in looks if (diagnosis := look(evidence)) is not None), None)


def _by_weights(evidence):
    """Two parts, or one, with weights or an lse of their own: the diagnoses of `combine`, in this exercise's words."""
    found = combine.by_weights(evidence) or combine.by_lse(evidence)
    if found is None:
        return None
    return replace(found, sentence=found.sentence.replace("partial_lse", "part_lse").replace("split", "part"))


def _wrong_rows(case):
    """(num_tokens, num_heads) bool: rows of out or lse that are wrong."""
    rows = torch.zeros(case.ref["lse"].shape, dtype=torch.bool)
    for comparison in case.comparisons.values():
        if comparison.wrong is not None:
            rows |= comparison.wrong.reshape(*rows.shape, -1).any(dim=2)
    return rows


def _without_keys(case):
    """(num_tokens, num_heads) bool: rows whose parts are all empty."""
    starts, part_lse = case.inputs["token_parts"].tolist(), case.inputs["part_lse"]
    return torch.stack([(part_lse[a:b] == NEG_INF).all(dim=0) for a, b in zip(starts, starts[1:], strict=False)])


def _by_kept(evidence):
    """Only tokens without parts are wrong."""
    failing = evidence.failing_by_values()
    if not failing:
        return None
    for case in failing:
        kept = torch.tensor(case.case.options["counts"]) == 0
        if bool(_wrong_rows(case)[~kept].any()):
            return None
    case = failing[0]
    token = case.case.options["counts"].index(0)
    return Diagnosis(
        "kept_overwritten",
        f"Right for every token that has parts. In the case {case.case.name!r} token {token} has none, token_parts "
        f"{case.inputs['token_parts'].tolist()}: a single item has written its out and lse, and they are to be kept; "
        f"out[{token}, 0, 0] was {case.ref['out'][token, 0, 0].item():.4g} and is "
        f"{case.first.outputs['out'][token, 0, 0].item():.4g}.",
    )


def _mean(rows, head):
    """Mean of 10 part + head' over pairs (part, head')."""
    return sum(10.0 * part + h for part, h in rows(head)) / max(len(rows(head)), 1)


_STARTS = [sum(LAYOUT[:token]) for token in range(len(LAYOUT))]


def _flat(index):
    """(part, head) of a row of part_out, as it is stored for two heads."""
    return index // 2, index % 2


# (code, words, (token, head) -> pairs (part, head) that were read)
_RULES = (
    ("first_part_unused", "token_parts[token], the first part, was not used: every token read from part 0 on",
     lambda t, h: [(p, h) for p in range(LAYOUT[t])]),
    ("last_part_lost", "its last part is missing: the parts go up to token_parts[token + 1] - 1",
     lambda t, h: [(p, h) for p in range(_STARTS[t], _STARTS[t] + LAYOUT[t] - 1)]),
    ("first_part_lost", "its first part is missing",
     lambda t, h: [(p, h) for p in range(_STARTS[t] + 1, _STARTS[t] + LAYOUT[t])]),
    ("first_part_twice", "its first part was counted twice: a loop over the other parts begins one further",
     lambda t, h: [(_STARTS[t], h)] + [(p, h) for p in range(_STARTS[t], _STARTS[t] + LAYOUT[t])]),
    ("two_parts", "only its first two parts were used; a token has any number",
     lambda t, h: [(p, h) for p in range(_STARTS[t], _STARTS[t] + min(LAYOUT[t], 2))]),
    ("head_forgotten", "the values are those of head 0",
     lambda t, h: [(p, 0) for p in range(_STARTS[t], _STARTS[t] + LAYOUT[t])]),
    ("heads_before_parts", "part_out was read as (num_heads, num_parts, HEAD_DIM); the heads of a part are neighbours",
     lambda t, h: [_flat(h * sum(LAYOUT) + p) for p in range(_STARTS[t], _STARTS[t] + LAYOUT[t])]),
)  # fmt: skip


def _by_layout(evidence):
    """Equal weights over other parts than the token's."""
    reading = evidence.readings.get("layout")
    if reading is None:
        return None
    cells = [(t, h) for t, count in enumerate(LAYOUT) if count for h in range(2)]

    def right(t, h):
        return [(p, h) for p in range(_STARTS[t], _STARTS[t] + LAYOUT[t])]

    def same(rule):
        return all(near(reading[t][h], _mean(lambda h, t=t: rule(t, h), h), 1e-4) for t, h in cells)

    if not all(math.isfinite(reading[t][h]) for t, h in cells) or same(right):
        return None
    got = ", ".join(f"{reading[2][h]:.4g}" for h in range(2))
    start = (
        f"Four tokens with {', '.join(map(str, LAYOUT))} parts of equal weight, two heads, part_out is 10 part + head: "
        f"out of token 2 must be 30, 31 and is {got}"
    )
    for code, words, rule in _RULES:
        if same(rule):
            return Diagnosis(code, f"{start}: {words}.")
    return None


def _by_faint(evidence):
    case = combine.only_with(evidence, "faint")
    if case:
        return Diagnosis(
            "small_weights_dropped",
            f"Right but for the case {case.case.name!r}: each of its 299 other parts weighs 2^-21, together 1.4e-4, "
            "and they were left out or lost in a sum. Only a part without keys weighs nothing.",
        )
    failing = [case for case in evidence.failing() if case.ran]
    for least in (1e-3, 1e-4, 1e-5, 1e-6, 1e-7) if len(failing) == len(evidence.failing()) else ():
        if failing and all(_drops(case, least) for case in failing):
            return Diagnosis(
                "small_weights_dropped",
                f"The results are those of a merge that leaves out the parts of less than about {least:g} times the "
                f"largest weight (first in the case {failing[0].case.name!r}). Only a part without keys weighs "
                "nothing.",
            )
    return None


def _drops(case, least):
    """Whether out is what comes without the parts that weigh less than `least` times the largest one, if any do."""
    starts, part_lse = case.inputs["token_parts"].tolist(), case.inputs["part_lse"].double()
    dropped = False
    for token, (first, end) in enumerate(zip(starts, starts[1:], strict=False)):
        weights = (part_lse[first:end] - part_lse[first:end].amax(0)).exp() if end > first else part_lse[first:end]
        dropped |= bool(((weights > 0) & (weights < least)).any())
        weights = torch.where(weights >= least, weights, 0.0)  # NaN: a row without keys
        if bool((weights.sum(0) > 0).all()) and end > first:
            values = torch.where(weights[..., None] > 0, case.inputs["part_out"][first:end].double(), 0.0)
            out = (weights[..., None] * values).sum(0) / weights.sum(0)[:, None]
            if not torch.allclose(case.first.outputs["out"][token].double(), out, rtol=1e-5, atol=1e-6):
                return False
    return dropped


def _by_low(evidence):
    case = combine.only_with(evidence, "lowest")
    if case is not None:
        return Diagnosis(
            "low_taken_for_empty",
            f"Right for log-sum-exps from -12,000 to +100, wrong in the case {case.case.name!r}: is a number taken for "
            "-inf, as the start of m? Only -inf marks a part without keys, and only -inf is below every maximum.",
        )
    return combine.by_low(evidence, part="part")


def _by_bounds(evidence):
    """Right up to a number of columns or parts."""
    if combine.only_with(evidence, "large"):
        return Diagnosis("values_bounded", "Right for values near 1, wrong near 10,000: no size of a value is special.")
    return by_bound(evidence, {name: lambda case, n=name: case.sizes[n] for name in ("head_dim", "most_parts")})


def _by_level(evidence):
    """Right near 0, wrong where exp of a log-sum-exp itself over- or underflows."""
    failing = {case.case.values for case in evidence.failing()}
    if (
        not failing
        or not failing & {"plus_100", "minus_100"}
        or any(c.case.name == "ragged" for c in evidence.failing())
    ):
        return None
    case = evidence.failing("plus_100", "minus_100")[0]
    return Diagnosis(
        "no_max",
        f"Right for log-sum-exps near 0, wrong in the case {case.case.name!r}: exp(100) is more than float holds, and "
        "exp(-100) is nearly 0. Subtract the largest log-sum-exp, which begins at -inf, and add it to lse again.",
    )


def _by_empty(evidence):
    """Right wherever no part is empty."""
    case = combine.only_with(evidence, "empty")
    if case is None:
        return None
    token, head = (_wrong_rows(case).nonzero()[0]).tolist()
    start, end = case.inputs["token_parts"][token : token + 2].tolist()
    sums = case.inputs["part_lse"][start:end, head]
    empty, outputs = int((sums == NEG_INF).sum()), case.first.outputs
    out, lse = outputs["out"][token, head, 0].item(), outputs["lse"][token, head].item()
    said = (
        f"Right where every part has keys. In the case {case.case.name!r} {empty} of {end - start} parts of token "
        f"{token}, head {head} are empty, part_lse -inf; out is {out:.4g}, expected "
        f"{case.ref['out'][token, head, 0].item():.4g}, lse {lse:.4g}, expected "
        f"{case.ref['lse'][token, head].item():.4g}"
    )
    if not any(bool((_wrong_rows(c) & ~_without_keys(c)).any()) for c in evidence.failing()):
        return Diagnosis("all_empty", f"{said}. A sum of no weight is 0: 0 / 0 is NaN, and lse is -inf.")
    if all(bool(c.first.outputs["out"].isfinite().all()) for c in evidence.failing()):
        return Diagnosis("empty_part", f"{said}. An empty part adds nothing; the parts after it count as before.")
    return Diagnosis(
        "empty_part", f"{said}. The part_out of an empty part may hold anything: 0 times NaN is NaN. Leave it out."
    )

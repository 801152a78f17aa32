"""Diagnoses of a window and a soft cap, from two probes: the first and last key of each query, and two capped scores.

May import: verdict, reference.attention, attention.cases, attention.diagnostics, flash_attention.masks,
flash_attention_2.diagnostics.
"""

import math

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.attention.cases import scale_of
from course_lib.grading.subjects.attention.diagnostics import near
from course_lib.grading.subjects.flash_attention.masks import by_masked_rows
from course_lib.grading.subjects.flash_attention_2.diagnostics import by_parameters
from course_lib.reference import attention as reference

SEEN, SEEN_WINDOW = (56, 73), 20  # queries and keys of the probe "seen"
CAP, CAP_SCALE, CAP_SCORE = 2.0, 0.6, 3.0  # of the probe "cap": scores 3 and -3, which are 5 and -5 before the scale
PADDED = 30  # keys of its tile that do not exist


def diagnose(evidence):
    """Diagnosis of a failing kernel, or None."""
    looks = (_by_cap, _by_lse, _by_seen, _by_overflow, by_parameters, _by_window, by_masked_rows, _other_keys)
    return next((diagnosis for look in looks if (diagnosis := look(evidence)) is not None), None)


def _by_cap(evidence):
    """What the softmax took in place of scores 3 and -3."""
    got = evidence.readings.get("cap")
    right = 2 * CAP * math.tanh(CAP_SCORE / CAP)
    if got is None or not math.isfinite(got) or near(got, right, 1e-4):
        return None
    start = (
        f"Two keys with scores {CAP_SCORE:g} and {-CAP_SCORE:g}, softmax_scale {CAP_SCALE:g}, soft_cap {CAP:g}: capped "
        f"they differ by {right:.4g}, and in the softmax they differed by {got:.4g}"
    )
    raw, half = CAP_SCORE / CAP_SCALE, right / 2
    table = (
        (2 * CAP_SCORE, "cap_missing", "they were not capped"),
        (2 * CAP, "clamped", "they were cut off at the cap; soft_cap * tanh(score / soft_cap) bends towards it"),
        (2 * CAP * math.tanh(raw / CAP), "cap_before_scale", "they were capped before softmax_scale was applied, which "
         "then is missing"),
        (2 * CAP_SCALE * CAP * math.tanh(raw / CAP), "cap_before_scale", "they were capped before softmax_scale was "
         "applied"),
        (2 * math.tanh(CAP_SCORE / CAP), "cap_not_multiplied", "tanh is at most 1; multiply it by soft_cap"),
        (2 * CAP * math.tanh(CAP_SCORE), "cap_not_divided", "the score was not divided by soft_cap before tanh"),
        (half - math.log(math.exp(-half) + PADDED * math.exp(-CAP)), "cap_after_mask", f"the {PADDED} masked keys "
         "of the tile counted with the score -soft_cap. tanh(-inf) is -1: mask after the cap"),
        (2 * math.tanh(CAP_SCORE), "cap_of_1", "soft_cap was not used at all"),
    )  # fmt: skip
    for value, code, words in table:
        if near(got, value, 1e-4):
            return Diagnosis(code, f"{start}: {words}.")
    return _by_padding(half, got, start) or Diagnosis("cap_wrong", f"{start}.")


def _by_padding(half, got, start):
    """Capped scores are right, and keys past the last one, loaded as 0, have the weight exp(0) beside them."""
    keys = math.exp(half - got) - math.exp(-half)
    if not 0.5 < keys < PADDED + 0.5 or not near(keys, round(keys), 1e-3):
        return None
    words = f"{round(keys)} keys past the last one, loaded as 0, counted with the score 0"
    return Diagnosis("padding_counted", f"{start}: {words}. A query sees no key after its own.")


def _rules():
    """[(code, row -> (first key, last key), words)]."""
    offset, last = SEEN[1] - SEEN[0], SEEN[1] - 1

    def window(first, end=lambda p: p):
        return lambda row: (min(max(first(row + offset), 0), last), min(end(row + offset), last))

    width = SEEN_WINDOW
    return (
        ("window_off_by_one", window(lambda p: p - width + 1), "one key too few: its own and window_left before it"),
        ("window_off_by_one", window(lambda p: p - width - 1), "one key too many: its own and window_left before it"),
        ("window_missing", window(lambda p: 0), "every key up to its own: nothing hides those left of the window"),
        ("window_both_sides", window(lambda p: p - width, lambda p: p + width), "the window to the right as well"),
        ("window_both_sides", window(lambda p: p - width, lambda p: last), "every key to the right"),
        ("top_left", lambda row: (max(row - width, 0), row), "aligned to the top left: add seq_len_kv - seq_len_q"),
        ("top_left", lambda row: (max(row - width, 0), row + offset), "the window's left end is counted from the row; "
         "count it from the position, row + seq_len_kv - seq_len_q"),
        ("mask_in_tile", lambda row: (max(row // 16 * 16 + offset - width, 0) // 32 * 32, row + offset), "all keys of "
         "the first tile that was visited. Inside a tile, the keys left of position - window_left get the score -inf"),
        ("causal_off_by_one", window(lambda p: p - width, lambda p: p - 1), "its own key is missing"),
    )  # fmt: skip


def _by_lse(evidence):
    """lse of equal scores is the logarithm of the number of keys."""
    seen, right = evidence.readings.get("seen"), _right()
    if seen is None or not all(
        near(row[2], math.log2(last - first + 1)) for row, (first, last) in zip(seen, right, strict=True)
    ):
        return None
    count = right[0][1] + 1
    return Diagnosis(
        "lse_base_2",
        f"{count} equal scores of 0: lse must be ln({count}) = {math.log(count):.4g} and is {seen[0][2]:.4g}, the "
        "logarithm to the base 2; the course's lse is natural.",
    )


def _right():
    """(first key, last key) of each query of the probe."""
    offset = SEEN[1] - SEEN[0]
    return [(max(row + offset - SEEN_WINDOW, 0), row + offset) for row in range(SEEN[0])]


def _wrong(evidence):
    """(keys of each query, rows that are wrong, the beginning of a sentence) of the probe, or None."""
    seen, right = evidence.readings.get("seen"), _right()
    if seen is None or any(not math.isfinite(number) for row in seen for number in row):
        return None
    wrong = [row for row, keys in enumerate(seen) if not _same(keys, right[row])]
    if not wrong:
        return None
    row = wrong[0]
    start = (
        f"Equal scores, {SEEN[0]} queries, {SEEN[1]} keys, window_left {SEEN_WINDOW}: row {row}, at position "
        f"{right[row][1]}, sees the keys {right[row][0]} to {right[row][1]}; here it saw "
        f"{round(seen[row][0], 3) + 0.0:.4g} to {round(seen[row][1], 3) + 0.0:.4g}"
    )
    return seen, wrong, start


def _by_seen(evidence):
    """The keys of each query follow the rule of a known mistake."""
    found = _wrong(evidence)
    if found is None:
        return None
    (seen, wrong, start), right = found, _right()
    for code, rule, words in _rules():
        if all(_same(keys, rule(r)) for r, keys in enumerate(seen)):
            return Diagnosis(code, f"{start}: {words}.")
    late = all(near(seen[r][1], right[r][1], 1e-3) and seen[r][0] > right[r][0] for r in wrong)
    if late and len(wrong) < SEEN[0]:
        return Diagnosis(
            "tile_skipped",
            f"{start}; {SEEN[0] - len(wrong)} rows are right. The loop begins too late: the tile's first query has the "
            "leftmost window, and the tile that holds its first key is visited.",
        )
    return None


def _other_keys(evidence):
    """Other keys than the window's, by no rule."""
    found = _wrong(evidence)
    return found and Diagnosis("wrong_keys", f"{found[2]}, if they are neighbours. A masked key weighs nothing at all.")


def _same(row, wanted):
    return all(abs(got - key) < 1e-2 for got, key in zip(row[:2], wanted, strict=True))


def _ratio(one):
    """The largest score over soft_cap of a case."""
    q, k = one.inputs["q"].double(), one.inputs["k"].double()
    scores = reference.rounded_scores(q, k, softmax_scale=scale_of(one.case, q.shape[-1]))
    return scores.max().item() / one.case.options["cap"]


def _by_overflow(evidence):
    """NaN where exp(2 score / soft_cap) overflows, and nothing else wrong."""
    failing = evidence.failing_by_values()
    if not failing or len(failing) != len(evidence.failing()):
        return None
    if not all(bool(one.first.outputs["out"].isnan().any()) and _ratio(one) > 44.4 for one in failing):
        return None
    if any(_ratio(one) > 44.4 for one in evidence.passing()):
        return None
    power = f"{2 * _ratio(failing[0]):.0f}"
    return Diagnosis(
        "exp_overflows",
        f"NaN in the case {failing[0].case.name!r}, where 2 * score / soft_cap is up to {power}, and right wherever it "
        f"is below 88: exp({power}) is more than float32 holds, and inf / inf is NaN. tl.sigmoid does not overflow.",
    )


def _by_window(evidence):
    """Right for some windows, or caps, wrong for others."""
    failing, passing = evidence.failing(), evidence.passing()
    for name, said in (("window", "window_left"), ("cap", "soft_cap")):
        cuts = [
            c for c in passing if c.case.options["window"] < c.case.sizes["seq_len_kv"] - 1
        ]  # the window hides keys
        right, wrong = ({c.case.options[name] for c in cases} for cases in (cuts, failing))
        if right and wrong and right.isdisjoint(wrong):
            return Diagnosis(
                "parameter_constant",
                f"Right wherever {said} is {_list(right)}, wrong wherever it is {_list(wrong)}: {said} is a parameter.",
            )
    return None


def _list(values):
    return ", ".join(f"{value:g}" for value in sorted(values))

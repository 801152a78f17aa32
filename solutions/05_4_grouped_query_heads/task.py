"""05.4 Grouped query heads: what the judge runs."""

import math

from course_lib.grading.exercise import magnitude
from course_lib.grading.exercise.spec import ALL_SCHEDULES, Probe, exercise
from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.attention import blocks
from course_lib.grading.subjects.attention.heads import MASKS, head_map, say_heads, say_rows, visible
from course_lib.reference import attention as reference


def _run(case, tensors):
    outputs = {"out": tuple(tensors["q"].shape), "lse": tuple(tensors["q"].shape[:3])}
    causal = int(case.options.get("causal", 0))
    return blocks.launch(case, tensors, outputs, blocks.SIZES[1:], causal, shared_bytes=4 * case.sizes["seq_len_kv"])


def _judged(function, case, tensors):
    causal = bool(case.options.get("causal", 0))
    scale = case.options.get("scale")
    out, lse = function(tensors["q"], tensors["k"], tensors["v"], causal=causal, softmax_scale=scale)
    return {"out": out, "lse": lse}


def _rows_probe(name, seq_len_q, seq_len_kv, causal):
    """q = 0 and v = 1, 2, 3, …: the mean of the first n keys is (n + 1) / 2."""
    case = blocks.case(name, (1, 1, 1, seq_len_q, seq_len_kv, 4), "zeros", v="key_numbers", causal=causal)
    return Probe(name, case, lambda _inputs, outputs: (2.0 * outputs["out"].double()[0, 0, :, 0] - 1.0).tolist())


def _diagnose(evidence):
    """Heads first, then rows and keys; the mask may only be judged where it is right for some row."""
    found = say_heads(evidence.readings.get("head map"))
    for name, seq_len_q, seq_len_kv, causal in MASKS:
        seen = evidence.readings.get(name)
        found = found or (say_rows(name, seen) if seen else None)
        if found is None and seen:
            found = _say_empty(seen, seq_len_q, seq_len_kv, causal)
    return found or say_heads(evidence.readings.get("k head map"), "k") or _by_empty_lse(evidence.failing())


def _by_empty_lse(failing):
    """Rows that see no key have a wrong lse, and nothing else is wrong."""
    for case in failing:
        wrong = case.comparisons["lse"].wrong
        if not case.comparisons["out"].passed or wrong is None or bool((wrong & ~case.ref["lse"].isneginf()).any()):
            return None
    if not failing:
        return None
    got = failing[0].first.outputs["lse"][failing[0].comparisons["lse"].wrong][0].item()
    return Diagnosis(
        "masked_row",
        f"Right but for rows that see no key (case {failing[0].case.name!r}): their lse must be -inf and is {got:.4g}.",
    )


def _say_empty(seen, seq_len_q, seq_len_kv, causal):
    """out = 0 reads as -1 here."""
    for q_row, value in enumerate(seen):
        if visible(q_row, seq_len_q, seq_len_kv, causal) or math.isclose(value, -1.0):
            continue
        return Diagnosis(
            "masked_row",
            f"With seq_len_q = {seq_len_q} and seq_len_kv = {seq_len_kv}, row {q_row} sees no key: out must be 0 and "
            f"is {(value + 1) / 2:.4g}.",
        )
    return None


def _bound(case):
    """Fewest bytes: q, k, v once, out and lse once."""
    sizes = case.sizes
    rows = sizes["batch_size"] * sizes["num_heads"] * sizes["seq_len_q"]
    keys = sizes["batch_size"] * sizes["num_kv_heads"] * sizes["seq_len_kv"]
    count = 2 * (rows + keys) * sizes["head_dim"] + rows
    return 4 * count, f"q, k, v read once, result and lse written once: {count:,} numbers of 4 bytes"


EXERCISE = exercise(
    __file__,
    cases=(
        blocks.case("one of everything", (1, 1, 1, 1, 1, 1), schedules=ALL_SCHEDULES),
        blocks.case("4 heads on 2", (1, 4, 2, 3, 9, 8), schedules=ALL_SCHEDULES),
        blocks.case("6 heads on 3, two batch entries", (2, 6, 3, 4, 7, 8), schedules=("forward", "random")),
        blocks.case("8 heads on 1", (2, 8, 1, 2, 20, 4), schedules=("forward",)),
        blocks.case("9 heads on 9, five batch entries", (5, 9, 9, 1, 20, 80)),  # over 65,536 numbers of k
        blocks.case("6 heads on 2", (2, 6, 2, 2, 9, 4)),
        blocks.case("10 heads on 2, causal", (2, 10, 2, 3, 9, 4), causal=1, scale=0.9),
        blocks.case("one query, causal", (2, 4, 2, 1, 9, 4), causal=1),
        blocks.case("as many as query heads", (2, 3, 3, 4, 20, 8), schedules=("forward",)),
        blocks.case("causal, square", (1, 2, 1, 5, 5, 8), causal=1, schedules=ALL_SCHEDULES),
        blocks.case("causal, 2 rows and 5 keys", (1, 2, 2, 2, 5, 8), causal=1, schedules=("forward",)),
        blocks.case("causal, more queries than keys", (2, 2, 1, 9, 5, 8), causal=1, schedules=("forward", "reverse")),
        blocks.case("causal, 9 queries and 2 keys", (1, 2, 1, 9, 2, 8), causal=1),
        blocks.case("causal, ragged", (2, 4, 2, 3, 70, 21), causal=1),
        blocks.case("causal, scores near -100", (1, 4, 2, 3, 53, 32), "minus_100", causal=1),
        blocks.case("rising scores", (1, 4, 2, 2, 131, 33), "rising"),
    ),
    make_inputs=blocks.inputs,
    make_run=_run,
    oracle=lambda case, tensors: _judged(reference.attention_lse, case, tensors),
    baseline=lambda case, tensors: _judged(reference.rounded_attention_lse, case, tensors),
    rules={"out": "weights", "lse": "lse"},
    largest_score=magnitude.of_attention(),
    probes=(head_map(6, 3), head_map(6, 3, of="k"), *(_rows_probe(*mask) for mask in MASKS)),
    diagnose=_diagnose,
    bound_bytes=_bound,
    tile=lambda case: (1, 4),
)

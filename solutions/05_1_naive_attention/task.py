"""05.1 Naive attention in CUDA: what the judge runs."""

from course_lib.grading.exercise import magnitude, probes
from course_lib.grading.exercise.spec import ALL_SCHEDULES, exercise
from course_lib.grading.subjects.attention import blocks
from course_lib.grading.subjects.attention.diagnostics import diagnose_attention
from course_lib.grading.subjects.attention.heads import head_map, say_heads
from course_lib.reference import attention as reference


def _run(case, tensors):
    q = tensors["q"]
    outputs = {"probs": (*q.shape[:3], case.sizes["seq_len_kv"]), "out": tuple(q.shape)}
    return blocks.launch(case, tensors, outputs, ("num_heads", "seq_len_q", "seq_len_kv", "head_dim"))


def _judged(q, k, v):
    probs = reference.rounded_softmax(reference.rounded_scores(q, k))
    return {"probs": probs, "out": probs @ v}


def _bound(case):
    """Fewest bytes: q, k, v once, the weights and the result once."""
    sizes = case.sizes
    heads = sizes["batch_size"] * sizes["num_heads"]
    rows, keys = heads * sizes["seq_len_q"], heads * sizes["seq_len_kv"]
    count = (2 * rows + 2 * keys) * sizes["head_dim"] + rows * sizes["seq_len_kv"]
    return 4 * count, f"q, k, v read once, weights and result written once: {count:,} numbers of 4 bytes"


def _probe_sizes(seq_len_kv, head_dim):
    return dict(zip(blocks.SIZES, (1, 1, 1, 2, seq_len_kv, head_dim), strict=True))


def _diagnose(evidence):
    """Diagnosis of the probes of one head (keys, weights, scale), then of the head that was read."""
    return diagnose_attention(evidence) or say_heads(evidence.readings.get("head map"))


EXERCISE = exercise(
    __file__,
    cases=(
        blocks.case("one of everything", (1, 1, 1, 1, 1, 1), schedules=ALL_SCHEDULES),
        blocks.case("one head", (1, 1, 1, 5, 9, 8), schedules=ALL_SCHEDULES),
        blocks.case("ragged", (1, 2, 2, 7, 37, 20), schedules=ALL_SCHEDULES),
        blocks.case("one key more than threads", (1, 1, 1, 3, blocks.BLOCK + 1, 16), schedules=("forward", "reverse")),
        blocks.case("more columns than threads", (1, 1, 1, 4, 33, 113), schedules=("forward",)),
        blocks.case("more queries than keys", (1, 2, 2, 13, 5, 24), schedules=("forward",)),
        blocks.case("batch entries and heads", (2, 3, 3, 4, 20, 8), schedules=("forward", "random")),
        blocks.case("one query, many keys", (2, 2, 2, 1, 200, 16)),
        blocks.case("rising scores", (1, 1, 1, 5, 131, 32), "rising"),
        blocks.case("scores near -100", (1, 2, 2, 5, 45, 32), "minus_100"),
        blocks.case("scores near +100", (1, 2, 2, 5, 45, 32), "plus_100"),
        blocks.case("one score of 120 a row", (1, 2, 2, 5, 50, 32), "spikes"),
    ),
    make_inputs=blocks.inputs,
    make_run=_run,
    oracle=lambda case, tensors: _judged(*(tensor.double() for tensor in tensors.values())),
    baseline=lambda case, tensors: _judged(*tensors.values()),
    rules={"probs": "weights", "out": "weights"},
    largest_score=magnitude.of_attention(),
    probes=(
        probes.key_counter(_probe_sizes(53, 64)),
        probes.unity(_probe_sizes(32, 64)),
        probes.ramp(_probe_sizes(32, 64)),
        head_map(3, 3),
    ),
    diagnose=_diagnose,
    bound_bytes=_bound,
    tile=lambda case: (1, blocks.BLOCK),
)

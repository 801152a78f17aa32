"""05.1 Naive attention in CUDA: what the judge runs."""

from course_lib.grading.exercise import magnitude, probes
from course_lib.grading.exercise.spec import ALL_SCHEDULES, exercise
from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.attention import blocks
from course_lib.grading.subjects.attention.cases import scale_of
from course_lib.grading.subjects.attention.diagnostics import diagnose_attention, near
from course_lib.grading.subjects.attention.heads import head_map, say_heads
from course_lib.grading.subjects.attention.raw_maximum import by_raw_maximum
from course_lib.grading.subjects.ledger.moved import moved
from course_lib.grading.subjects.ledger.share import share
from course_lib.grading.subjects.limits import by_limit
from course_lib.reference import attention as reference


def _run(case, tensors):
    q = tensors["q"]
    outputs = {"probs": (*q.shape[:3], case.sizes["seq_len_kv"]), "out": tuple(q.shape)}
    return blocks.launch(case, tensors, outputs, ("num_heads", "seq_len_q", "seq_len_kv", "head_dim"))


def _judged(case, q, k, v):
    scale = scale_of(case, case.sizes["head_dim"])
    probs = reference.rounded_softmax(reference.rounded_scores(q, k, softmax_scale=scale))
    return {"probs": probs, "out": probs @ v}


def _bound(case):
    """Fewest bytes: q, k, v once, the weights and the result once."""
    sizes = case.sizes
    heads = sizes["batch_size"] * sizes["num_heads"]
    rows, keys = heads * sizes["seq_len_q"], heads * sizes["seq_len_kv"]
    count = (2 * rows + 2 * keys) * sizes["head_dim"] + rows * sizes["seq_len_kv"]
    return 4 * count, f"q, k, v read once, weights and result written once: {count:,} numbers of 4 bytes"


def _share(case, ledger):
    """Refuses threads that repeat each other's work, or leave it to one of them."""
    keys, dim = case.sizes["seq_len_kv"], case.sizes["head_dim"]
    rows = case.sizes["batch_size"] * case.sizes["num_heads"] * case.sizes["seq_len_q"]
    if min(keys, dim) < _ENOUGH:
        return None
    why = "each product of q and k, and each one of a weight and v, is made by one thread"
    reads, writes = rows * (4 * keys * dim + 16 * keys + 2 * dim), rows * (3 * keys + dim)
    found = moved(case, ledger, read=4 * reads, written=4 * writes, why=why)
    threads = case.options.get("block", blocks.BLOCK)
    own = 2 * dim * -(-keys // threads) + 2 * keys * -(-dim // threads)  # products of q and k, of weights and v
    return found or share(case, ledger, loaded=4 * (2 * own + 4 * keys), why="threads share the keys and the columns")


def _probe_sizes(seq_len_kv, head_dim):
    return dict(zip(blocks.SIZES, (1, 1, 1, 2, seq_len_kv, head_dim), strict=True))


def _diagnose(evidence):
    """Diagnosis of a size, then of the probes of one head (keys, weights, scale), then of the head that was read."""
    limited = by_limit(evidence, seq_len_kv="keys", head_dim="columns")
    own = limited or _by_threads(evidence) or by_raw_maximum(evidence, "probs") or _by_division(evidence)
    return own or diagnose_attention(evidence) or say_heads(evidence.readings.get("head map"))


def _by_division(evidence):
    """`out` is right everywhere, and the weights are not: they were divided on the way to `out` alone."""
    failing = [case for case in evidence.failing() if case.ran and not case.comparisons["probs"].passed]
    if not failing or any(not case.comparisons["out"].passed for case in evidence.failing()):
        return None
    got, right = (failing[0].first.outputs["probs"], failing[0].ref["probs"])
    total = got.double().reshape(-1, got.shape[-1])[0].sum().item()
    if near(total, 1.0) or not near(total * right.flatten()[0].item(), got.flatten()[0].item(), 1e-4):
        return None
    return Diagnosis(
        "no_division",
        f"out is right, but in the case {failing[0].case.name!r} the first row of probs adds up to {total:.4g}: its "
        "exponentials were never divided by their sum in probs. probs receives the weights themselves.",
    )


def _by_threads(evidence):
    """Rows with two keys or more a thread: weights of threads that kept their own maximum or their own sum."""
    for case in evidence.failing("normal"):
        threads, keys = case.case.options.get("block", blocks.BLOCK), case.case.sizes["seq_len_kv"]
        if not case.ran or keys < 2 * threads:
            continue
        row = case.first.outputs["probs"].double().flatten()[:keys]
        largest, start = int((row == row.max()).sum()), f"In the case {case.case.name!r}, {threads} threads"
        if near(row.sum().item(), threads):
            return Diagnosis(
                "own_sum",
                f"{start}, the weights of a row add up to {threads}: each thread divided by the sum of its own keys. "
                "All of them need the sum of the block.",
            )
        if largest == threads:
            return Diagnosis(
                "own_maximum",
                f"{start}, {largest} of {keys} weights are the largest one: each thread subtracted the maximum of its "
                "own keys. All of them need the maximum of the block.",
            )
    return None


_ENOUGH = 16  # keys and columns from which on the work of the threads is judged

EXERCISE = exercise(
    __file__,
    cases=(
        blocks.case("one of everything", (1, 1, 1, 1, 1, 1), schedules=ALL_SCHEDULES),
        blocks.case("one head", (1, 1, 1, 5, 9, 8), schedules=ALL_SCHEDULES),
        blocks.case("ragged", (1, 2, 2, 3, 37, 21), schedules=ALL_SCHEDULES, scale=0.3),
        blocks.case("one key more than threads", (1, 1, 1, 3, blocks.BLOCK + 1, 16), schedules=("forward", "reverse")),
        blocks.case("blocks of 128 threads", (1, 1, 1, 2, 150, 70), scale=0.05, block=128),
        blocks.case("more queries than keys", (1, 2, 2, 13, 5, 72), schedules=("forward",)),
        blocks.case("batch entries and heads", (2, 3, 3, 2, 20, 8), schedules=("forward", "random")),
        blocks.case("nine heads of five batch entries", (5, 9, 9, 1, 6, 4), scale=3.0),
        blocks.case("one query, many keys", (1, 2, 2, 1, 200, 16), scale=0.5),
        blocks.case("13,000 keys", (1, 1, 1, 1, 13_000, 2)),
        blocks.case("13,000 columns", (1, 1, 1, 1, 2, 13_000), every=100, scale=0.125),
        blocks.case("rising scores", (1, 1, 1, 2, 131, 33), "rising"),
        blocks.case("scores near -100", (1, 1, 1, 3, 45, 32), "minus_100"),
        blocks.case("scores near -12990", (1, 1, 1, 3, 70, 8), "minus_12990", scale=0.3),
        blocks.case("scores near +100, blocks of 32", (1, 1, 1, 3, 45, 32), "plus_100", scale=0.3, block=32),
        blocks.case("one score of 120 a row", (1, 2, 2, 3, 50, 32), "spikes"),
    ),
    make_inputs=blocks.inputs,
    make_run=_run,
    oracle=lambda case, tensors: _judged(case, *(tensor.double() for tensor in tensors.values())),
    baseline=lambda case, tensors: _judged(case, *tensors.values()),
    rules={"probs": "weights", "out": "weights"},
    largest_score=magnitude.of_attention(),
    probes=(
        probes.key_counter(_probe_sizes(53, 64)),
        probes.unity(_probe_sizes(32, 64)),
        probes.ramp(_probe_sizes(32, 64)),
        probes.other_scale(_probe_sizes(32, 64)),
        head_map(3, 3),
    ),
    diagnose=_diagnose,
    ledger_rule=_share,
    bound_bytes=_bound,
    tile=lambda case: (1, blocks.BLOCK),
)

"""06.4 Causal FlashAttention-1 in Triton: what the judge runs."""

from course_lib.grading.exercise import magnitude
from course_lib.grading.exercise.spec import exercise
from course_lib.grading.subjects.flash_attention import cases as cases
from course_lib.grading.subjects.flash_attention import diagnostics as diagnostics
from course_lib.grading.subjects.flash_attention import masks as masks

SCHEDULES = ("forward", "reverse")


def _causal_floats(case):
    """(floats read, floats written) with tiles above the diagonal skipped."""
    batch_size, num_heads, _, num_q, num_kv, head_dim = case.sizes.values()
    read, written = 2 * num_kv * head_dim + 2 * num_q, num_q
    for kv_start in range(0, num_kv, cases.BLOCK_N):
        first = max(kv_start - (num_kv - num_q), 0) // cases.BLOCK_M * cases.BLOCK_M if kv_start else 0
        rows = num_q - first
        read += rows * head_dim + (rows * (head_dim + 2) if kv_start else 0)
        written += rows * (head_dim + 2)
    return batch_size * num_heads * read, batch_size * num_heads * written


EXERCISE = exercise(
    __file__,
    cases=(
        cases.case("one query, one key", 1, 1, schedules=SCHEDULES),
        cases.case("square", 33, 33, schedules=SCHEDULES),
        cases.case("more keys than queries", 37, 53, heads=(1, 2, 1)),
        cases.case("more queries than keys", 70, 20),
        cases.case("grouped heads, two batches", 9, 21, heads=(2, 4, 2)),
        cases.case("two queries", 2, 45),
        cases.case("scores near -100", 35, 45, "minus_100"),
        cases.case("scores near +100", 35, 45, "plus_100"),
        cases.case("rising scores", 40, 53, "rising"),
        cases.case("one score of 120", 35, 50, "spikes"),
        cases.case("long square", 96, 96),
    ),
    make_inputs=cases.heads_inputs,
    make_run=lambda case, tensors: cases.heads_run(case, tensors, constants={"BLOCK_D": 32}),
    oracle=cases.oracle(causal=True),
    baseline=cases.baseline(causal=True),
    rules={"out": "weights", "lse": "lse"},
    largest_score=magnitude.of_attention(causal=True),
    probes=(
        *diagnostics.tile_probes(cases.one_head),
        masks.head_probe(cases.HEADS),
        masks.seen_probe(cases.case("seen", 40, 53, "zeros", v="key_numbers")),
    ),
    diagnose=diagnostics.diagnose_tiles,
    bound_bytes=cases.bound,
    usual_bytes=lambda case: 4 * sum(_causal_floats(case)),
    question="Which tiles hold no visible pair?",
    tile=lambda case: (cases.BLOCK_M, cases.HEAD_DIM),
)

"""07.2 FlashAttention-2 in Triton: what the judge runs."""

from course_lib.grading.exercise import magnitude
from course_lib.grading.exercise.spec import exercise
from course_lib.grading.subjects.flash_attention import cases as cases
from course_lib.grading.subjects.flash_attention import diagnostics as diagnostics
from course_lib.grading.subjects.flash_attention import masks as masks
from course_lib.grading.subjects.flash_attention_2 import cases as flash2_cases
from course_lib.grading.subjects.flash_attention_2.diagnostics import diagnose_forward, whole_probe

SCHEDULES = ("forward", "reverse")


def _half(name, num_q, num_kv, values="normal", heads=(1, 1, 1), **options):
    return flash2_cases.half_case(name, (*heads, num_q, num_kv, cases.HEAD_DIM), values, ("forward",), **options)


EXERCISE = exercise(
    __file__,
    cases=(
        cases.case("one query, one key", 1, 1, schedules=SCHEDULES),
        cases.case("exactly one tile", cases.BLOCK_M, cases.BLOCK_N),
        cases.case("one below a tile", cases.BLOCK_M - 1, cases.BLOCK_N - 1),
        cases.case("one above a tile", cases.BLOCK_M + 1, cases.BLOCK_N + 1, schedules=SCHEDULES),
        cases.case("ragged, grouped heads", 37, 53, heads=(1, 4, 2)),
        cases.case("more queries than keys", 70, 20),
        cases.case("one query", 1, 45),
        cases.case("rising scores", 9, 53, "rising"),
        cases.case("falling scores", 9, 53, "falling"),
        cases.case("scores near -100", 5, 45, "minus_100"),
        cases.case("scores near +100", 5, 45, "plus_100"),
        cases.case("one score of 120", 9, 50, "spikes"),
        cases.case("several batches", 35, 21, heads=(2, 2, 1)),
        _half("half, ragged", 37, 53),
        _half("half, scores near +100", 5, 45, "plus_100"),
        _half("half, small values after large ones", 3, 1040, "zeros", v_fades=True),
    ),
    make_inputs=cases.heads_inputs,
    make_run=lambda case, tensors: flash2_cases.forward_run(case, tensors, constants={"BLOCK_D": 32}),
    oracle=cases.oracle(),
    baseline=cases.baseline(),
    rules={"out": "weights", "lse": "lse"},
    largest_score=magnitude.of_attention(),
    probes=(
        *diagnostics.tile_probes(cases.one_head),
        masks.head_probe(cases.HEADS),
        whole_probe(cases.heads_case("whole tiles", (1, 1, 1, cases.BLOCK_M, cases.BLOCK_N, 32)), "out"),
    ),
    diagnose=diagnose_forward,
    bound_bytes=cases.bound,
    usual_bytes=flash2_cases.usual_bytes,
    question="Which tile is read again although the program holds it already?",
    tile=lambda case: (cases.BLOCK_M, cases.HEAD_DIM),
)

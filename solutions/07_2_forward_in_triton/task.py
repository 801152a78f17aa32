"""07.2 FlashAttention-2 in Triton: what the judge runs."""

from course_lib.grading.exercise import probes
from course_lib.grading.exercise.spec import exercise, late
from course_lib.grading.subjects.flash_attention import cases as cases
from course_lib.grading.subjects.flash_attention import diagnostics as diagnostics
from course_lib.grading.subjects.flash_attention import masks as masks
from course_lib.grading.subjects.flash_attention_2 import cases as flash2
from course_lib.grading.subjects.flash_attention_2.diagnostics import diagnose_forward, whole_probe
from course_lib.grading.subjects.flash_attention_2.traffic import forward_traffic

SCHEDULES = ("forward", "reverse")
RISE = 2.2e-4  # of the scores from tile to tile: exp(-RISE) in half precision is 1
HALF = {"dtype": "float16", "scale": 0.25}  # a power of two: q times it is exact, so it may be taken at either end


EXERCISE = exercise(
    __file__,
    cases=(
        *cases.tile_edges(flash2.case_of, SCHEDULES),
        late(flash2.case_of("ragged, grouped heads", 37, 53, heads=(1, 4, 2))),
        flash2.case_of("more queries than keys", 70, 20),
        flash2.case_of("one query", 1, 45),
        flash2.case_of("softmax_scale 0.3", 5, 21, scale=0.3),
        flash2.case_of("softmax_scale 2", 3, 20, scale=2.0),
        flash2.case_of("tiles of 16 queries", 37, 21, block_m=16),
        flash2.case_of("tiles of 64 queries", 67, 18, block_m=64),
        flash2.case_of("tiles of 32 keys", 5, 70, block_n=32),
        flash2.case_of("tiles of 64 keys", 5, 67, block_n=64),
        flash2.case_of("head_dim 16", 9, 19, head_dim=16),
        flash2.case_of("head_dim 128", 9, 19, head_dim=128),
        flash2.case_of("head_dim 5", 9, 19, head_dim=5),
        flash2.case_of("rising scores", 9, 53, "rising"),
        flash2.case_of("falling scores", 9, 53, "falling"),
        flash2.case_of("scores near -100", 5, 45, "minus_100"),
        flash2.case_of("scores near +100", 5, 45, "plus_100"),
        flash2.case_of("scores near -12000", 5, 45, "minus_12000"),
        flash2.case_of("scores below -1e30", 3, 21, "below_1e9", scale=flash2.FARTHER),
        flash2.case_of("weights below 1e-6", 3, 37, "zeros", light=-14.2, v_shift=1e6),
        flash2.case_of("half, scores below -1e9", 1, 21, "below_1e9", **HALF),
        flash2.case_of("half, weights of 1/4,000", 1, 18, "zeros", exponent=flash2.EXPONENT, v_shift=1000.0, **HALF),
        late(flash2.case_of("half, v near 4000", 1, 21, "zeros", v_shift=4000.0, **HALF)),
        flash2.case_of("one score of 120", 9, 50, "spikes"),
        late(flash2.case_of("several batches", 35, 21, heads=(3, 2, 1))),
        late(flash2.case_of("groups of three", 2, 18, heads=(2, 6, 2))),
        late(flash2.case_of("half, ragged", 37, 53, **HALF)),
        flash2.case_of("half, scores near +100", 5, 45, "plus_100", **HALF),
        late(
            flash2.case_of(
                "half, small values after large ones", 3, 1040, "zeros", v_fades=True, rise=RISE, long=True, **HALF
            )
        ),
        late(flash2.case_of("one query, 4200 keys", 1, 4200, block_m=16, block_n=128, long=True)),
    ),
    make_inputs=flash2.forward_inputs,
    make_run=flash2.forward_run,
    **flash2.judged(),
    unread=flash2.unread,
    probes=(
        *diagnostics.tile_probes(cases.one_head),
        probes.other_scale(cases.one_head(1, cases.BLOCK_N)),
        masks.head_probe(flash2.HEADS),
        whole_probe(cases.heads_case("whole tiles", (1, 1, 1, cases.BLOCK_M, cases.BLOCK_N, 32)), "out"),
    ),
    diagnose=diagnose_forward,
    bound_bytes=cases.bound,
    ledger_rule=forward_traffic,
    tile=lambda case: (flash2.block_m_of(case), case.sizes["head_dim"]),
)

"""06.4 Causal FlashAttention-1 in Triton: what the judge runs."""

from course_lib.grading.exercise import probes
from course_lib.grading.exercise.spec import exercise, late
from course_lib.grading.subjects.flash_attention import cases as cases
from course_lib.grading.subjects.flash_attention import diagnostics as diagnostics
from course_lib.grading.subjects.flash_attention import masks as masks
from course_lib.grading.subjects.ledger.dots import dots

SCHEDULES = ("forward", "reverse")


def _causal_floats(case):
    """(floats read, floats written) with tiles above the diagonal skipped."""
    batch_size, num_heads, _, num_q, num_kv, head_dim = case.sizes.values()
    read, written = 2 * num_kv * head_dim + 2 * num_q, num_q
    block_m, block_n = cases.tiles(case)
    for kv_start in range(0, num_kv, block_n):
        first = max(kv_start - (num_kv - num_q), 0) // block_m * block_m if kv_start else 0
        rows = num_q - first
        read += rows * head_dim + (rows * (head_dim + 2) if kv_start else 0)
        written += rows * (head_dim + 2)
    return batch_size * num_heads * read, batch_size * num_heads * written


def _block_d(case):
    return max(1 << (case.sizes["head_dim"] - 1).bit_length(), 16)


def _by_dots(case, ledger):
    """Both products of the tiles that hold a visible pair, in IEEE float32."""
    batch_size, num_heads, _, num_q, num_kv, _ = case.sizes.values()
    (block_m, block_n), offset = cases.tiles(case), num_kv - num_q
    pairs = sum(
        q_start + block_m - 1 + offset >= kv_start
        for q_start in range(0, num_q, block_m)
        for kv_start in range(0, num_kv, block_n)
    )
    return dots(
        case, ledger, operands="fp32", fewest=batch_size * num_heads * 2 * pairs * block_m * block_n * _block_d(case)
    )


EXERCISE = exercise(
    __file__,
    cases=(
        cases.case("one query, one key", 1, 1, schedules=SCHEDULES),
        cases.case("square", 33, 33, schedules=SCHEDULES),
        cases.case("other tiles", 41, 45, head_dim=7, tiles=(16, 32), scale=0.6),
        cases.case("more keys than queries", 37, 53),
        cases.case("more queries than keys", 70, 20),
        cases.case("grouped heads, five batches", 4, 9, heads=(5, 4, 2)),
        cases.case("groups of three, tiles of 64", 40, 45, heads=(1, 3, 1), head_dim=12, tiles=(64, 64), scale=0.3),
        # an offset of more than a tile of queries and one of keys
        cases.case("two queries", 2, 83, head_dim=40, scale=3.0),
        cases.case("nine heads", 2, 3, heads=(1, 9, 9)),
        late(cases.case("5,000 keys", 1, 5000, head_dim=4, tiles=(16, 128))),
        cases.case("scores near -12000", 35, 45, "minus_12000"),
        cases.case("scores far below 0", 5, 9, "minus_16000"),
        cases.case("scores far above 0", 5, 9, "plus_16000"),
        cases.case("scores near -100", 35, 45, "minus_100"),
        cases.case("scores near +100", 35, 45, "plus_100", scale=0.6),
        cases.case("rising scores", 40, 53, "rising"),
        cases.case("one score of 120", 35, 50, "spikes"),
        cases.case("one key more than queries", 95, 96),
    ),
    make_inputs=cases.heads_inputs,
    make_run=lambda case, tensors: cases.heads_run(case, tensors, constants={"BLOCK_D": _block_d(case)}),
    **cases.judged(causal=True),
    probes=(
        *diagnostics.tile_probes(cases.one_head),
        masks.head_probe(cases.HEADS),
        probes.other_scale(cases.one_head(1, cases.BLOCK_N)),
        masks.seen_probe(cases.case("seen", 56, 73, "zeros", v="key_numbers")),
    ),
    diagnose=diagnostics.diagnose_head,
    ledger_rule=_by_dots,
    bound_bytes=cases.bound,
    usual_bytes=lambda case: 4 * sum(_causal_floats(case)),
    question="Which tiles hold no visible pair?",
    tile=lambda case: (cases.tiles(case)[0], case.sizes["head_dim"]),
)

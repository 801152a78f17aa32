"""06.3 FlashAttention-1 in CUDA, one thread a query row: what the judge runs."""

from course_lib.grading.exercise import probes
from course_lib.grading.exercise.spec import ALL_SCHEDULES, exercise, late
from course_lib.grading.subjects.flash_attention import cases as cases
from course_lib.grading.subjects.flash_attention import diagnostics as diagnostics
from course_lib.grading.subjects.flash_attention import masks as masks
from course_lib.grading.subjects.ledger.moved import moved
from course_lib.grading.subjects.ledger.share import share


def _in_tiles(case):
    """(floats read, floats written) by FlashAttention-1 without a mask."""
    batch_size, num_heads, _, num_q, num_kv, head_dim = case.sizes.values()
    tiles = -(-num_kv // cases.tiles(case)[1])
    read = 2 * num_kv * head_dim + (2 * tiles - 1) * num_q * head_dim + 2 * tiles * num_q
    written = tiles * num_q * (head_dim + 2) + num_q
    return batch_size * num_heads * read, batch_size * num_heads * written


def _judge_way(case, ledger):
    """Refuses tiles that are read again for every row, and rows that one thread computes for the others."""
    read, written = _in_tiles(case)
    *_, num_q, num_kv, head_dim = case.sizes.values()
    block_m, block_n = cases.tiles(case)
    heads = case.sizes["batch_size"] * case.sizes["num_heads"]
    lse_again = heads * num_q * (-(-num_kv // block_n) - 1)  # lse may be written in every tile
    once_more = heads * num_q * (head_dim + 2)  # out, m and l may be initialised, or out divided, in a pass of its own
    why = "a block reads k and v once, and q, out, m and l once a tile; one more pass over out, m and l is allowed"
    found = moved(case, ledger, read=4 * (read + once_more), written=4 * (written + lse_again + once_more), why=why)
    rows, tiles = -(-num_q // block_m), -(-num_kv // block_n)
    own = rows * (2 * tiles * (head_dim + 2)) + 2 * tiles * -(-block_n * head_dim // block_m)
    return found or share(case, ledger, loaded=4 * own, why="a thread reads its own rows and its part of a tile")


_ONE_TILE = cases.one_head(1, cases.BLOCK_N)


EXERCISE = exercise(
    __file__,
    cases=(
        *cases.tile_edges(cases.case, ALL_SCHEDULES),
        cases.case("ragged", 37, 53),
        cases.case("grouped heads, two batches", 5, 18, schedules=(), heads=(2, 4, 2)),
        cases.case("more queries than keys", 50, 20, scale=0.6),
        late(cases.case("other tiles", 70, 47, head_dim=9, tiles=(16, 24), scale=0.5)),
        late(cases.case("2,500 keys", 1, 2500, head_dim=9, tiles=(16, 24))),
        late(cases.case("1,020 queries", 1020, 3, head_dim=9, tiles=(16, 24))),
        *cases.score_cases(cases.case),
        cases.case("scores near +100", 5, 45, "plus_100", scale=0.6),
        cases.case("one score of 120", 9, 50, "spikes"),
        cases.case("scores far below 0", 5, 45, "minus_16000"),
        cases.case("scores far above 0", 5, 45, "plus_16000"),
        cases.case(
            "9 heads on 9, five batch entries", 1, 80, heads=(5, 9, 9), schedules=()
        ),  # over 65,536 numbers of k
        cases.case("several batches", 33, 18, schedules=("random",), heads=(2, 2, 1), scale=3.0),
        late(cases.case("groups of three, tiles of 72 and 40", 4, 45, heads=(1, 3, 1), head_dim=68, tiles=(72, 40))),
    ),
    make_inputs=cases.heads_inputs,
    make_run=lambda case, tensors: cases.heads_run(case, tensors, threads=cases.tiles(case)[0]),
    **cases.judged(),
    probes=(*diagnostics.tile_probes(cases.one_head), masks.head_probe(cases.HEADS), probes.other_scale(_ONE_TILE)),
    diagnose=diagnostics.diagnose_head,
    ledger_rule=_judge_way,
    bound_bytes=cases.bound,
    usual_bytes=lambda case: 4 * sum(_in_tiles(case)),
    question="Which tensor is read once more than it has to be?",
    tile=lambda case: (cases.tiles(case)[0], case.sizes["head_dim"]),
)

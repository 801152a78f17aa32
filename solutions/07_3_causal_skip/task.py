"""07.3 Causal FlashAttention-2 in Triton: what the judge runs."""

from course_lib.grading.exercise import probes
from course_lib.grading.exercise.spec import exercise
from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.flash_attention import cases as cases
from course_lib.grading.subjects.flash_attention import diagnostics as diagnostics
from course_lib.grading.subjects.flash_attention import masks as masks
from course_lib.grading.subjects.flash_attention_2 import cases as flash2
from course_lib.grading.subjects.flash_attention_2 import traffic as traffic
from course_lib.grading.subjects.flash_attention_2.diagnostics import by_parameters, diagnose_forward

SCHEDULES = ("forward", "reverse")

BLOCK_M, BLOCK_N = 16, 32


def _run(case, tensors):
    return flash2.forward_run(case, tensors, block_m=BLOCK_M, block_n=BLOCK_N)


def _tiles(case):
    return flash2.block_m_of(case, BLOCK_M), flash2.block_n_of(case, BLOCK_N)


def tiles_visited(num_q, num_kv, block_m=BLOCK_M, block_n=BLOCK_N):
    """Tiles of keys that hold a visible pair, for each tile of queries."""
    ends = [min(start + block_m, num_q) + num_kv - num_q for start in range(0, num_q, block_m)]
    return [max(-(-end // block_n), 0) for end in ends]


def keys_read(case, late=0):
    """Keys in those tiles, all tiles of queries together; with `late` tiles more for each."""
    num_q, num_kv, (block_m, block_n) = case.sizes["seq_len_q"], case.sizes["seq_len_kv"], _tiles(case)
    return sum(min((tiles + late) * block_n, num_kv) for tiles in tiles_visited(num_q, num_kv, block_m, block_n))


def _fewest(case):
    """Multiply-adds of both products over the pairs that see each other."""
    batch_size, num_heads, _, num_q, num_kv, head_dim = case.sizes.values()
    pairs = sum(max(q_row + num_kv - num_q + 1, 0) for q_row in range(num_q))
    return 2 * batch_size * num_heads * head_dim * pairs


def skipping(case, ledger):
    """Diagnosis or None: tiles above the diagonal may not be read; one tile too many for each tile of queries is."""
    batch_size, num_heads, _, num_q, num_kv, head_dim = case.sizes.values()
    block_m, block_n = _tiles(case)
    row_bytes = batch_size * num_heads * head_dim * 4
    keys = (ledger["global_load"]["bytes"] / row_bytes - num_q) / 2  # what is left beside q are rows of k and v
    if keys > keys_read(case, late=1):
        visited = sum(tiles_visited(num_q, num_kv, block_m, block_n))
        tiles = -(-num_q // block_m) * -(-num_kv // block_n)
        return Diagnosis(
            "no_tile_skipped",
            f"The values are right, but {keys / block_n:.3g} tiles of keys were read; of {tiles} tiles "
            f"only {visited} hold a visible pair (case {case.name!r}). End the loop over the keys after the last key "
            "that the tile's last query sees.",
        )
    return None


def _way(case, ledger):
    """Diagnosis or None: everything that the contract says of reads, writes and products."""
    tiles = _tiles(case)
    return (
        skipping(case, ledger)
        or _computed(case, ledger)
        or traffic.written_once(case, ledger, tiles[0])
        or traffic.products(case, ledger, _fewest(case), tiles)
    )


def _computed(case, ledger):
    """Diagnosis or None: a tile that was not read is not multiplied either."""
    block_m, block_n = _tiles(case)
    batch_size, num_heads, _, num_q, num_kv, _ = case.sizes.values()
    heads = batch_size * num_heads
    allowed = heads * sum(tiles + 1 for tiles in tiles_visited(num_q, num_kv, block_m, block_n))
    made = sum(dot["count"] for dot in ledger["dots"]) // 2
    if made <= allowed:
        return None
    return Diagnosis(
        "no_tile_skipped",
        f"The values are right and no tile is read in vain, but {made} tiles of scores were multiplied where "
        f"{allowed - heads * -(-num_q // block_m)} hold a visible pair (case {case.name!r}): the loop itself ends at "
        "kv_end.",
    )


def _by_seen(evidence):
    """Equal scores and v = 1, 2, 3, …: how many keys each query saw, if they are the first ones."""
    reading = masks.read_seen(evidence)
    if reading is None:
        return None
    seen, num_q, num_kv, wrong = reading
    offset = num_kv - num_q
    start = (
        f"Equal scores, seq_len_q = {num_q}, seq_len_kv = {num_kv}: row {wrong[0]} may see {wrong[0] + offset + 1} "
        f"keys and saw {max(seen[wrong[0]], 0):.4g}"
    )
    found = masks.by_rule(seen, _rules(num_q, num_kv), start) or masks.by_padding(seen, num_kv, wrong, BLOCK_N, start)
    if found is not None:
        return found
    if all(seen[row] < row + offset + 1 for row in wrong):
        return Diagnosis(
            "tile_skipped",
            f"{start}; {num_q - len(wrong)} of {num_q} rows are right. The loop ended too early: it must reach the "
            "last key of the tile's last query, q_row + seq_len_kv - seq_len_q, in a tile that is not cut off.",
        )
    return Diagnosis("wrong_keys", f"{start}.")


def _rules(num_q, num_kv):
    """[(code, row -> keys seen, words)]."""
    offset = num_kv - num_q
    ends = tiles_visited(num_q, num_kv)
    align = "the mask is aligned to the top left: add seq_len_kv - seq_len_q"
    return (
        ("causal_off_by_one", lambda r: r + offset, "one too few: the key at the row's own position counts"),
        ("causal_off_by_one", lambda r: min(r + offset + 2, num_kv), "one key of the future: the last is row + offset"),
        ("causal_top_left", lambda r: r + 1, align),
        ("causal_missing", lambda r: num_kv, "every key, those of the future too"),
        (
            "mask_in_tile",
            lambda r: min(ends[r // BLOCK_M] * BLOCK_N, num_kv),
            "all keys of the tiles that were visited. Inside a tile that the diagonal crosses, the keys beyond row + "
            "offset get the score -inf",
        ),
        (
            "mask_in_tile",
            lambda r: (n := min(ends[r // BLOCK_M] * BLOCK_N, num_kv)) * (n + 1) / (ends[r // BLOCK_M] * BLOCK_N) - 1,
            "all keys of the tiles that were visited. A masked key and a key beyond the end have the score -inf, not 0",
        ),
    )


def _diagnose(evidence):
    return by_parameters(evidence) or _by_seen(evidence) or masks.by_masked_rows(evidence) or diagnose_forward(evidence)


EXERCISE = exercise(
    __file__,
    cases=(
        flash2.case_of("one query, one key", 1, 1, schedules=SCHEDULES),
        flash2.case_of("square", 33, 33, schedules=SCHEDULES),
        flash2.case_of("more keys than queries", 37, 54, heads=(1, 2, 1)),
        flash2.case_of("more queries than keys", 90, 65),
        flash2.case_of("two queries, head_dim 9", 2, 45, head_dim=9),
        flash2.case_of("tiles of 32 queries", 70, 53, block_m=32),
        flash2.case_of("tiles of 64 queries", 70, 75, block_m=64),
        flash2.case_of("tiles of 16 keys", 80, 80, block_n=16),
        flash2.case_of("tiles of 64 keys, head_dim 40", 40, 150, block_n=64, head_dim=40),
        flash2.case_of("head_dim 64", 18, 33, head_dim=64),
        flash2.case_of("softmax_scale 0.3", 5, 21, scale=0.3),
        flash2.case_of("groups of three", 2, 18, heads=(2, 6, 2)),
        flash2.case_of("scores near -100", 35, 45, "minus_100"),
        flash2.case_of("scores near +100", 35, 45, "plus_100"),
        flash2.case_of("scores near -12000", 18, 45, "minus_12000"),
        flash2.case_of("rising scores", 40, 53, "rising"),
        flash2.case_of("one score of 120", 35, 50, "spikes"),
        flash2.case_of("long square", 96, 96),
        flash2.case_of("20 queries, 2100 keys", 20, 2100, block_m=32, block_n=128, long=True),
    ),
    make_inputs=flash2.forward_inputs,
    make_run=_run,
    **flash2.judged(causal=True),
    probes=(
        *diagnostics.tile_probes(cases.one_head),
        probes.other_scale(cases.one_head(1, BLOCK_N)),
        masks.head_probe(flash2.HEADS),
        masks.seen_probe(cases.case("seen", 56, 73, "zeros", v="key_numbers")),
    ),
    diagnose=_diagnose,
    bound_bytes=cases.bound,
    usual_bytes=lambda case: flash2.usual_bytes(case, block_m=_tiles(case)[0], keys_read=keys_read(case)),
    question="Where does the loop of a tile of queries over the keys end?",
    tile=lambda case: (_tiles(case)[0], case.sizes["head_dim"]),
    ledger_rule=_way,
)

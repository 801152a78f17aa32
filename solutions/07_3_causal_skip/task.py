"""07.3 Causal FlashAttention-2 in Triton: what the judge runs."""

import math

from course_lib.grading.exercise import magnitude
from course_lib.grading.exercise.spec import exercise
from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.attention.diagnostics import near
from course_lib.grading.subjects.flash_attention import cases as cases
from course_lib.grading.subjects.flash_attention import diagnostics as diagnostics
from course_lib.grading.subjects.flash_attention import masks as masks
from course_lib.grading.subjects.flash_attention_2 import cases as flash2_cases
from course_lib.grading.subjects.flash_attention_2.diagnostics import diagnose_forward

SCHEDULES = ("forward", "reverse")

BLOCK_M, BLOCK_N = 16, 32


def _run(case, tensors):
    constants = {"BLOCK_D": 32, "BLOCK_N": BLOCK_N}
    return flash2_cases.forward_run(case, tensors, block_m=BLOCK_M, constants=constants)


def tiles_visited(num_q, num_kv):
    """Tiles of keys that hold a visible pair, for each tile of queries."""
    ends = [min(start + BLOCK_M, num_q) + num_kv - num_q for start in range(0, num_q, BLOCK_M)]
    return [max(-(-end // BLOCK_N), 0) for end in ends]


def _keys_read(num_q, num_kv, late=0):
    """Keys in those tiles, all tiles of queries together; with `late` tiles more for each."""
    return sum(min((tiles + late) * BLOCK_N, num_kv) for tiles in tiles_visited(num_q, num_kv))


def _usual(case):
    num_q, num_kv = case.sizes["seq_len_q"], case.sizes["seq_len_kv"]
    return flash2_cases.usual_bytes(case, block_m=BLOCK_M, keys_read=_keys_read(num_q, num_kv))


def skipping(case, ledger):
    """Diagnosis or None: tiles above the diagonal may not be read; one tile too many for each tile of queries is."""
    batch_size, num_heads, _, num_q, num_kv, head_dim = case.sizes.values()
    row_bytes = batch_size * num_heads * head_dim * 4
    keys = (ledger["global_load"]["bytes"] / row_bytes - num_q) / 2  # what is left beside q are rows of k and v
    if keys <= _keys_read(num_q, num_kv, late=1):
        return None
    visited, tiles = sum(tiles_visited(num_q, num_kv)), -(-num_q // BLOCK_M) * -(-num_kv // BLOCK_N)
    return Diagnosis(
        "no_tile_skipped",
        f"The values are right, but {keys / BLOCK_N:.3g} tiles of keys were read; of {tiles} tiles "
        f"only {visited} hold a visible pair (case {case.name!r}). End the loop over the keys after the last key "
        "that the tile's last query sees.",
    )


def _by_seen(evidence):
    """Equal scores and v = 1, 2, 3, …: how many keys each query saw, if they are the first ones."""
    seen = evidence.readings.get("seen")
    if seen is None or any(math.isnan(value) for value in seen):
        return None
    sizes = next(p.case for p in evidence.exercise.probes if p.name == "seen").sizes
    num_q, num_kv = sizes["seq_len_q"], sizes["seq_len_kv"]
    offset = num_kv - num_q
    wrong = [row for row, keys in enumerate(seen) if not near(keys, row + offset + 1)]
    if not wrong:
        return None
    start = (
        f"Equal scores, seq_len_q = {num_q}, seq_len_kv = {num_kv}: row {wrong[0]} may see {wrong[0] + offset + 1} "
        f"keys and saw {max(seen[wrong[0]], 0):.4g}"
    )
    for code, rule, words in _rules(num_q, num_kv):
        if all(near(keys, rule(row)) for row, keys in enumerate(seen)):
            return Diagnosis(code, f"{start}: {words}.")
    padded = -(-num_kv // BLOCK_N) * BLOCK_N - num_kv
    if all(near((seen[r] + 1) / 2, (n := r + offset + 1) * (n + 1) / 2 / (n + padded)) for r in wrong):
        return Diagnosis("tail_counted", f"{start}: {padded} elements beyond the last key were counted, with v = 0.")
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
    return _by_seen(evidence) or masks.by_masked_rows(evidence) or diagnose_forward(evidence)


EXERCISE = exercise(
    __file__,
    cases=(
        cases.case("one query, one key", 1, 1, schedules=SCHEDULES),
        cases.case("square", 33, 33, schedules=SCHEDULES),
        cases.case("more keys than queries", 37, 53, heads=(1, 2, 1)),
        cases.case("more queries than keys", 70, 20),
        cases.case("two queries", 2, 45),
        cases.case("scores near -100", 35, 45, "minus_100"),
        cases.case("scores near +100", 35, 45, "plus_100"),
        cases.case("rising scores", 40, 53, "rising"),
        cases.case("one score of 120", 35, 50, "spikes"),
        cases.case("long square", 96, 96),
    ),
    make_inputs=cases.heads_inputs,
    make_run=_run,
    oracle=cases.oracle(causal=True),
    baseline=cases.baseline(causal=True),
    rules={"out": "weights", "lse": "lse"},
    largest_score=magnitude.of_attention(causal=True),
    probes=(
        *diagnostics.tile_probes(cases.one_head),
        masks.head_probe(cases.HEADS),
        masks.seen_probe(cases.case("seen", 56, 73, "zeros", v="key_numbers")),
    ),
    diagnose=_diagnose,
    bound_bytes=cases.bound,
    usual_bytes=_usual,
    question="Where does the loop of a tile of queries over the keys end?",
    tile=lambda case: (BLOCK_M, cases.HEAD_DIM),
    ledger_rule=skipping,
)

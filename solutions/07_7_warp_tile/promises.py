"""What the contract of 07.7 says of reads, writes, products and shares, judged by the ledger.

May import: verdict, ledger, flash_attention_2.traffic.
"""

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.flash_attention_2.traffic import reads_once
from course_lib.grading.subjects.ledger.moved import moved
from course_lib.grading.subjects.ledger.share import share

from .fragments import HEAD_DIM, TILE

MMAS = 2 * (HEAD_DIM // 16) + HEAD_DIM // 8  # of 16 queries and 16 keys: scores, and weights times v
STORED = 2 * TILE * HEAD_DIM // 32 + 4 * TILE  # bytes: a lane's part of out, and all of lse


def as_promised(case, ledger):
    """Diagnosis or None: q, k and v read once, out and lse written once, by mma, by all lanes."""
    batch_size, num_heads, _, num_q, _, head_dim = case.sizes.values()
    written = batch_size * num_heads * num_q * (2 * head_dim + 4)
    return (
        reads_once(case, ledger, "block")
        or moved(case, ledger, written=written, why="each number of out and lse is written once")
        or _by_mma(case, ledger)
        or share(case, ledger, stored=STORED, why="a lane stores its part of 16 rows")
    )


def _by_mma(case, ledger):
    """Diagnosis or None: both products by mma that add up in float, each once."""
    batch_size, num_heads, _, num_q, num_kv, _ = case.sizes.values()
    pairs = batch_size * num_heads * -(-num_q // TILE) * -(-num_kv // TILE)
    counts, right = ledger["mma"], MMAS * pairs
    if counts["f32_f16"] == right and sum(counts.values()) == right:
        return None
    others = ", ".join(f"{count:,} of {name}" for name, count in counts.items() if count and name != "f32_f16")
    return Diagnosis(
        "mma_count",
        f"Every value is right, but in the case {case.name!r} the warps issue {counts['f32_f16']:,} "
        f"mma_m16n8k16_f32_f16{' and ' + others if others else ''}; {pairs} pairs of a tile of queries and one of keys "
        f"take {right:,}: 8 for the scores and 8 for the weights times v. Both products are mma, added up in float, "
        "and each is computed once.",
    )

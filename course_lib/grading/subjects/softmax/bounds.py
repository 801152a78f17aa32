"""Bytes of a row softmax: the fewest possible, and those of two sweeps; what a contract says of them, and of lanes.

May import: verdict, ledger.moved.
"""

from ...report.verdict import Diagnosis
from ..ledger.moved import moved


def softmax_bound(case):
    """Fewest bytes: every score read once, every weight written once."""
    count = case.sizes["num_rows"] * case.sizes["num_cols"]
    return 8 * count, f"{count:,} scores read once and {count:,} weights written once, 4 bytes each"


def two_reads(case):
    """Bytes of an online softmax: the row is read twice and written once."""
    return 12 * case.sizes["num_rows"] * case.sizes["num_cols"]


def two_sweeps(case, ledger):
    """Diagnosis or None: every score read twice at most, every weight written once."""
    count = case.sizes["num_rows"] * case.sizes["num_cols"]
    why = "each score read twice, for the sum and for its weight, and each weight written once, as the source says it"
    return moved(case, ledger, read=8 * count, written=4 * count, why=why)


def most_scores(num_cols, threads):
    """The most scores of a row that one of `threads` may take: an equal share and two runs of four, or one of eight."""
    return -(-num_cols // threads) + 8


def without_shared_memory(case, ledger):
    """Diagnosis or None: no access to shared memory."""
    used = [name for name in ("shared_load", "shared_store") if ledger.get(name, {}).get("requests")]
    if not used:
        return None
    what = "loads from" if used[0] == "shared_load" else "stores to"
    return Diagnosis(
        "shared_memory_used",
        f"Every value is right (case {case.name!r}), but the contract asks for no shared memory, and "
        f"{ledger[used[0]]['requests']:,} {what} it were counted.",
    )

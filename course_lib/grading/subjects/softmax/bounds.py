"""Bytes of a row softmax: the fewest possible, and those of two sweeps."""


def softmax_bound(case):
    """Fewest bytes: every score read once, every weight written once."""
    count = case.sizes["num_rows"] * case.sizes["num_cols"]
    return 8 * count, f"{count:,} scores read once and {count:,} weights written once, 4 bytes each"


def two_reads(case):
    """Bytes of an online softmax: the row is read twice and written once."""
    return 12 * case.sizes["num_rows"] * case.sizes["num_cols"]

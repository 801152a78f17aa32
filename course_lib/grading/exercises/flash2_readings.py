"""What FlashAttention-2's order says about a mistake: state that leaks from one tile of queries into the next.

May import: verdict, evidence (as data), the readings of attention.
"""

import math

from ..verdict import Diagnosis
from .attention_readings import near


def by_second_division(evidence):
    """v = 1 gives 1 / l: divided in every tile, or twice at the end."""
    reading = evidence.readings.get("unity")
    if reading is None:
        return None
    half = reading["num_keys"] / 2
    if not near(reading["sum"], 1.0 / (half + half / math.e)):
        return None
    return Diagnosis(
        "divided_twice",
        f"With v = 1 in all {reading['num_keys']} keys every weighted mean is 1; here it is {reading['sum']:.4g}, "
        "which is 1 / l: it was divided by l once more. acc stays a plain sum until the last tile is done.",
    )


def by_rows_of_later_tiles(evidence):
    """The first tile of queries right, later ones wrong: their state did not begin anew."""
    failing = [case for case in evidence.failing() if any(not c.passed for c in case.comparisons.values())]
    if not failing:
        return None
    for case in failing:
        block_m, wrong = evidence.exercise.tile(case.case)[0], case.comparisons["out"].wrong
        if wrong is None or wrong.shape[-2] <= block_m or bool(wrong[..., :block_m, :].any()):
            return None
    case = failing[0]
    block_m = evidence.exercise.tile(case.case)[0]
    rows = case.comparisons["out"].wrong.reshape(-1, *case.comparisons["out"].wrong.shape[-2:]).any(dim=0).any(dim=1)
    if not bool(rows[block_m : 2 * block_m].any()):
        return None
    return Diagnosis(
        "state_not_reset",
        f"The first {block_m} queries, one tile, are right in every case; from query {int(rows.nonzero()[0])} on they "
        "are wrong. m, l and acc belong to one tile of queries: they begin with -inf, 0 and 0 in each.",
    )

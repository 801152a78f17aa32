"""Diagnosis of FlashAttention-2's loop order: state that leaks from one tile of queries into the next.

May import: spec, verdict, evidence (as data), diagnostics of attention and of FlashAttention-1.
"""

import math

from ...exercise.spec import Probe
from ...report.verdict import Diagnosis
from ..attention.diagnostics import near
from ..flash_attention.cases import BLOCK_N, FIRST, LATER
from ..flash_attention.diagnostics import diagnose_tiles


def diagnose_forward(evidence):
    """Diagnosis of a failing forward pass in FlashAttention-2's order, or None."""
    looks = (_by_undefined, _by_fading, by_rows_of_later_tiles, by_second_division, diagnose_tiles)
    return next((found for look in looks if (found := look(evidence)) is not None), None)


def whole_probe(case, output):
    """A case in which every tile is full. Reading: whether all of `output` is finite."""
    return Probe("whole tiles", case, lambda _inputs, outputs: bool(outputs[output].isfinite().all()))


def _by_undefined(evidence):
    """Diagnosis of NaN where a tile is not full and nowhere else, or None."""
    failing = [c for case in evidence.failing() for c in case.comparisons.values() if not c.passed]
    counter = evidence.readings.get("key counter", math.nan)  # its last tile is not full
    if not evidence.readings.get("whole tiles") or not failing or failing[0].got == failing[0].got:
        return None
    if not math.isnan(counter):
        return None
    return Diagnosis(
        "undefined_places",
        f"NaN in the case {evidence.failing()[0].case.name!r}, and right numbers where all tiles are full. The "
        "masked elements of a load are what `other` says, and undefined without it. Say other=0.0: 0 times NaN or "
        "infinity is NaN.",
    )


def _by_fading(evidence):
    """Wrong in nothing but a long sum of halves whose later terms are small."""
    failing = evidence.failing()
    if not failing or not all(case.case.options.get("v_fades") for case in failing):
        return None
    num_keys, out = failing[0].case.sizes["seq_len_kv"], failing[0].first.outputs["out"].double().flatten()[0].item()
    return Diagnosis(
        "half_accumulator",
        f"Right everywhere but in a long sum of halves: {num_keys} equal weights, the first {BLOCK_N} values are "
        f"{FIRST:g}, the others {LATER:g}, and out * {num_keys} is {out * num_keys:.4g} in place of "
        f"{BLOCK_N * FIRST + (num_keys - BLOCK_N) * LATER:.4g}. Half precision cannot add {BLOCK_N * LATER:.2g} to "
        f"{BLOCK_N * FIRST:g}: acc must be float32 from the first tile to the last, also when v is half.",
    )


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
    """The first tile of queries right, later ones wrong: their state was not reset."""
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

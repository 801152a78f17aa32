"""What a warp's outputs say about fragments: which key and column each number came from, which lanes were added.

May import: spec, verdict, evidence (as data), flash_cases, the readings of attention.
"""

import math

import torch

from course_lib.grading.exercise.spec import Probe
from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.attention.diagnostics import near
from course_lib.grading.subjects.flash_attention.cases import heads_case

TILE, HEAD_DIM, KEYS = 16, 64, 53
HEAVY = 1.0 - 8.5  # score of the light keys; those of the first tile have 1
LIGHT = math.exp(-8.5)
KEY_OF = 3 * torch.arange(1, TILE + 1) % (TILE + 1) - 1  # the key that query i sees: each register of weights differs


def _case(name, num_q, num_kv, values="ones", **options):
    one = heads_case(name, (1, 1, 1, num_q, num_kv, HEAD_DIM), values, (), **options)
    return type(one)(one.name, one.sizes, one.values, "float16", one.options, one.schedules)


def fragment_probes():
    """Probes "places", "last key" and "heavy"."""
    last = _case("last key", 1, TILE, "step", at=TILE - 1)
    return (
        Probe("places", _case("places", TILE, TILE, made="places"), lambda _inputs, out: out["out"].double()[0, 0]),
        Probe("last key", last, lambda _inputs, outputs: outputs["lse"].double().item()),
        Probe("heavy", heavy_case(), lambda _inputs, outputs: outputs["out"].double()[0, 0, 0, 0].item()),
    )


def heavy_case():
    """16 keys of weight 1, then 2032 of weight exp(-8.5), v = 1: a sum in half precision stays at 16."""
    return _case("one heavy tile", 1, 2048, made="heavy", v="ones", long=True)


def made(case, tensors):
    """The inputs of the cases above; any others as they are."""
    kind = case.options.get("made")
    if kind == "heavy":
        tensors["k"][..., TILE:, -1] = HEAVY
        tensors["k"][..., :TILE, 0] = 0.0
        tensors["q"][..., 0] = 1 / 16  # light scores differ by 1/128: equal terms would all be rounded one way
    if kind == "places":  # query i sees one key alone, by a column of its own; v names where a number comes from
        number = torch.arange(TILE)
        column = 4 * number + number % 4
        tensors["q"].zero_()
        tensors["k"].zero_()
        tensors["q"][..., number, column[KEY_OF]] = 30000.0
        tensors["k"][..., number, column] = 1.0
        tensors["v"][...] = HEAD_DIM * number[:, None] + torch.arange(HEAD_DIM)[None, :]
    return {name: tensor.to(tensors["q"].dtype) for name, tensor in tensors.items()}


def diagnose_fragments(evidence):
    """Diagnosis from these probes, or None."""
    readings = evidence.readings
    looks = (
        lambda: _by_lanes(readings.get("equal lse"), readings.get("last key")),
        lambda: _by_places(readings.get("places")),
        lambda: _by_heavy(readings.get("heavy"), readings.get("unity")),
    )
    return next((found for look in looks if (found := look()) is not None), None)


def _by_lanes(equal, last):
    """Four lanes share a row; each holds 4 of a tile's 16 keys."""
    if equal is None or last is None or not (math.isfinite(equal) and math.isfinite(last)):
        return None
    of_lane_0 = KEYS // TILE * 4 + 2  # of the last 5 keys it holds two
    if near(equal, math.log(of_lane_0)):
        return Diagnosis(
            "quad_sum_missing",
            f"{KEYS} keys of equal weight: exp(lse) must be {KEYS} and is {of_lane_0}, the keys that lane 0 holds. "
            "Four lanes share a row; their sums must be added.",
        )
    if near(last, math.log(12.0 + 3.0 / math.e + 1.0)):
        return Diagnosis(
            "quad_max_missing",
            f"15 scores of 0, then one of 1: exp(lse) must be 15 + e = 17.72 and is {math.exp(last):.4g}: each lane "
            "subtracted the largest of its own four keys. Four lanes share a row and need one maximum.",
        )
    return None


def _by_places(out):
    """A query sees one key alone and v[j][c] = 64 j + c, so every number names its origin."""
    if out is None:
        return None
    key, column = KEY_OF[:, None], torch.arange(HEAD_DIM)[None, :]
    right = (HEAD_DIM * key + column).double()
    if _alike(out, right):
        return None
    start = f"Each query sees one key alone, and v[j][c] = {HEAD_DIM} j + c"
    if not bool(out.isfinite().all()) or bool((out == 0).all()):
        return None
    for code, words, wanted in _moves(key, column):
        if _alike(out, wanted.double()):
            return Diagnosis(code, f"{start}: {words}.")
    at = (out - right).abs().gt(0.6).nonzero()
    if not len(at):
        return None
    i, c = at[0].tolist()
    got = out[i, c].item()
    came = f"key {int(got) // HEAD_DIM}, column {int(got) % HEAD_DIM}" if got == int(got) else "a mixture of keys"
    if abs(got - HEAD_DIM * (TILE - 1) / 2 - c) < 0.6:
        came = "the mean over all keys: no key matches, q and k are held in different columns"
    return Diagnosis(
        "fragment_layout",
        f"{start}: out[{i}][{c}] must be {right[i, c]:g} and is {got:.5g}, {came}; {len(at)} of {right.numel()} "
        "numbers are in a wrong place. Draw which lane holds what: lane 4 g + t, rows g and g + 8, columns 2 t and "
        "2 t + 1.",
    )


def _moves(key, column):
    """[(code, words, out)]: what a few ways to misplace a fragment make of out."""
    low, transposed = column % 8, key - key % 8
    return (
        ("rows_exchanged", "rows g and g + 8 are exchanged", HEAD_DIM * key.roll(8, 0) + column),
        (
            "pair_exchanged",
            "each query gets the row of its key's neighbour. In a register the first of two halves is the low one",
            HEAD_DIM * (key ^ 1) + column,
        ),
        ("pair_exchanged", "columns 2 t and 2 t + 1 are exchanged", HEAD_DIM * key + (column ^ 1)),
        (
            "v_not_turned",
            "out holds v with row and column of each 8 x 8 tile exchanged. Rows of v are keys, and a b fragment takes "
            "columns: ldmatrix_x4_trans",
            HEAD_DIM * (transposed + low) + (column - low) + key % 8,
        ),
    )


def _alike(out, wanted):
    return bool((out - wanted).abs().le(0.6).all())


def _by_heavy(heavy, unity):
    """A sum kept in half precision does not grow when less than half a unit in the last place is added."""
    if heavy is None or math.isnan(heavy) or near(heavy, 1.0, 5e-3) or unity is None or not near(unity["sum"], 1.0):
        return None
    total = 16.0 + 2032 * LIGHT
    for value, name in ((16.0 / total, "acc"), (total / 16.0, "l")):
        if near(heavy, value, 5e-3):
            return Diagnosis(
                "half_accumulator",
                f"16 keys of weight 1, then 2032 of weight {LIGHT:.2g}, v = 1: the result must be 1 and is "
                f"{heavy:.4g}. {name} stayed at 16: in half precision 16 + {16 * LIGHT:.2g} is 16. Keep it in float.",
            )
    return None

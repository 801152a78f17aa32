"""Probes and diagnostics: which tiles a walk multiplied, with which weights, and what the mask let through.

In every probe a key's score depends on its tile alone, and v names the tile: an output row holds the weight of each
tile. Tiles are walked from the last to the first.
"""

import math

import torch

from course_lib.grading.exercise.spec import Probe
from course_lib.grading.judge.diagnosis import worst_element
from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.flash_attention.masks import wrong_masked_rows

from .walk import FALL, PROBE_TILES, STEP, case

TILE = 16
BUILD = ("float16", 64, TILE, 2, 2)
NUM_KEYS = TILE * PROBE_TILES
MASKED_Q, MASKED_KV = 40, 54  # causal: row r may see r + 15 keys; row 0 all but the last of tile 0
OFFSET, LAST = MASKED_KV - MASKED_Q, (MASKED_KV - 1) // TILE * TILE  # LAST: first key of the tile before the loop


def probes():
    """Weights by tile: equal scores, a last tile that exceeds the others, falling scores, a tail, a causal mask."""
    sizes = (1, 1, 1, 1, NUM_KEYS)
    return (
        *(Probe(name, case(name, sizes, BUILD, probe=name), _by_tile) for name in ("equal", "rescale", "falling")),
        Probe("tail", case("tail", (1, 1, 1, 1, NUM_KEYS - 25), BUILD, probe="equal"), _by_tile),
        Probe("mask", case("mask", (1, 1, 1, MASKED_Q, MASKED_KV), BUILD, probe="equal", causal=True), _by_tile),
    )


def _by_tile(_inputs, outputs):
    """{"weights": (rows, tiles) what each tile weighs, "sums": (rows,) exp(lse)}, lists."""
    weights = outputs["out"].double()[0, 0, :, :PROBE_TILES]
    return {"weights": weights.tolist(), "sums": outputs["lse"].double()[0, 0].clamp(max=80.0).exp().tolist()}


def _near(x, y, rel=4e-3):
    return abs(x - y) <= rel * max(abs(y), 1e-3)


def _all_near(numbers, wanted):
    return all(_near(x, y) for x, y in zip(numbers, wanted, strict=True))


def _listed(numbers):
    return ", ".join(f"{number:.3g}" for number in numbers)


def diagnose(evidence):
    """Diagnosis of wrong values, or None."""
    looks = (_by_walk, _by_rescale, _by_weights, _by_mask, _by_tail, _by_empty_rows)
    return next((found for look in looks if (found := look(evidence)) is not None), None)


def _reading(evidence, name):
    """(weights of row 0 by tile, exp(lse) of row 0) of a probe, or None where they are not numbers."""
    reading = evidence.readings.get(name)
    if reading is None:
        return None
    numbers = (*reading["weights"][0], reading["sums"][0])
    return (numbers[:-1], numbers[-1]) if all(map(math.isfinite, numbers)) else None


def _by_walk(evidence):
    """Equal scores: V of every tile is added once, and the sum holds all keys."""
    reading = _reading(evidence, "equal")
    if reading is None:
        return None
    weights, keys = reading
    times = [weight * keys / TILE for weight in weights]  # how often V of a tile was added
    if _all_near(times, [1.0] * PROBE_TILES) and _near(keys, NUM_KEYS):
        return None
    start = (
        f"{PROBE_TILES} tiles of {TILE} keys with equal scores, walked from tile {PROBE_TILES - 1} to tile 0: V of the "
        f"tiles 0, 1, … must be added once each and was added {_listed(times)} times; l holds {keys:.4g} of "
        f"{NUM_KEYS} keys"
    )
    whole = _near(keys, NUM_KEYS)
    table = (
        (whole and _all_near(times, [0.0, 1.0, 1.0, 1.0, 1.0]), "last_product_missing",
         "After the loop the weights of tile 0 still wait for their product"),
        (whole and _all_near(times, [2.0, 1.0, 1.0, 1.0, 1.0]), "last_product_twice",
         "After the loop only the product of tile 0 is left to add"),
        (whole and _near(times[-1], 0.0), "first_product_missing", "The weights packed before the loop were lost"),
        (whole and _near(sum(times), PROBE_TILES), "wrong_tile_of_v",
         "Weights met the V of another tile: V is read one tile later than K, in the stage of v_ring"),
    )  # fmt: skip
    for holds, code, words in table:
        if holds:
            return Diagnosis(code, f"{start}. {words}.")
    return Diagnosis("tiles_miscounted", f"{start}.")


def _by_rescale(evidence):
    """Tile 0, the last of the walk, has scores that are STEP higher: what the older tiles were multiplied by then."""
    reading = _reading(evidence, "rescale")
    if reading is None or reading[0][0] <= 0.0:
        return None
    newest, *older = reading[0]
    alpha = math.exp(-STEP)
    factors = [weight / newest for weight in older]
    if _all_near(factors, [alpha] * len(factors)):
        return None
    start = (
        f"The scores of tile 0, the last of the walk, are {STEP:g} higher than those of the tiles before, whose sums "
        f"must "
        f"be multiplied by alpha = exp(-{STEP:g}) = {alpha:.4g} then; tiles 1, 2, … were multiplied by "
        f"{_listed(factors)}"
    )
    if _all_near(factors, [1.0] * len(factors)):
        return Diagnosis("o_not_rescaled", f"{start}: acc was not rescaled for the last tile.")
    if _all_near(factors, [alpha**2] * len(factors)):
        return Diagnosis("rescaled_twice", f"{start}: acc was rescaled twice.")
    return Diagnosis("rescale_wrong", f"{start}.")


def _by_weights(evidence):
    """Scores that fall from tile to tile, so that nothing is rescaled: the weight that each V was multiplied by."""
    reading = _reading(evidence, "falling")
    if reading is None:
        return None
    used = [weight * reading[1] / TILE for weight in reading[0]]
    right = [math.exp(FALL * (tile - PROBE_TILES + 1)) for tile in range(PROBE_TILES)]
    if _all_near(used, right):
        return None
    start = (
        f"Scores that fall by {FALL:g} from a tile of the walk to the next: V of the tiles 0, 1, … must be "
        f"multiplied by "
        f"{_listed(right)} and was multiplied by {_listed(used)}"
    )
    if _all_near(used, [1.0] * PROBE_TILES):
        return Diagnosis(
            "stale_weights", f"{start}: always the weights of the first tile. Pack the new ones in every step."
        )
    if _all_near(used[:-1], right[1:]):
        return Diagnosis(
            "stale_weights", f"{start}: those of the tile before. Pack them before their product is issued."
        )
    return Diagnosis("wrong_weights", f"{start}.")


def _by_tail(evidence):
    reading, right = _reading(evidence, "tail"), NUM_KEYS - 25
    if reading is None or _near(reading[1], right):
        return None
    return Diagnosis(
        "tail_wrong",
        f"{right} keys with equal scores in tiles of {TILE}: l must hold {right} and holds {reading[1]:.4g}. What TMA "
        "fills up with zeros has the score 0: mask every tile that ends beyond tile.full_end.",
    )


def _by_mask(evidence):
    """Row r of a causal attention may see r + OFFSET + 1 keys: what each row's sum counted, and of which tiles."""
    reading = evidence.readings.get("mask")
    if reading is None:
        return None
    keys = reading["sums"]
    right = [row + OFFSET + 1 for row in range(MASKED_Q)]
    wrong = [row for row in range(MASKED_Q) if not _near(keys[row], right[row])]
    row = wrong[0] if wrong else 0
    start = (
        f"Causal, equal scores, {MASKED_Q} queries, {MASKED_KV} keys: row {row} may see {right[row]} keys and counted "
        f"{keys[row]:.4g}"
    )
    if wrong:
        return _say_mask(keys, start)
    by_tile = torch.tensor(reading["weights"])[:, : LAST // TILE + 1] * torch.tensor(keys)[:, None]
    first = torch.arange(by_tile.shape[1]) * TILE
    seen = (torch.tensor(right)[:, None] - first).clamp(0, TILE).float()
    if torch.allclose(by_tile, seen, rtol=1e-2, atol=0.05):
        return None
    return Diagnosis(
        "mask_of_another_tile",
        f"{start}, but of other tiles: from tiles 0, 1, … it took {_listed(by_tile[row].tolist())} keys in place of "
        f"{_listed(seen[row].tolist())}. The tiles come in the order of the producer, from the last down, and kv_start "
        "must say which one it is.",
    )


def _say_mask(keys, start):
    """Diagnosis where one rule explains the counts of all rows."""

    def below(row):  # keys of the tile before the loop, which is masked for you
        return max(0, row + OFFSET + 1 - LAST)

    def up_to(limit):  # keys of the tiles of the loop when a row sees those below `limit`
        return lambda row: min(max(limit(row), 0), LAST) + below(row)

    rules = (
        ("mask_missing", up_to(lambda row: LAST),
         "all keys of the loop's tiles. A causal mask crosses several tiles: compare with tile.full_end in every step"),
        ("mask_missing", up_to(lambda row: max(row + OFFSET + 1, TILE)),
         "all keys of the first tile that the diagonal crosses. A tile needs the mask when its end, kv_start + "
         "BLOCK_N, is "
         "beyond tile.full_end"),
        ("causal_top_left", up_to(lambda row: row + 1), "top left: offset is seq_len_kv - seq_len_q"),
        ("causal_off_by_one", up_to(lambda row: row + OFFSET + 2), "one key of the future"),
        ("causal_off_by_one", up_to(lambda row: row + OFFSET), "one key too few"),
        ("mask_of_another_tile", up_to(lambda row: row + OFFSET + 1 - TILE),
         f"{TILE} too few: mask_scores got the kv_start of the tile above"),
    )  # fmt: skip
    for code, rule, words in rules:
        if all(_near(count, rule(row)) for row, count in enumerate(keys)):
            return Diagnosis(code, f"{start}: {words}.")
    return Diagnosis("mask_wrong", f"{start}.")


def _by_empty_rows(evidence):
    """Only rows that see no key are wrong."""
    masked = wrong_masked_rows(evidence)
    if masked is None:
        return None
    found, name, _ = masked
    got, expected = worst_element(found)
    return Diagnosis(
        "masked_row",
        f"Case {found.case.name!r}: rows that see no key must give out 0 and lse -inf; {name} is {got:.4g} there "
        f"instead of {expected:g}. A block without tiles has nothing to wait for, and nothing to multiply.",
    )

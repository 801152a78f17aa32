"""09.5 How many splits: what the judge runs."""

import math
from fractions import Fraction

import torch

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Run
from course_lib.grading.report.verdict import Diagnosis

SIZES = ("num_pairs", "num_tiles", "num_slots")

ENOUGH = Fraction(85, 100)  # of the best efficiency

LESS = Fraction(8, 10)  # of a slip

TIE = 1e-4  # nearer than this, and the last digit of a division could decide


def tiles_of(num_splits, num_tiles):
    """Tiles of a split, rounded up."""
    return -(-num_tiles // num_splits)


def without_empty(num_splits, num_tiles):
    """Whether every split has a tile when all but the last have as many as the first."""
    return (num_splits - 1) * tiles_of(num_splits, num_tiles) < num_tiles


def efficiency(num_blocks, num_slots):
    """Share of the slots that are busy, over whole waves."""
    return Fraction(num_blocks, -(-num_blocks // num_slots) * num_slots)


def chosen(num_pairs, num_tiles, num_slots, *, enough=ENOUGH, of_best=True, counted=without_empty, busy=efficiency,
           largest=False, first=1, last=0):  # fmt: skip
    """The number of splits; what the options change are slips."""
    table = {
        s: busy(num_pairs * s, num_slots) for s in range(first, num_tiles + 1 + last) if counted(s, num_tiles)
    } or {1: Fraction(1)}
    limit = enough * (max(table.values()) if of_best else 1)
    good = [s for s, value in table.items() if value >= limit]
    if not good:
        return max(table)
    return max(good) if largest else min(good)


def _in_blocks_of_one(num_blocks, num_slots):
    return Fraction(num_blocks % num_slots or num_slots, num_slots)


def _waves_not_rounded(num_blocks, num_slots):
    return min(Fraction(num_blocks, num_slots), Fraction(1))


def _waves_down(num_blocks, num_slots):
    return Fraction(num_blocks, max(num_blocks // num_slots, 1) * num_slots)


def _waves_and_one(num_blocks, num_slots):
    return Fraction(num_blocks, (num_blocks // num_slots + 1) * num_slots)


def _waves_by_inverse(num_blocks, num_slots):
    return Fraction(num_blocks, math.ceil(num_blocks * (1 / num_slots)) * num_slots)


def _by_length(num_splits, num_tiles):
    return num_tiles % num_splits == 0


def _to_percent(num_blocks, num_slots):
    return Fraction(round(100 * efficiency(num_blocks, num_slots)), 100)


def _at_most(most):
    """`chosen` among the numbers up to most(num_pairs, num_tiles, num_slots)."""
    return lambda p, t, slots: chosen(p, t, slots, last=min(t, most(p, t, slots)) - t)


def _of_all_or_best(num_pairs, num_tiles, num_slots):
    table = {s: efficiency(num_pairs * s, num_slots) for s in range(1, num_tiles + 1) if without_empty(s, num_tiles)}
    return min(s for s, value in table.items() if value >= min(ENOUGH, max(table.values())))


def _points_below(num_pairs, num_tiles, num_slots):
    allowed = [s for s in range(1, num_tiles + 1) if without_empty(s, num_tiles)]
    table = {s: float(efficiency(num_pairs * s, num_slots)) for s in allowed}
    return min(s for s, value in table.items() if value >= max(table.values()) - 0.15)


SLIPS = (
    ("best_not_enough", "that is the first of the best. A smaller one that is 85 % as good costs less to combine",
     lambda *n: chosen(*n, enough=1)),
    ("empty_splits", "this number leaves the last split without a tile; the same tiles fit into fewer splits",
     lambda *n: chosen(*n, counted=lambda s, t: True)),
    ("empty_splits", "this number leaves the last split without a tile: it would begin exactly past the last one",
     lambda *n: chosen(*n, counted=lambda s, t: (s - 1) * tiles_of(s, t) <= t)),
    ("not_of_the_best", "85 % is meant of the best that any number reaches, not of all slots",
     lambda *n: chosen(*n, of_best=False)),
    ("not_of_the_best", "that is 85 % of all slots, or the best where none reaches them; take 85 % of the best",
     _of_all_or_best),
    ("largest", "that is the largest number that is good enough, one tile a split; take the smallest",
     lambda *n: chosen(*n, largest=True)),
    ("no_waves", "a wave counts whole, also when few of its blocks exist: round blocks / slots up",
     lambda *n: chosen(*n, busy=_waves_not_rounded)),
    ("no_waves", "a wave counts whole, also when few of its blocks exist: round blocks / slots up, not down",
     lambda *n: chosen(*n, busy=_waves_down)),
    ("wave_too_many", "a full wave counted as two: blocks // slots + 1 is one too many where blocks fill waves",
     lambda *n: chosen(*n, busy=_waves_and_one)),
    ("wave_too_many", "1 / slots is rounded: blocks * (1 / slots) may lie above a whole number; use blocks / slots",
     lambda *n: chosen(*n, busy=_waves_by_inverse)),
    ("last_wave_alone", "that looks at the last wave alone; the full ones before it count as well",
     lambda *n: chosen(*n, busy=_in_blocks_of_one)),
    ("pairs_forgotten", "with num_splits blocks in all; there are num_pairs times as many",
     lambda p, t, slots: chosen(1, t, slots)),
    ("fill_once", "that is num_slots // num_pairs: one wave, perhaps far from full, and the tiles were not looked at",
     lambda p, t, slots: min(max(slots // p, 1), t)),
    ("fill_once", "that is num_slots // num_pairs, more splits than there are tiles",
     lambda p, t, slots: max(slots // p, 1)),
    ("fill_once", "that is num_slots / num_pairs, rounded up: one wave and a little of a second",
     lambda p, t, slots: min(-(-slots // p), t)),
    ("never_split", "that never splits. Where every number seems as good as any other, see how the waves are rounded",
     lambda *n: 1),
    ("only_divisors", "the tiles need not be shared out evenly: the last split may have fewer",
     lambda *n: chosen(*n, counted=_by_length)),
    ("last_left_out", "one tile a split, num_splits = num_tiles, is a choice as well", lambda *n: chosen(*n, last=-1)),
    ("starts_at_two", "one split is a choice as well", lambda *n: chosen(*n, first=2)),
    ("percent", "0.8, not 0.85", lambda *n: chosen(*n, enough=LESS)),
    *(("capped", f"that is the choice among the numbers up to {most}; they go up to num_tiles here, however many",
       _at_most(lambda p, t, slots, most=most: most)) for most in (64, 128, 256, 512, 1024, 2048, 4096)),
    ("capped", "that is the choice among the numbers up to num_slots; they go up to num_tiles here",
     _at_most(lambda p, t, slots: slots)),
    ("first_wave", "that is the choice among the numbers of the first wave, up to num_slots // num_pairs; slots may "
     "be fuller in more waves", _at_most(lambda p, t, slots: max(slots // p, 1))),
    ("full_enough", "that does not split where 80 % of the slots are full already; this rule has no such exception",
     lambda p, t, slots: 1 if 5 * p >= 4 * slots else chosen(p, t, slots)),
    ("points", "that is 15 points below the best; 85 % of the best is meant", _points_below),
    ("rounded_efficiency", "that compares efficiencies rounded to whole percent; compare them as they are",
     lambda *n: chosen(*n, busy=_to_percent)),
    ("more_than_enough", "that asks for more than 85 % of the best; exactly 85 % is enough",
     lambda *n: chosen(*n, enough=ENOUGH + Fraction(1, 10**9))),
)  # fmt: skip


def _case(name, *sizes, values="given"):
    return Case(name, dict(zip(SIZES, sizes, strict=True)), values, "whole number")


def nearest(num_pairs, num_tiles, num_slots, limits=(ENOUGH,)):
    """How near any number of splits comes to a limit, 85 % of the best without others; as a share of the best."""
    allowed = [s for s in range(1, num_tiles + 1) if without_empty(s, num_tiles)]
    table = [efficiency(num_pairs * s, num_slots) for s in allowed]
    return float(min(abs(value / max(table) - limit) for value in table for limit in limits))


def _sizes(case, gen):
    """{"sizes": (num_pairs, num_tiles, num_slots)}: those of the case, or drawn, with no efficiency at the limit."""
    sizes = tuple(case.sizes.values())
    while case.values == "drawn":
        sizes = tuple(int(torch.randint(1, most, (1,), generator=gen)) for most in sizes)
        if nearest(*sizes, limits=(ENOUGH, LESS)) > TIE:
            break
        sizes = tuple(case.sizes.values())
    return {"sizes": torch.tensor(sizes)}


def _run(case, tensors):
    return Run(case.name, {}, {"num_splits": ((), "int64")}, tuple(tensors["sizes"].tolist()))


def _right(dtype):
    return lambda case, tensors: {"num_splits": torch.tensor(chosen(*tensors["sizes"].tolist()), dtype=dtype)}


def _sizes_of(case):
    return tuple(case.inputs["sizes"].tolist())


def _diagnose(evidence):
    failing = [c for c in evidence.failing() if "num_splits" in c.comparisons]
    if not failing:
        return None
    got = {c.case.name: int(c.first.outputs["num_splits"]) for c in evidence.cases if c.ran}
    cases = {c.case.name: _sizes_of(c) for c in evidence.cases if c.ran}
    for code, words, slip in SLIPS:
        if all(got[name] == slip(*sizes) for name, sizes in cases.items()):
            return Diagnosis(code, f"{_said(_clearest(failing), got)}: {words}.")
    return _by_kept(failing, got, cases) or Diagnosis("wrong_number", f"{_said(_clearest(failing), got)}.")


def _by_kept(failing, got, cases):
    """Each wrong number is right for another case, which differs in its slots alone."""
    for case in failing:
        sizes = _sizes_of(case)
        others = [other for other in cases.values() if other[:2] == sizes[:2] and other != sizes]
        if got[case.case.name] not in [chosen(*other) for other in others]:
            return None
    slots = others[0][2]
    return Diagnosis(
        "kept_between_calls",
        f"{_said(failing[-1], got)}: that is right for the same pairs and tiles and {slots} slots, another call. Was a "
        "result kept without the slots? Every call stands alone.",
    )


def _clearest(failing):
    """The failing case with the fewest tiles, drawn ones last: the one to go through by hand."""
    return min(failing, key=lambda c: (c.case.values == "drawn", _sizes_of(c)[1], _sizes_of(c)[0]))


def _said(case, got):
    """What was chosen, what should be, and how busy the slots are in either."""
    pairs, tiles, slots = _sizes_of(case)
    right, mine = chosen(pairs, tiles, slots), got[case.case.name]
    busy = _percent(pairs * right, slots)
    start = f"{pairs} pairs, {tiles} tiles, {slots} slots: num_splits = {right} keeps {busy} busy"
    if mine < 1 or mine > tiles:
        return f"{start}, and yours is {mine}, which is no number from 1 to {tiles}"
    best = max(efficiency(pairs * s, slots) for s in range(1, tiles + 1) if without_empty(s, tiles))
    return (
        f"{start}, tiles of a split {tiles_of(right, tiles)}, and the best is {float(best):.1%}; yours is {mine}, "
        f"{_percent(pairs * mine, slots)}, tiles of a split {tiles_of(mine, tiles)}"
    )


def _percent(num_blocks, num_slots):
    return f"{float(efficiency(num_blocks, num_slots)):.1%} of the slots"


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one tile", 1, 1, 132),
        _case("one sequence, one head", 1, 64, 132),
        _case("8 heads, short", 8, 4, 132),
        _case("8 heads, 128 tiles", 8, 128, 132),
        _case("a full wave without a split", 132, 64, 132),
        _case("one block more than a wave", 133, 64, 132),
        _case("half a wave", 66, 64, 132),
        _case("a little more than half a wave", 75, 64, 132),
        _case("64 pairs", 64, 32, 132),
        _case("10 tiles", 5, 10, 40),
        _case("10 tiles, few slots", 5, 10, 5),
        _case("11 tiles", 3, 11, 24),
        _case("85 % of the slots out of reach", 12, 3, 11),
        _case("69 tiles, 16 slots", 1, 69, 16),
        _case("blocks that fill whole waves", 84, 66, 198),
        _case("many slots", 2, 100, 1000),
        _case("two blocks a processor", 40, 512, 264),
        _case("more than ten waves", 1400, 16, 132),
        _case("splits that leave one empty", 4, 9, 28),
        _case("few slots", 3, 7, 4),
        _case("fewer slots than tiles", 3, 9, 4),
        _case("0.1 % short of enough", 7, 23, 13),
        _case("exactly 85 % of the best", 17, 20, 20),
        _case("thousands of tiles", 1, 5000, 6000),
        *(_case(f"drawn, {most} tiles at most", 200, most, 300, values="drawn") for most in (20, 100, 300)),
    ),
    make_inputs=_sizes,
    make_run=_run,
    oracle=_right(torch.float64),
    baseline=_right(torch.int64),
    rules={"num_splits": "exact"},
    diagnose=_diagnose,
)

"""09.4 Combine the splits, in CUDA: what the judge runs."""

import math

import torch

from course_lib.grading.exercise.spec import Case, Probe, exercise
from course_lib.grading.processes.protocol import Ref, Run
from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.attention.diagnostics import near
from course_lib.grading.subjects.decode import combine
from course_lib.grading.subjects.decode import partials as cases
from course_lib.grading.subjects.ledger.moved import moved
from course_lib.grading.subjects.ledger.share import share

HEAD_DIM, NUM_THREADS, WARP_SIZE = 128, 64, 32

MANY = 40  # splits of one key each: more than a warp has lanes

PEAKS = (5, 40, 599)  # the largest split of each row, where one is 120 above the others

SCHEDULES = ("forward", "reverse", "random")

ONCE = "a block reads partial_out once, partial_lse twice at most, and writes out once"
SHARES = "two columns of each split, and the splits of a lane"


def _case(name, num_splits, num_rows, values="normal", schedules=("forward",), **options):
    return cases.case(name, num_splits, num_rows, HEAD_DIM, values, schedules, **options)


def _run(case, tensors):
    num_splits, num_rows, _ = case.sizes.values()
    outputs = cases.outputs(case)
    arguments = (*(Ref(name) for name in (*tensors, *outputs)), num_splits, num_rows)
    grid, block = (num_rows, 1, 1), (NUM_THREADS, 1, 1)
    return Run(case.name, tensors, outputs, arguments, grid=grid, block=block, shared_bytes=4 * num_splits)


def _inputs(case, gen):
    """Inputs of a case, or of one of this module's two probes."""
    num_splits, num_rows, head_dim = case.sizes.values()
    if case.options.get("made") is None:
        return cases.partials(case, gen)
    values, sums = _numbers(num_splits, num_rows) if num_rows > 1 else _many()
    out = values[:, :, None].expand(num_splits, num_rows, head_dim).clone()
    return {"partial_out": out, "partial_lse": torch.log(sums)}


def _numbers(num_splits, num_rows):
    """Values 10 * split + row, sums of exponentials 1, 2, 3, …; each (num_splits, num_rows)."""
    split, row = torch.arange(float(num_splits))[:, None], torch.arange(float(num_rows))[None, :]
    return 10.0 * split + row, split * num_rows + row + 1.0


def _many():
    return torch.arange(1.0, MANY + 1.0)[:, None], torch.ones(MANY, 1)


def _read(_inputs, outputs):
    return {"out": outputs["out"].double()[:, 0].tolist(), "sums": outputs["lse"].double().exp().tolist()}


def _probe(name, num_splits, num_rows):
    sizes = dict(zip(cases.SIZES, (num_splits, num_rows, HEAD_DIM), strict=True))
    return Probe(name, Case(name, sizes, "fixed", options={"made": name}), _read)


def _combined(values, sums):
    """(out, sums) of each row, as lists."""
    return ((values * sums).sum(dim=0) / sums.sum(dim=0)).tolist(), sums.sum(dim=0).tolist()


def _close(got, wanted):
    return all(near(g, w) for g, w in zip(got, wanted, strict=True))


def _by_lanes(evidence):
    """40 equal splits, and two: which of them the lanes added, and whether they agreed on a maximum."""
    many, two, layout = (evidence.readings.get(name) for name in ("many", "two splits", "layout"))
    if many is None or two is None or layout is None:
        return None
    if near(two["lse"], math.log(6.0)) and near(two["first"], 0.5) and near(layout["sums"][0], 2.0):
        return Diagnosis(
            "own_maximum",
            "Two splits of 3 and 2 equal keys: their weights are 0.6 and 0.4, here they are 0.5 and 0.5, and exp(lse) "
            "is 6 in place of 5: each lane took the maximum of its own splits for that of all. The lanes need one "
            "maximum: warp_max.",
        )
    (got,), right = many["sums"], MANY
    if not math.isfinite(got) or near(got, right):
        return None
    start = f"{MANY} splits of one key each, equal scores: exp(lse) must be {MANY} and is {got:.4g}"
    if near(got, WARP_SIZE):
        return Diagnosis(
            "splits_beyond_lanes", f"{start}: a warp has {WARP_SIZE} lanes; let each walk on by {WARP_SIZE}."
        )
    if near(got, 2.0):
        return Diagnosis("sum_of_a_lane", f"{start}: lane 0 has the splits 0 and 32. The lanes' sums must be added.")
    if near(got, MANY * WARP_SIZE):
        return Diagnosis("counted_by_every_lane", f"{start}: every lane added up all splits, and then the lanes' sums.")
    return None


def _by_many(evidence):
    """exp(lse) of 40 equal splits is right, their mean is not."""
    many = evidence.readings.get("many")
    if many is None or not near(many["sums"][0], MANY):
        return None
    got, right = many["out"][0], (MANY + 1) / 2
    if not math.isfinite(got) or near(got, right):
        return None
    start = f"{MANY} equal splits whose out is 1, 2, … {MANY}: the mean must be {right:g} and is {got:.4g}"
    if near(got, right * MANY):
        return Diagnosis("no_division", f"{start}: the weights were never divided by their sum.")
    if near(got, WARP_SIZE * (WARP_SIZE + 1) / 2 / MANY):
        return Diagnosis("splits_beyond_lanes", f"{start}: only the first {WARP_SIZE} splits went into out.")
    return None


def _by_layout(evidence):
    """Values 10 * split + row with different weights: which split and row was read."""
    reading = evidence.readings.get("layout")
    if reading is None or not all(math.isfinite(value) for one in reading.values() for value in one):
        return None
    values, sums = _numbers(2, 3)
    out, right = _combined(values, sums)
    if _close(reading["sums"], right) and _close(reading["out"], out):
        return None
    order = "(num_splits, num_rows): the rows of one split are contiguous, the next split begins num_rows further"
    start = "Two splits of three rows"
    if _close(reading["sums"], sums.reshape(3, 2).sum(dim=1).tolist()):
        return Diagnosis("places_moved", f"{start}: exp(lse) must be 5, 7, 9 and is 3, 7, 11. partial_lse is {order}.")
    if _close(reading["sums"], [right[0]] * 3):
        return Diagnosis("row_forgotten", f"{start}: exp(lse) is {right[0]:g} in all rows, that of row 0.")
    if not _close(reading["sums"], right):
        return None
    said = ", ".join(f"{value:.4g}" for value in reading["out"])
    if _close(reading["out"], _combined(values.reshape(3, 2).T, sums)[0]):
        return Diagnosis(
            "places_moved",
            f"{start}: lse is right, and out is {said} where {out[0]:g}, {out[1]:.4g}, {out[2]:.4g} is right (the "
            f"value of row r in split s is 10 s + r). partial_out is {order}, times head_dim.",
        )
    if _close(reading["out"], _combined(values[:, :1].expand(2, 3), sums)[0]):
        return Diagnosis(
            "row_forgotten",
            f"{start}, the value of row r in split s is 10 s + r: out is {said} where {out[0]:g}, {out[1]:.4g}, "
            f"{out[2]:.4g} is right. Every row was made of the values of row 0.",
        )
    return None


def _by_peaks(evidence):
    """Right in the rows whose largest split is one of the first, wrong in the others."""
    failing = evidence.failing()
    if len(failing) != 1 or not failing[0].case.options.get("peaks"):
        return None
    comparisons = failing[0].comparisons.values()
    if any(c.wrong is None for c in comparisons):
        return None
    rows = [any(bool(c.wrong[row].any()) for c in comparisons) for row in range(len(PEAKS))]
    right, wrong = (
        [peak for peak, found in zip(PEAKS, rows, strict=True) if found == wanted] for wanted in (False, True)
    )
    if not right or not wrong or max(right) > min(wrong):
        return None
    return Diagnosis(
        "max_of_some_splits",
        f"In the case {failing[0].case.name!r} one split of each row is 120 above the others. Right where that is "
        f"split {' or '.join(str(peak) for peak in right)}, wrong where it is split {wrong[0]}: the maximum must "
        "be that of all splits.",
    )


def _diagnose(evidence):
    looks = (_by_lanes, _by_layout, _by_many, _by_peaks, combine.diagnose_combine)
    return next((diagnosis for look in looks if (diagnosis := look(evidence)) is not None), None)


def both_warps(case, ledger):
    """Diagnosis or None: the block reads partial_out once and partial_lse at most twice, its threads equal parts."""
    num_splits, num_rows, _ = case.sizes.values()
    read, written = num_splits * (HEAD_DIM + 2) * 4, (HEAD_DIM + WARP_SIZE) * 4
    extra = moved(case, ledger, written=num_rows * written, why=ONCE) or moved(
        case, ledger, read=num_rows * read, why=ONCE
    )
    columns = HEAD_DIM // NUM_THREADS
    loaded = num_splits * columns * 4 + 2 * -(-num_splits // WARP_SIZE) * 4
    return extra or share(case, ledger, loaded=loaded, stored=(columns + 1) * 4, why=SHARES)


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one split, one row", 1, 1, schedules=SCHEDULES),
        _case("two splits", 2, 3),
        _case("one below a warp", 31, 2),
        _case("as many splits as lanes", 32, 2),
        _case("one above a warp", 33, 2, schedules=SCHEDULES),
        _case("more than two warps", 70, 2),
        _case("600 splits", 600, 1, schedules=()),
        _case("one split among 299 faint ones", 300, 1, schedules=(), faint=True),
        _case("large values", 5, 2, large=True),
        _case("rising from split to split", 37, 2, "rising"),
        _case("falling from split to split", 37, 2, "falling"),
        _case("log-sum-exps near +100", 5, 3, "plus_100"),
        _case("log-sum-exps near -100", 5, 3, "minus_100"),
        _case("log-sum-exps near -12,000", 5, 2, low=True),
        _case("log-sum-exps below -1e9", 5, 2, low=True, lowest=True),
        _case("one split of 120", 600, 3, "spikes", peaks=PEAKS),
        _case("the first splits empty", 40, 2, "leading_masked"),
        _case("some splits empty, one row without keys", 7, 3, "masked"),
        _case("no keys", 2, 1, empty_rows=True),
        _case("one split, no keys", 1, 2, empty_rows=True),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=cases.oracle,
    baseline=cases.baseline,
    rules={"out": "weights", "lse": "lse"},
    largest_score=cases.largest_score,
    unread=cases.unread,
    probes=(*combine.combine_probes(HEAD_DIM), _probe("many", MANY, 1), _probe("layout", 2, 3)),
    diagnose=_diagnose,
    bound_bytes=lambda case: (
        4 * (case.sizes["num_splits"] + 1) * case.sizes["num_rows"] * (HEAD_DIM + 1),
        "partial_out and partial_lse read once, out and lse written once, 4 bytes each",
    ),
    tile=lambda case: (1, HEAD_DIM),
    ledger_rule=both_warps,
)

"""What a wrong sum says about tiles, and whether the ring was one: loads under way at the same time, no barrier of all.

May import: verdict, evidence (as data), subjects.hopper.findings.
"""

import torch

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.hopper.findings import BLOCK, END, OFFSET, START, THREAD, WARP, events


def tiles_of(case):
    """Tiles of all segments."""
    return sum(-(-length // case.sizes["tile_rows"]) for length in case.options["lengths"])


def judge_way(case, ledger):
    """Diagnosis of right sums in a wrong way, or None."""
    loads = events(ledger, "tma_load")
    found = loaded_more(case, loads) or _loaders(loads) or _meetings(case, ledger)
    found = found or _one_at_a_time(case, loads) or _stages(case, loads)
    return found and Diagnosis(found[0], f"{found[1]} (Case: {case.name}.)")


def loaded_more(case, loads):
    """(code, words) of more or fewer loads than tiles, or None."""
    if len(loads) == tiles_of(case):
        return None
    words = f"The segments have {tiles_of(case)} tiles, and {len(loads)} loads were started: one for each tile."
    return "loads_of_a_tile", words


def _loaders(loads):
    """(code, words) of loads that the consumers start, or that several threads of a block start, or None."""
    if any(row[WARP] for row in loads):
        return "consumer_loads", (
            f"Right, but a thread of warp {max(row[WARP] for row in loads)} starts loads: a thread of warp 0 starts "
            "them all, and the consumers add up."
        )
    for block in {row[BLOCK] for row in loads}:
        threads = sorted({row[THREAD] for row in loads if row[BLOCK] == block})
        if len(threads) > 1:
            return "several_loaders", (
                f"Right here, but threads {', '.join(map(str, threads))} start loads: one thread, the same for all "
                "tiles, starts them. It has waited for every phase of `empty`; a thread that leaves phases out may "
                "take an older one for its own, since only the parity tells them apart."
            )
    return None


def _meetings(case, ledger):
    """(code, words) of barriers of the whole block in the loop, or None."""
    meetings = [row for row in events(ledger, "barrier_wait") if row[BLOCK] == 0 and row[WARP] == 1]
    if len(meetings) < 2 or not tiles_of(case):
        return None
    return "barrier_of_all", (
        f"Right, but all threads of the block met {len(meetings)} times: once, after the initialisation, is enough. "
        "The release of a stage is an arrival at its mbarrier, for which only the producer waits."
    )


def _stages(case, loads):
    """(code, words) of tiles that lie at other stages than `t % NUM_STAGES`, or None."""
    if case.schedules == ("random",):
        return None  # the timeline has the loads in the order in which they land
    stages, tile_bytes = case.sizes["stages"], 4 * case.sizes["tile_rows"] * case.sizes["cols"]
    for block in {row[BLOCK] for row in loads}:
        offsets = [row[OFFSET] for row in loads if row[BLOCK] == block]
        for tile, offset in enumerate(offsets):
            wanted = tile % stages * tile_bytes
            if offset - offsets[0] != wanted:
                return "stage_of_a_tile", (
                    f"Right, but tile 0 lies at byte {offsets[0]:,} of shared memory, tile {tile} at byte {offset:,}: "
                    f"tile t lies at stage t % NUM_STAGES, which is {wanted:,} bytes behind tile 0."
                )
    return None


def _one_at_a_time(case, loads):
    """(code, words) of first loads of which one waits for another, or None."""
    stages, tile_rows = case.sizes["stages"], case.sizes["tile_rows"]
    for block, length in enumerate(case.options["lengths"]):
        own = [row for row in loads if row[BLOCK] == block][:stages]
        if length > (stages - 1) * tile_rows and own[-1][START] >= own[0][END]:
            return "loads_one_at_a_time", (
                f"Right, but load {stages - 1} begins at time {own[-1][START]} of the machine's logical time and load "
                f"0 has landed at {own[0][END]}: with {stages} stages, {stages} loads are under way before the first "
                "tile is read."
            )
    return None


def diagnose_sums(evidence):
    """Diagnosis of wrong sums from sums that known mistakes give, or None."""
    failing = [case for case in evidence.failing() if case.ran and case.comparisons]
    for code, words, rows_of in _MISTAKES:
        fits = [case for case in failing if _same(case.first.outputs["out"], _sums(case, rows_of))]
        if fits and len(fits) == len(failing):
            case = fits[0]
            return Diagnosis(
                code, f"Exactly what comes out when {words}. (Case: {case.case.name}, segments of "
                f"{', '.join(map(str, case.case.options['lengths']))} rows.)",
            )  # fmt: skip
    return _exchanged(failing)


def _exchanged(failing):
    """Diagnosis of coordinates in the wrong order: rows 0 and up, columns moved by the row."""
    for case in failing:
        x, starts = case.inputs["x"].double(), case.inputs["starts"].tolist()
        sums = torch.zeros(case.first.outputs["out"].shape, dtype=torch.float64)
        for block, (first, end) in enumerate(zip(starts, starts[1:], strict=False)):
            for row in range(first, end):
                tile = (row - first) // case.case.sizes["tile_rows"]
                moved = first + tile * case.case.sizes["tile_rows"]
                at = row - moved
                if at < len(x) and moved < x.shape[1]:
                    sums[block, : x.shape[1] - moved] += x[at, moved:]
        if max(starts) > 0 and _same(case.first.outputs["out"], sums):
            return Diagnosis(
                "coordinates_exchanged",
                "Exactly what comes out when the coordinates of the load are exchanged: the innermost comes first, so "
                "the "
                f"column, 0, stands before the row. (Case: {case.case.name}.)",
            )
    return None


def _same(out, sums):
    return out.shape == sums.shape and bool(torch.equal(out.double().nan_to_num(7e9), sums.nan_to_num(7e9)))


def _sums(case, rows_of):
    """Sums (blocks, cols) of the rows that `rows_of` names; rows outside x are zeros."""
    x, starts = case.inputs["x"].double(), case.inputs["starts"].tolist()
    stages, tile_rows = case.case.sizes["stages"], case.case.sizes["tile_rows"]
    sums = []
    for first, end in zip(starts, starts[1:], strict=False):
        rows = [row for row in rows_of(first, end - first, tile_rows, stages) if 0 <= row < len(x)]
        sums.append(x[rows].sum(dim=0) if rows else torch.zeros(x.shape[1], dtype=torch.float64))
    return torch.stack(sums)


def _tiles(num_rows, tile_rows):
    return range(-(-num_rows // tile_rows))


def _tile(start, num_rows, tile, tile_rows):
    """Rows of the segment's tile as long as it should be, from row `start` on."""
    return range(start, start + min(tile_rows, num_rows - tile * tile_rows))


_MISTAKES = (
    ("tail_counted", "all rows of the last tile are added, also those behind the segment",
     lambda first, n, t, _: range(first, first + len(_tiles(n, t)) * t)),
    ("tail_dropped", "the last tile is left out where it is not full",
     lambda first, n, t, _: range(first, first + n // t * t)),
    ("last_tile_missing", "the last tile is never added",
     lambda first, n, t, _: range(first, first + max(0, -(-n // t) - 1) * t)),
    ("first_tile_missing", "the first tile is never added", lambda first, n, t, _: range(first + t, first + n)),
    ("one_tile", "only the first tile is added", lambda first, n, t, _: range(first, first + min(n, t))),
    ("same_tile", "the first tile is loaded every time: the row must grow by TILE_ROWS from tile to tile",
     lambda first, n, t, _: [row for tile in _tiles(n, t) for row in _tile(first, n, tile, t)]),
    ("row_of_tile", "the tiles begin one row apart: a coordinate counts rows, and a tile has TILE_ROWS of them",
     lambda first, n, t, _: [row for tile in _tiles(n, t) for row in _tile(first + tile, n, tile, t)]),
    ("segment_start", "every segment is taken to begin at row 0 of x",
     lambda first, n, t, _: [row for tile in _tiles(n, t) for row in _tile(tile * t, n, tile, t)]),
    ("as_many_as_stages", "only NUM_STAGES tiles of a segment are added",
     lambda first, n, t, stages: range(first, first + min(n, stages * t))),
    ("last_tile_alone", "the sum is that of the last tile alone: it must be kept from tile to tile",
     lambda first, n, t, _: range(first + max(0, -(-n // t) - 1) * t, first + n)),
    ("nothing_added", "nothing is added", lambda first, n, t, _: ()),
)  # fmt: skip

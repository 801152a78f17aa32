"""04.5 Pick the tile from the roofline: what the judge runs."""

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Run
from course_lib.grading.report.verdict import Diagnosis

SIDES = (16, 32, 64, 128, 256)

NAMES = ("tflops", "gbps", "itemsize", "block_k", "num_stages", "smem_bytes", "acc_bytes")


def _intensity(block_m, block_n, itemsize):
    """FLOP for each byte that the tiles bring."""
    return 2 * block_m * block_n / ((block_m + block_n) * itemsize)


def _needs(block_m, block_n, sizes):
    """(bytes of shared memory, bytes of registers for the result)."""
    stages = sizes["num_stages"] * (block_m + block_n) * sizes["block_k"] * sizes["itemsize"]
    return stages, 4 * block_m * block_n


def _fits(block_m, block_n, sizes):
    smem, acc = _needs(block_m, block_n, sizes)
    return smem <= sizes["smem_bytes"] and acc <= sizes["acc_bytes"]


def _right(sizes):
    """((block_m, block_n), whether it reaches the ridge)."""
    tiles = [(m, n) for m in SIDES for n in SIDES if n <= m and _fits(m, n, sizes)]
    ridge = 1000 * sizes["tflops"] / sizes["gbps"]
    enough = [tile for tile in tiles if _intensity(*tile, sizes["itemsize"]) >= ridge]
    if enough:
        return min(enough, key=lambda tile: (tile[0] * tile[1], -_intensity(*tile, sizes["itemsize"]))), True
    return max(tiles, key=lambda tile: _intensity(*tile, sizes["itemsize"])), False


def _accept(case, _inputs, outputs):
    """None for the right tile; otherwise a Diagnosis with its FLOP per byte, its bytes and what is wrong with it."""
    sizes, (best, reaches) = case.sizes, _right(case.sizes)
    got = tuple(outputs[name].item() for name in ("block_m", "block_n"))
    said = f"Case {case.name!r}: the tile {got[0]:g} x {got[1]:g}"
    if any(side not in SIDES for side in got):
        return Diagnosis("no_tile", f"{said} has a side that is none of 16, 32, 64, 128, 256.")
    m, n = (int(side) for side in got)
    if n > m:
        return Diagnosis("turned", f"{said} is wider than tall; give the longer side as block_m.")
    if (m, n) == best:
        return None
    (smem, acc), value = _needs(m, n, sizes), _intensity(m, n, sizes["itemsize"])
    ridge = 1000 * sizes["tflops"] / sizes["gbps"]
    if smem > sizes["smem_bytes"]:
        return Diagnosis(
            "smem",
            f"{said} takes {sizes['num_stages']} x ({m} + {n}) * {sizes['block_k']} * {sizes['itemsize']} = "
            f"{smem:,} bytes of shared memory; there are {sizes['smem_bytes']:,}.",
        )
    if acc > sizes["acc_bytes"]:
        return Diagnosis(
            "registers",
            f"{said} takes {m} * {n} * 4 = {acc:,} bytes of registers for its sums; there are {sizes['acc_bytes']:,}.",
        )
    formula = f"2 * {m} * {n} / (({m} + {n}) * {sizes['itemsize']})"
    facts = f"{said} has {formula} = {value:.4g} FLOP per byte, the ridge is at {ridge:.4g}"
    other = f"{best[0]} x {best[1]} has {_intensity(*best, sizes['itemsize']):.4g}"
    if reaches and value < ridge:
        return Diagnosis("below_the_ridge", f"{facts}: it waits for memory. {other} and fits as well.")
    if reaches and m * n > best[0] * best[1]:
        return Diagnosis(
            "too_large", f"{facts}. {other}, which is enough, and is smaller: more blocks, fewer registers."
        )
    if reaches:
        return Diagnosis("not_square", f"{facts}. {other} in the same area: the nearer to a square, the fewer bytes.")
    return Diagnosis("not_the_best", f"{facts}: no tile that fits reaches it, and {other}, which is nearer.")


def _machine(name, *values):
    return Case(name, dict(zip(NAMES, values, strict=True)), "a machine")


KIB = 1024


EXERCISE = exercise(
    __file__,
    cases=(
        _machine("float from DRAM, H200", 66.9, 4800, 4, 16, 1, 48 * KIB, 64 * KIB),
        _machine("half from L2, H200", 989.4, 8000, 2, 32, 3, 227 * KIB, 128 * KIB),
        _machine("half from DRAM, H200", 989.4, 4800, 2, 32, 3, 227 * KIB, 128 * KIB),
        _machine("half from DRAM, T4", 65.0, 320, 2, 32, 1, 64 * KIB, 128 * KIB),
        _machine("little shared memory", 312.0, 2039, 2, 64, 4, 96 * KIB, 128 * KIB),
        _machine("few registers", 312.0, 2039, 2, 32, 2, 163 * KIB, 16 * KIB),
        _machine("exactly on the ridge", 128.0, 4000, 2, 32, 2, 96 * KIB, 128 * KIB),
        _machine("a slow machine", 1.0, 1000, 4, 16, 1, 48 * KIB, 64 * KIB),
        _machine("room for the smallest alone", 66.9, 4800, 4, 16, 1, 2100, 64 * KIB),
        _machine("exactly full", 256.0, 4000, 2, 32, 2, 32 * KIB, 128 * KIB),
        _machine("exactly full, no whole KiB", 312.0, 2039, 4, 4, 3, 3 * 48 * 4 * 4, 64 * KIB),
        _machine("one byte short", 128.0, 4000, 2, 32, 2, 2 * 128 * 32 * 2 - 1, 128 * KIB),
        _machine("sums one byte short", 128.0, 4000, 2, 32, 2, 96 * KIB, 4 * 64 * 64 - 1),
        _machine("ridge just above a tile", 128.04, 4000, 2, 32, 2, 96 * KIB, 128 * KIB),
        _machine("ridge just below a tile", 127.96, 4000, 2, 32, 2, 96 * KIB, 128 * KIB),
        _machine("ridge just below 128 x 64", 170.4, 4000, 2, 32, 2, 96 * KIB, 128 * KIB),
        _machine("two tiles of 4096", 88.0, 4000, 2, 32, 2, 96 * KIB, 128 * KIB),
        _machine("two tiles of 16384", 176.0, 4000, 2, 64, 1, 96 * KIB, 128 * KIB),
        _machine("two tiles of 1024", 48.0, 4000, 2, 128, 2, 96 * KIB, 128 * KIB),
        _machine("one byte a number", 1978.0, 8000, 1, 128, 3, 227 * KIB, 256 * KIB),
        _machine("double", 67.0, 4800, 8, 16, 2, 227 * KIB, 256 * KIB),
        _machine("room for more than the list", 989.4, 4800, 2, 16, 7, 227 * KIB, 2048 * KIB),
    ),
    make_inputs=lambda case, gen: {},
    make_run=lambda case, tensors: Run(
        case.name,
        tensors,
        {"block_m": ((), "int32"), "block_n": ((), "int32")},
        tuple(case.sizes.values()),
    ),
    accept=_accept,
)

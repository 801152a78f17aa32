"""The accumulators of wgmma: which thread holds which number of a 64 x n tile, and how scores become an operand.

Layout: common/wgmma.cuh, after the PTX ISA, "Register fragments for wgmma.mma_async.m64nNk16".

May import: style, drawing, matmul, matplotlib.
"""

from .drawing import arrow, box, canvas, hide_spines, label
from .matmul import REGISTER_HATCHES, REGISTERS, draw_fragment
from .style import GREY, INK, LIGHT_BLUE, LIGHT_ORANGE, VERMILION, Picture

ROWS, WARPS = 64, 4  # of one wgmma, of a warpgroup
STEP = 16  # keys in one step of the second product: eight numbers of a thread


def accumulator_owner(row, column):
    """(warp, lane, number) that hold element (row, column) of the tile: d[number] of that thread."""
    j, half = column // 8, row % 16 // 8
    return row // 16, row % 8 * 4 + column % 8 // 2, 4 * j + 2 * half + column % 2


def accumulator_place(warp, lane, number):
    """(row, column) of d[number] in that thread; the inverse of `accumulator_owner`."""
    j, half, e = number // 4, number // 2 % 2, number % 2
    return 16 * warp + 8 * half + lane // 4, 8 * j + 2 * (lane % 4) + e


def operand_register(number):
    """(step, register, half word) to which score d[number] goes when packed to 16 bits as the operand of P V."""
    return number // 8, number % 8 // 2, number % 2


def accumulators_picture(n=16, *, lane=5, warp=0, step=0):
    """The tile with its warps, the 16 x 16 of one warp and step with its lanes, and the packing of one lane.

    Parameters
    ----------
    n : int, columns of the tile, a multiple of 16
    lane, warp : int, the thread whose numbers are outlined
    step : int, which 16 columns are enlarged
    """
    if n % STEP or not 0 <= step < n // STEP:
        raise ValueError(f"n is a multiple of {STEP} and step below n / {STEP}; got n={n} and step={step}.")
    numbers = range(8 * step, 8 * step + 8)
    places = ", ".join(f"d[{i}] {accumulator_place(warp, lane, i)}" for i in numbers)
    alt_text = (
        f"Accumulators of a 64 x {n} tile: 16 rows a warp, four lanes a row. Lane {lane} of warp {warp} holds, as row "
        f"and column, {places}. Packed in pairs these are a[0] to a[3] of the second product, in the same thread."
    )
    figure = Picture(8.6, 4.7, alt_text)
    tile, fragment, packing = figure.subplots(1, 3, width_ratios=(1.25, 3.1, 1.9))
    _draw_tile(tile, n, lane, warp, step)
    draw_fragment(fragment, fragment_owners(), (STEP, STEP), lane)
    fragment.set_xticks([c + 0.5 for c in range(STEP)], [16 * step + c for c in range(STEP)])
    fragment.set_yticks([r + 0.5 for r in range(16)], [16 * warp + r for r in range(16)])
    title = f"warp {warp}, columns {16 * step} to {16 * step + 15}: lanes"
    fragment.set_title(title, fontsize=10, color=INK, loc="left")
    fragment.set_xlabel("column of the scores = k of P V", fontsize=8, color=GREY)
    names = [f"d[{i}]  {', '.join(map(str, accumulator_place(warp, lane, i)))}" for i in numbers]
    draw_packing(packing, f"lane {lane}, step {step}", names)
    return figure


def fragment_owners():
    """{(row, column): (lane, register)} of the 16 x 16 of one warp and step, as operand a of the second product."""
    cells = ((row, column, accumulator_owner(row, column)) for row in range(16) for column in range(STEP))
    return {(row, column): (lane, operand_register(number)[1]) for row, column, (_, lane, number) in cells}


def _draw_tile(axes, n, lane, warp, step):
    """64 x n: a band a warp, the enlarged part framed, one lane's numbers as filled cells."""
    for band in range(WARPS):
        look = {"facecolor": LIGHT_ORANGE if band % 2 else LIGHT_BLUE, "edgecolor": GREY, "linewidth": 0.8}
        box(axes, (0, 16 * band), n, 16, **look)
        axes.plot([0, n], [16 * band + 8] * 2, color=GREY, linewidth=0.6, linestyle=":")
    for number in range(n // 2):
        row, column = accumulator_place(warp, lane, number)
        box(axes, (column, row), 1, 1, facecolor=VERMILION, edgecolor="none")
    box(axes, (16 * step, 16 * warp), STEP, 16, fill=False, edgecolor=INK, linewidth=1.6)
    axes.set(xlim=(-0.3, n + 0.3), ylim=(64.3, -0.3))
    axes.set_facecolor("white")
    hide_spines(axes)
    axes.set_yticks([16 * band + 8 for band in range(WARPS)], [f"warp {band}" for band in range(WARPS)])
    axes.set_xticks([0, n])
    axes.tick_params(length=0, labelsize=8, colors=INK)
    axes.set_title(f"64 x {n}", fontsize=10, color=INK, loc="left")
    axes.set_xlabel("column", fontsize=8, color=GREY)


def draw_packing(axes, title, names):
    """Eight fp32 numbers of one lane, by name, packed in pairs into the four registers of a left operand."""
    canvas(axes, (0, 10), (8.6, -0.5), title=title)
    label(axes, (2.1, -0.2), "scores (fp32)", size=8, color=GREY)
    label(axes, (8.2, -0.2), "a (2 x 16 bits)", size=8, color=GREY)
    for i, name in enumerate(names):
        box(axes, (0.0, i + 0.1), 4.6, 0.8, facecolor="white", edgecolor=GREY, linewidth=0.9)
        label(axes, (2.3, i + 0.5), name, size=8)
    for register in range(4):
        top = 2 * register + 0.5
        box(axes, (6.8, top), 2.8, 1.0, facecolor=REGISTERS[register], alpha=0.28, edgecolor="none")
        look = {"hatch": REGISTER_HATCHES[register], "edgecolor": INK, "linewidth": 0.8}
        box(axes, (6.8, top), 2.8, 1.0, fill=False, **look)
        label(axes, (8.2, top + 0.5), f"a[{register}]", pad=1)
        for i in (2 * register, 2 * register + 1):
            arrow(axes, (4.6, i + 0.5), (6.75, top + 0.5), size=7, linewidth=0.8, shrinkA=0, shrinkB=0)

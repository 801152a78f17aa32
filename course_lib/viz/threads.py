"""Threads and blocks: which thread writes which element, the tree of a reduction, what fusing kernels saves.

May import: style, drawing, matplotlib.
"""

from .drawing import arrow, box, canvas, label
from .style import BLUE, GREY, INK, ORANGE, PALE, SERIES, Picture


def who_picture(block_of, thread_of):
    """An array, and above each element the block and the thread that wrote it.

    Parameters
    ----------
    block_of, thread_of : sequences of int, one an element, as the threads recorded them
    """
    blocks, threads = [int(b) for b in block_of], [int(t) for t in thread_of]
    alt_text = "; ".join(
        f"element {i}: thread {t} of block {b}" for i, (b, t) in enumerate(zip(blocks, threads, strict=True))
    )
    figure = Picture(max(0.95 * len(blocks), 5.0), 2.3, f"Who writes which element. {alt_text}.")
    axes = figure.subplots()
    canvas(axes, (-1.7, len(blocks)), (-0.15, 3.35))
    for name, y in (("grid", 2.75), ("threads", 1.65), ("array", 0.35)):
        label(axes, (-0.25, y), name, size=10, ha="right")
    for block in sorted(set(blocks)):
        mine = [i for i, b in enumerate(blocks) if b == block]
        colour, dashes = SERIES[block % len(SERIES)], ("solid", "dashed")[block % 2]
        frame = {"facecolor": "white", "edgecolor": colour, "linewidth": 1.8, "linestyle": dashes, "zorder": 0}
        box(axes, (mine[0] + 0.03, 1.2), len(mine) - 0.06, 1.95, **frame)
        label(axes, (mine[0] + len(mine) / 2, 2.72), f"block {block}", size=10)
        for i in mine:
            _cell(axes, i + 0.1, 1.35, f"thread {threads[i]}", face=PALE, edge=colour)
            _cell(axes, i + 0.1, 0.05, f"[{i}]", face="white", edge=GREY)
            _arrow(axes, (i + 0.5, 1.32), (i + 0.5, 0.68))
    return figure


def tree_picture(steps):
    """The tree of a reduction: one line for shared memory before the first step and after each one.

    Parameters
    ----------
    steps : sequence of sequences of numbers; steps[k][t] is element t after step k, as the kernel recorded it
    """
    rows = [[float(value) for value in row] for row in steps]
    width = len(rows[0])
    parts = [f"before: {_list(rows[0])}"]
    for number in range(1, len(rows)):
        stride = width >> number
        parts.append(
            f"stride {stride}: elements 0 to {stride - 1} each add the element {stride} further on, giving "
            f"{_list(rows[number][:stride])}"
        )
    figure = Picture(7.6, 0.9 * len(rows) + 0.5, "Sum by a tree in shared memory. " + "; ".join(parts) + ".")
    axes = figure.subplots()
    canvas(axes, (-2.1, width), (-1.5 * (len(rows) - 1) - 0.2, 1.1))
    for number, row in enumerate(rows):
        y, stride = -1.5 * number, width >> number
        label(axes, (-0.2, y + 0.32), f"stride {stride}" if number else "sum_smem", size=10, ha="right")
        for element, value in enumerate(row):
            live = element < stride or number == 0
            look = {"face": "white", "edge": BLUE} if live else {"face": PALE, "edge": GREY, "ink": GREY}
            _cell(axes, element + 0.1, y, f"{value:g}", **look)
            if number and element < stride:
                _arrow(axes, (element + 0.5, y + 1.47), (element + 0.5, y + 0.68))
                _arrow(
                    axes,
                    (element + stride + 0.5, y + 1.47),
                    (element + 0.62, y + 0.68),
                    color=ORANGE,
                    linestyle="dashed",
                )
    return figure


FUSION = (
    (
        "three kernels",
        (
            ("row_max", ("x",), ("m",)),
            ("row_exp_sum", ("x", "m"), ("weights", "l")),
            ("row_divide", ("weights", "l"), ("out",)),
        ),
    ),
    ("one kernel", (("fused", ("x",), ("out",)),)),
)


def fusion_picture(variants=FUSION):
    """What each kernel reads from and writes to global memory, one panel a variant.

    Parameters
    ----------
    variants : sequence of (title, sequence of (kernel, names it reads, names it writes))
    """
    alt_text = "; ".join(
        f"{title}: {', '.join(_traffic(*kernel) for kernel in kernels)}" for title, kernels in variants
    )
    most = max(len(kernels) for _, kernels in variants)
    figure = Picture(8.4, 0.8 * most + 0.7, f"Traffic through global memory. {alt_text}.")
    for axes, (title, kernels) in zip(figure.subplots(1, len(variants)), variants, strict=True):
        canvas(axes, (0, 10), (-most + 0.05, 0.35), title=title)
        for number, (kernel, reads, writes) in enumerate(kernels):
            y = -number - 0.25
            _cell(axes, 3.4, y - 0.3, kernel, face=PALE, edge=INK, width=3.2, height=0.6)
            _arrow(axes, (1.9, y), (3.3, y), color=BLUE)
            _arrow(axes, (6.7, y), (8.1, y), color=ORANGE, linestyle="dashed")
            label(axes, (1.8, y), ", ".join(reads), size=9.5, ha="right")
            label(axes, (8.2, y), ", ".join(writes), size=9.5, ha="left")
    return figure


def _traffic(kernel, reads, writes):
    return f"{kernel} reads {' and '.join(reads)} and writes {' and '.join(writes)}"


def _list(values):
    return ", ".join(f"{value:g}" for value in values)


def _cell(axes, x, y, text, *, face, edge, ink=INK, width=0.8, height=0.62):
    """A rectangle with its text in the middle."""
    box(axes, (x, y), width, height, facecolor=face, edgecolor=edge, linewidth=1.2)
    label(axes, (x + width / 2, y + height / 2), text, color=ink)


def _arrow(axes, start, end, **look):
    arrow(axes, start, end, size=9, shrinkA=0, shrinkB=0, **look)

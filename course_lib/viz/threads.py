"""Threads and blocks: which thread writes which element, the tree of a reduction, what fusing kernels saves.

May import: style, drawing, matplotlib.
"""

from matplotlib.lines import Line2D

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
ONE_A_ROW = ("m", "l")  # one number a row; all other tensors of FUSION have E bytes
_ACROSS = 3.2  # from one kernel to the next


def fusion_picture(variants=FUSION):
    """What each kernel reads from and writes to global memory, one panel a variant, and the sum in tensors of E bytes.

    Parameters
    ----------
    variants : sequence of (title, sequence of (kernel, names it reads, names it writes)); ONE_A_ROW names what is small
    """
    sums = [sum(len(_large(names)) for _, *both in kernels for names in both) for _, kernels in variants]
    alt_text = "; ".join(
        f"{title}, {passes} E in sum: {', '.join(_traffic(*kernel) for kernel in kernels)}"
        for (title, kernels), passes in zip(variants, sums, strict=True)
    )
    figure = Picture(8.4, 2.6, f"Traffic through global memory, E bytes for x. {alt_text}.")
    widths = [len(kernels) * _ACROSS for _, kernels in variants]
    panels = figure.subplots(1, len(variants), width_ratios=widths)
    for axes, (title, kernels), passes, width in zip(panels, variants, sums, widths, strict=True):
        canvas(axes, (-0.1, width), (-0.1, 3.5), title=f"{title}: {passes} E")
        box(axes, (0, 0), width - 0.2, 0.7, facecolor=PALE, edgecolor=INK)
        label(axes, (width / 2 - 0.1, 0.35), "global memory")
        for number, kernel in enumerate(kernels):
            _draw_kernel(axes, number * _ACROSS, *kernel)
    handles = [
        Line2D([], [], color=BLUE, label="read"),
        Line2D([], [], color=ORANGE, linestyle="dashed", label="written"),
    ]
    words = "m and l: one number a row, not counted"
    look = {"fontsize": 9, "frameon": False, "ncols": 3, "labelcolor": INK}
    figure.legend(handles=[*handles, Line2D([], [], linestyle="none", label=words)], loc="outside lower center", **look)
    return figure


def _large(names):
    return [name for name in names if name not in ONE_A_ROW]


def _draw_kernel(axes, left, kernel, reads, writes):
    """A kernel above the memory, what it reads on the way up and what it writes on the way down."""
    _cell(axes, left + 0.1, 2.8, kernel, face="white", edge=INK, width=2.8, height=0.65)
    for x, names, ends, look in (
        (left + 0.7, reads, (0.75, 2.75), {"color": BLUE}),
        (left + 2.2, writes, (2.75, 0.75), {"color": ORANGE, "linestyle": "dashed"}),
    ):
        lines = [f"{name}: E" if name not in ONE_A_ROW else name for name in names]
        _arrow(axes, (x, ends[0]), (x, ends[1]), **look)
        label(axes, (x, 1.75), "\n".join(lines), size=9, pad=1.0)


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

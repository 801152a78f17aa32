"""Pictures of chapter 02: who computes what, the tree of a reduction, what fusing saves.

May import: style, matplotlib.
"""

from matplotlib.patches import FancyArrowPatch, Rectangle

from .style import BLUE, GREY, INK, ORANGE, PALE, SERIES, Picture


def who_picture(block_of, thread_of):
    """An array, and over each place the block and the thread that wrote it.

    Parameters
    ----------
    block_of, thread_of : sequences of int, one an element, as the threads themselves wrote them down
    """
    blocks, threads = [int(b) for b in block_of], [int(t) for t in thread_of]
    told = "; ".join(
        f"element {i}: thread {t} of block {b}" for i, (b, t) in enumerate(zip(blocks, threads, strict=True))
    )
    figure = Picture(max(0.95 * len(blocks), 5.0), 2.3, f"Who writes which element. {told}.")
    axes = figure.subplots()
    axes.axis("off")
    axes.set_xlim(-1.7, len(blocks))
    axes.set_ylim(-0.15, 3.35)
    for name, y in (("grid", 2.75), ("threads", 1.65), ("array", 0.35)):
        axes.text(-0.25, y, name, ha="right", va="center", fontsize=10, color=INK)
    for block in sorted(set(blocks)):
        mine = [i for i, b in enumerate(blocks) if b == block]
        colour, style = SERIES[block % len(SERIES)], ("solid", "dashed")[block % 2]
        axes.add_patch(
            Rectangle(
                (mine[0] + 0.03, 1.2),
                len(mine) - 0.06,
                1.95,
                facecolor="white",
                edgecolor=colour,
                linewidth=1.8,
                linestyle=style,
                zorder=0,
            )
        )
        axes.text(mine[0] + len(mine) / 2, 2.72, f"block {block}", ha="center", va="center", fontsize=10, color=INK)
        for i in mine:
            _box(axes, i + 0.1, 1.35, f"thread {threads[i]}", face=PALE, edge=colour)
            _box(axes, i + 0.1, 0.05, f"[{i}]", face="white", edge=GREY)
            _arrow(axes, (i + 0.5, 1.32), (i + 0.5, 0.68))
    return figure


def tree_picture(steps):
    """The tree of a reduction: one line for shared memory before the first step and after each one.

    Parameters
    ----------
    steps : sequence of sequences of numbers; steps[k][t] is what place t held after step k, as recorded by the kernel
    """
    rows = [[float(value) for value in row] for row in steps]
    width = len(rows[0])
    told = [f"before: {_list(rows[0])}"]
    for number in range(1, len(rows)):
        stride = width >> number
        told.append(
            f"stride {stride}: places 0 to {stride - 1} each add the place {stride} further on, giving "
            f"{_list(rows[number][:stride])}"
        )
    figure = Picture(7.6, 0.9 * len(rows) + 0.5, "Sum by a tree in shared memory. " + "; ".join(told) + ".")
    axes = figure.subplots()
    axes.axis("off")
    axes.set_xlim(-2.1, width)
    axes.set_ylim(-1.5 * (len(rows) - 1) - 0.2, 1.1)
    for number, row in enumerate(rows):
        y, stride = -1.5 * number, width >> number
        label = "sum_smem" if number == 0 else f"stride {stride}"
        axes.text(-0.2, y + 0.32, label, ha="right", va="center", fontsize=10, color=INK)
        for place, value in enumerate(row):
            live = place < stride or number == 0
            _box(
                axes,
                place + 0.1,
                y,
                f"{value:g}",
                face="white" if live else PALE,
                edge=BLUE if live else GREY,
                ink=INK if live else GREY,
            )
            if number and place < stride:
                _arrow(axes, (place + 0.5, y + 1.47), (place + 0.5, y + 0.68))
                _arrow(axes, (place + stride + 0.5, y + 1.47), (place + 0.62, y + 0.68), colour=ORANGE, style="dashed")
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
    told = "; ".join(
        f"{title}: "
        + ", ".join(
            f"{kernel} reads {' and '.join(reads)} and writes {' and '.join(writes)}"
            for kernel, reads, writes in kernels
        )
        for title, kernels in variants
    )
    most = max(len(kernels) for _, kernels in variants)
    figure = Picture(8.4, 0.8 * most + 0.7, f"Traffic through global memory. {told}.")
    for axes, (title, kernels) in zip(figure.subplots(1, len(variants)), variants, strict=True):
        axes.set_title(title, fontsize=10, color=INK, loc="left")
        axes.axis("off")
        axes.set_xlim(0, 10)
        axes.set_ylim(-most + 0.05, 0.35)
        for number, (kernel, reads, writes) in enumerate(kernels):
            y = -number - 0.55
            _box(axes, 3.4, y, kernel, face=PALE, edge=INK, width=3.2, height=0.6)
            _arrow(axes, (1.9, y + 0.3), (3.3, y + 0.3), colour=BLUE)
            _arrow(axes, (6.7, y + 0.3), (8.1, y + 0.3), colour=ORANGE, style="dashed")
            axes.text(1.8, y + 0.3, ", ".join(reads), ha="right", va="center", fontsize=9.5, color=INK)
            axes.text(8.2, y + 0.3, ", ".join(writes), ha="left", va="center", fontsize=9.5, color=INK)
    return figure


def _list(values):
    return ", ".join(f"{value:g}" for value in values)


def _box(axes, x, y, text, *, face, edge, ink=INK, width=0.8, height=0.62):
    axes.add_patch(Rectangle((x, y), width, height, facecolor=face, edgecolor=edge, linewidth=1.2))
    axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=9, color=ink)


def _arrow(axes, start, end, *, colour=INK, style="solid"):
    axes.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>",
            mutation_scale=9,
            color=colour,
            linewidth=1.2,
            linestyle=style,
            shrinkA=0,
            shrinkB=0,
        )
    )

"""How often a softmax walks over its row: three sweeps, two, one.

May import: style, matplotlib.
"""

from matplotlib.patches import FancyArrowPatch, Rectangle

from .style import BLUE, GREY, INK, ORANGE, Picture

# title, reads of the row, what is written
SWEEPS = (
    ("three sweeps", ("maximum m", "sum l", "divide"), True),
    ("two sweeps (online)", ("m and l together", "divide"), True),
    ("one sweep", ("m, l and the weighted sum",), False),
)


def sweeps_picture(sweeps=SWEEPS):
    """One panel a method: an arrow for each walk over the row, with what it computes, and a hatched one for the write.

    Parameters
    ----------
    sweeps : sequence of (title, names of the reads, does it write the whole row)
    """
    told = "; ".join(
        f"{title}: reads the row for {', for '.join(reads)}, writes {_written(writes)}"
        for title, reads, writes in sweeps
    )
    figure = Picture(8.4, 2.5, f"How often each method walks over a row. {told}.")
    for axes, (title, reads, writes) in zip(figure.subplots(1, len(sweeps)), sweeps, strict=True):
        axes.set_title(title, fontsize=10, color=INK)
        axes.set_xlim(-0.2, 8.2)
        axes.set_ylim(-4.1, 1.3)
        axes.axis("off")
        for cell in range(8):
            axes.add_patch(Rectangle((cell, 0), 0.9, 0.8, facecolor="white", edgecolor=GREY))
        for level, name in enumerate(reads, start=1):
            _sweep(axes, -0.95 * level + 0.25, f"read: {name}", BLUE, full=True)
        _sweep(axes, -0.95 * (len(reads) + 1) + 0.25, f"write {_written(writes)}", ORANGE, full=writes)
    return figure


def _written(whole_row):
    return "the row" if whole_row else "a small result"


def _sweep(axes, y, name, colour, *, full):
    """An arrow over the row (or a short one), its name above it."""
    style = "-" if colour == BLUE else (0, (4, 2))  # a write is dashed: not by colour alone
    axes.add_patch(
        FancyArrowPatch(
            (0, y),
            (8 if full else 1.6, y),
            arrowstyle="-|>",
            mutation_scale=11,
            color=colour,
            linewidth=1.8,
            linestyle=style,
            shrinkA=0,
            shrinkB=0,
        )
    )
    axes.text(0.05, y + 0.12, name, fontsize=8.5, color=INK, va="bottom")

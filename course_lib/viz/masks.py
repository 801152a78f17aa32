"""Which key each query may see, as a grid of 0 and 1, for two alignments of the causal mask.

May import: style, matplotlib.
"""

from matplotlib.patches import Rectangle

from .style import BLUE, GREY, INK, Picture


def mask_picture(seq_len_q=2, seq_len_kv=5):
    """The causal mask aligned to the bottom right (the course's) and to the top left, side by side.

    Parameters
    ----------
    seq_len_q, seq_len_kv : int, rows and columns
    """
    offset = seq_len_kv - seq_len_q
    grids = {"bottom right: key <= q_row + seq_len_kv - seq_len_q": offset, "top left: key <= q_row": 0}
    told = "; ".join(f"{name}: {_rows(seq_len_q, seq_len_kv, shift)}" for name, shift in grids.items())
    figure = Picture(8.4, 0.5 * seq_len_q + 1.0, f"Causal mask, {seq_len_q} queries and {seq_len_kv} keys. {told}.")
    for axes, (name, shift) in zip(figure.subplots(1, 2), grids.items(), strict=True):
        for q_row in range(seq_len_q):
            for key in range(seq_len_kv):
                seen = key <= q_row + shift
                style = {"facecolor": BLUE, "hatch": "//"} if seen else {"facecolor": "none"}
                axes.add_patch(
                    Rectangle((key, q_row), 0.92, 0.92, edgecolor=GREY, alpha=0.35 if seen else 1.0, **style)
                )
                axes.text(key + 0.46, q_row + 0.46, str(int(seen)), ha="center", va="center", color=INK, fontsize=10)
        axes.set_title(name, fontsize=9, color=INK)
        axes.set_xlim(-0.1, seq_len_kv + 0.1)
        axes.set_ylim(seq_len_q + 0.1, -0.1)
        axes.set_aspect("equal")
        axes.axis("off")
    return figure


def _rows(seq_len_q, seq_len_kv, shift):
    """ "1 1 1 1 0 / 1 1 1 1 1"."""
    rows = (" ".join(str(int(key <= q_row + shift)) for key in range(seq_len_kv)) for q_row in range(seq_len_q))
    return " / ".join(rows)

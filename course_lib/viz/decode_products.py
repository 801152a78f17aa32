"""The two products of a group of query heads on tensor cores, and what movmatrix does between them.

May import: style, drawing, matplotlib.
"""

from .drawing import arrow, box, canvas, label
from .style import BLUE, GREEN, GREY, HATCHES, LIGHT_BLUE, LIGHT_ORANGE, ORANGE, PALE, VERMILION, Picture

_ROWS, _COLUMNS = 16, 8  # of the result of mma.m16n8k16
_SIZE = 8  # rows and columns of what movmatrix transposes


def group_products_picture(num_q_per_kv=4, head_dim=64):
    """Both products of a tile of 16 keys with their shapes: keys or columns of V are the rows, heads the columns.

    Parameters
    ----------
    num_q_per_kv : int, 1 to 8
    head_dim : int
    """
    idle = _COLUMNS - num_q_per_kv
    alt_text = (
        f"Two products: a tile of 16 keys, a group of {num_q_per_kv} heads. Scores: K, 16 keys x {head_dim}, times "
        f"q transposed, {head_dim} x 8, gives 16 keys x 8 heads: keys are the rows, heads the columns, and {idle} of "
        f"the 8 columns are zeros. Sum: V transposed, {head_dim} x 16 keys, times the weights, 16 x 8 heads, gives "
        f"{head_dim} columns of V x 8 heads. Between the two movmatrix changes which lane holds which weight."
    )
    figure = Picture(8.6, 4.0, alt_text)
    axes = figure.subplots()
    wide = 8.0  # of head_dim
    for top, words in ((0.6, "scores"), (6.6, "weighted\nsum")):
        label(axes, (-0.4, top + 2.0), words, size=9.5, ha="right")
    _matrix(axes, (0, 0.6), (wide, 4), ("K: rows are keys", f"16 x {head_dim}"), LIGHT_ORANGE, HATCHES[1])
    _heads(axes, (10.5, 0.6), 4, num_q_per_kv, ("q$^T$: columns are heads", f"{head_dim} x 8"))
    _heads(axes, (18.5, 0.6), 4, num_q_per_kv, ("scores", "16 keys x 8 heads"))
    _matrix(axes, (1.5, 6.6), (5, 4.4), ("V$^T$: rows are columns of V", f"{head_dim} x 16"), LIGHT_ORANGE, HATCHES[1])
    _heads(axes, (10.5, 6.6), 4.4, num_q_per_kv, ("weights", "16 keys x 8 heads"))
    _heads(axes, (18.5, 6.6), 4.4, num_q_per_kv, ("acc", f"{head_dim} x 8 heads"))
    for y in (2.6, 8.8):
        label(axes, (9.3, y), "·", size=16)
        label(axes, (16.6, y), "=", size=13)
    arrow(axes, (20.0, 5.2), (14.3, 6.4), size=11)
    label(axes, (20.4, 5.55), "softmax, then movmatrix", size=9, ha="left")
    canvas(axes, (-3.2, 27), (11.9, -0.6))
    return figure


def _matrix(axes, corner, size, words, colour, hatch=""):
    box(axes, corner, *size, facecolor=colour, hatch=hatch, edgecolor=GREY, linewidth=0.9)
    label(axes, (corner[0] + size[0] / 2, corner[1] - 0.3), words[0], size=8.5)
    label(axes, (corner[0] + size[0] / 2, corner[1] + size[1] / 2), words[1], size=8.5, pad=1.5)


def _heads(axes, corner, height, num_q_per_kv, words):
    """Eight columns, those of the group filled."""
    step = 4.4 / _COLUMNS
    for column in range(_COLUMNS):
        look = {"facecolor": BLUE, "alpha": 0.55} if column < num_q_per_kv else {"facecolor": PALE, "hatch": "..."}
        box(axes, (corner[0] + column * step, corner[1]), step, height, edgecolor=GREY, linewidth=0.6, **look)
    label(axes, (corner[0] + 2.2, corner[1] - 0.3), words[0], size=8.5)
    label(axes, (corner[0] + 2.2, corner[1] + height / 2), words[1], size=8.5, pad=1.5)


def owners_before(lane):
    """(key, head) of the two weights that a lane holds of an 8 x 8 tile after the first product."""
    return [(lane // 4, lane % 4 * 2 + i) for i in range(2)]


def owners_after(lane):
    """(key, head) of the two weights that a lane holds after movmatrix, as the second product needs them."""
    return [(lane % 4 * 2 + i, lane // 4) for i in range(2)]


def movmatrix_picture(lane=6):
    """Which lane holds which weight of 8 keys and 8 heads, before and after movmatrix.

    Parameters
    ----------
    lane : int, 0 to 31, the lane whose weights are outlined
    """
    before, after = owners_before(lane), owners_after(lane)
    said = [", ".join(f"key {key} of head {head}" for key, head in cells) for cells in (before, after)]
    alt_text = (
        f"Weights of 8 keys and 8 heads in registers of a warp. After the first product lane {lane} holds {said[0]}: "
        f"one key, two heads. After movmatrix it holds {said[1]}: two neighbouring keys of one head, which is what the "
        "right operand of the second product has in a register."
    )
    figure = Picture(8.4, 3.9, alt_text)
    ways = (("after the first product: two heads of a key", owners_before, ORANGE),
            ("after movmatrix: two keys of a head", owners_after, GREEN))  # fmt: skip
    for axes, (title, owners, colour) in zip(figure.subplots(1, 2), ways, strict=True):
        _draw_owners(axes, owners, lane, colour)
        canvas(axes, (-1.9, _SIZE + 0.2), (_SIZE + 0.9, -1.5), title=title)
    return figure


def _draw_owners(axes, owners, marked, colour):
    """Cells with the numbers of their lanes, the two of a register joined."""
    for lane in range(32):
        (top, left), (bottom, right) = owners(lane)
        mine = lane == marked
        look = {"facecolor": colour if mine else LIGHT_BLUE, "edgecolor": VERMILION if mine else GREY}
        box(
            axes,
            (left, top),
            right - left + 1,
            bottom - top + 1,
            linewidth=1.8 if mine else 0.8,
            zorder=1 + mine,
            **look,
        )
        label(axes, ((left + right + 1) / 2, (top + bottom + 1) / 2), f"{lane}", size=8.5, zorder=4)
    for i in range(_SIZE):
        label(axes, (i + 0.5, -0.3), f"{i}", size=8, color=GREY)
        label(axes, (-0.3, i + 0.5), f"{i}", size=8, color=GREY)
    label(axes, (_SIZE / 2, -0.95), "head", size=8.5)
    label(axes, (_SIZE / 2, _SIZE + 0.5), f"a number is the lane that holds the two; filled: lane {marked}", size=8.5)
    label(axes, (-1.3, _SIZE / 2), "key", size=8.5)

"""The two loops of FlashAttention on the grid of tiles, in either order, with the bytes moved so far by each tensor.

May import: style, matplotlib.
"""

from dataclasses import dataclass

from matplotlib.patches import Rectangle

from .style import BLUE, GREEN, GREY, INK, ORANGE, PALE, PURPLE, Picture, clean, name_axes

PARTS = ("K and V", "Q", "out", "m and l")
_COLOURS = dict(zip(PARTS, (BLUE, ORANGE, GREEN, PURPLE), strict=True))
_HATCHES = dict(zip(PARTS, ("", "///", "xx", ".."), strict=True))


@dataclass(frozen=True)
class LoopStep:
    """One turn of the inner loop: tile `kv_tile` of K and V meets tile `q_tile` of Q; the outer one of them is held."""

    kv_tile: int
    q_tile: int
    num_kv_tiles: int
    num_q_tiles: int
    moved_bytes: dict[str, int]  # part -> bytes since the start, both directions
    q_outside: bool = False

    def sentence(self):
        """The step in words."""
        total = sum(self.moved_bytes.values())
        parts = ", ".join(f"{part} {count:,}" for part, count in self.moved_bytes.items())
        names = [
            f"K/V tile {self.kv_tile + 1} of {self.num_kv_tiles}",
            f"Q tile {self.q_tile + 1} of {self.num_q_tiles}",
        ]
        return f"{', '.join(names[:: -1 if self.q_outside else 1])}: {total:,} bytes moved so far ({parts})."


def loop_steps(seq_len_q=8, seq_len_kv=8, head_dim=4, block_m=2, block_n=2, *, itemsize=4, q_outside=False):
    """Every turn of the two loops for one head without a mask.

    Parameters
    ----------
    seq_len_q, seq_len_kv, head_dim, block_m, block_n : int, at least 1
    itemsize : bytes of one number
    q_outside : bool; False: K and V in the outer loop (FlashAttention-1), True: Q (FlashAttention-2)

    Returns
    -------
    list of LoopStep, in the order in which they happen
    """
    num_kv, num_q = -(-seq_len_kv // block_n), -(-seq_len_q // block_m)
    moved, steps = dict.fromkeys(PARTS, 0), []
    if q_outside:
        return _steps_q_outside((seq_len_q, seq_len_kv), head_dim * itemsize, (block_m, block_n), (num_q, num_kv))
    for kv_tile in range(num_kv):
        keys = min(block_n, seq_len_kv - kv_tile * block_n)
        moved["K and V"] += 2 * keys * head_dim * itemsize
        ways = 2 if kv_tile else 1  # the first tile has nothing to read back
        for q_tile in range(num_q):
            rows = min(block_m, seq_len_q - q_tile * block_m)
            moved["Q"] += rows * head_dim * itemsize
            moved["out"] += ways * rows * head_dim * itemsize
            moved["m and l"] += ways * 2 * rows * itemsize
            steps.append(LoopStep(kv_tile, q_tile, num_kv, num_q, dict(moved)))
    return steps


def _steps_q_outside(seq_lens, row_bytes, blocks, counts):
    """The same walk with Q held: a row's state never leaves the chip, and `out` is written when its tile is done."""
    moved, steps = dict.fromkeys(PARTS, 0), []
    for q_tile in range(counts[0]):
        rows = min(blocks[0], seq_lens[0] - q_tile * blocks[0])
        moved["Q"] += rows * row_bytes
        for kv_tile in range(counts[1]):
            keys = min(blocks[1], seq_lens[1] - kv_tile * blocks[1])
            moved["K and V"] += 2 * keys * row_bytes
            if kv_tile == counts[1] - 1:
                moved["out"] += rows * row_bytes
            steps.append(LoopStep(kv_tile, q_tile, counts[1], counts[0], dict(moved), q_outside=True))
    return steps


def loop_step_picture(steps, number):
    """The grid and the bytes at one step; `number` counts from 0."""
    figure = Picture(7.5, 2.9, steps[number].sentence())
    grid, bars = figure.subplots(1, 2, width_ratios=(1, 1.4))
    _draw_grid(grid, steps[number], number)
    _draw_bytes(bars, steps, number)
    return figure


def loop_picture(steps):
    """The still picture: four moments of the loops, side by side, and the bytes at each."""
    last = len(steps) - 1
    numbers = sorted({0, min(steps[0].num_q_tiles - 1, last), min(steps[0].num_q_tiles, last), last})
    told = " ".join(steps[number].sentence() for number in numbers)
    figure = Picture(7.8, 4.2, f"Four moments of the two loops on the grid of tiles. {told}")
    axes = figure.subplots(2, len(numbers), squeeze=False, height_ratios=(1.2, 1))
    for column, number in enumerate(numbers):
        _draw_grid(axes[0][column], steps[number], number)
        _draw_bytes(axes[1][column], steps, number, names=column == 0)
    return figure


def _draw_grid(axes, step, number):
    for kv_tile in range(step.num_kv_tiles):
        for q_tile in range(step.num_q_tiles):
            at = q_tile * step.num_kv_tiles + kv_tile if step.q_outside else kv_tile * step.num_q_tiles + q_tile
            now, done = at == number, at < number
            look = {"facecolor": ORANGE if now else PALE if done else "white", "hatch": "///" if now else ""}
            axes.add_patch(Rectangle((kv_tile, q_tile), 1, 1, edgecolor=INK if now else GREY, **look))
            if done:
                axes.text(kv_tile + 0.5, q_tile + 0.5, f"{at + 1}", ha="center", va="center", fontsize=7, color=INK)
    held = ((0, step.q_tile), step.num_kv_tiles, 1) if step.q_outside else ((step.kv_tile, 0), 1, step.num_q_tiles)
    axes.add_patch(Rectangle(*held, fill=False, edgecolor=BLUE, linewidth=2.5))
    axes.set_xlim(-0.1, step.num_kv_tiles + 0.1)
    axes.set_ylim(step.num_q_tiles + 0.1, -0.1)
    axes.set_aspect("equal")
    clean(axes, left=False, bottom=False)
    kv_loop, q_loop = ("inner", "outer loop") if step.q_outside else ("outer loop", "inner")
    name_axes(axes, f"K and V tiles, {kv_loop}", f"Q tiles, {q_loop}", f"step {number + 1}")


def _draw_bytes(axes, steps, number, *, names=True):
    moved, most = steps[number].moved_bytes, max(steps[-1].moved_bytes.values())
    for at, part in enumerate(PARTS):
        axes.barh(at, moved[part], color=_COLOURS[part], hatch=_HATCHES[part], edgecolor="white")
        axes.text(moved[part] + 0.02 * most, at, f"{moved[part]:,}", va="center", fontsize=8, color=INK)
    axes.set_xlim(0, 1.45 * most)
    axes.set_ylim(len(PARTS) - 0.4, -0.6)
    clean(axes, bottom=False)
    axes.set_yticks(range(len(PARTS)), PARTS if names else [""] * len(PARTS))
    name_axes(axes, "", "", f"{sum(moved.values()):,} bytes")

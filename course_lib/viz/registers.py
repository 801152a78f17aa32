"""The registers of an SM: shared out among the warpgroups of a block, and within a thread among the tiles it holds.

May import: style, drawing, matplotlib.
"""

from .drawing import box, clean, label, name_axes
from .style import BLUE, GREEN, HATCHES, INK, ORANGE, PALE, SKY, Picture

SM_REGISTERS = 65_536  # 32-bit, of an SM and the most of one block: CUDA C++ Programming Guide, compute capabilities
GROUP_THREADS = 128
_STEP = 8  # registers of a thread are counted in steps of 8
PLANS = (  # registers of a thread in each warpgroup after setmaxnreg, the producer's last
    ("two consumers", (240, 240, 24)),
    ("three consumers", (160, 160, 160, 32)),
)
TILES = (  # title, registers of a thread, keys of a tile, head_dim
    ("d = 128, 128 keys", 240, 128, 128),
    ("d = 128, 176 keys", 240, 176, 128),
    ("d = 64, 128 keys", 160, 128, 64),
)
_PARTS = (  # name, colour, hatch
    ("acc", BLUE, HATCHES[0]),
    ("scores", ORANGE, HATCHES[1]),
    ("probs", GREEN, HATCHES[2]),
    ("q", SKY, HATCHES[4]),
    ("rest", PALE, HATCHES[3]),
)


def registers_at_entry(num_threads):
    """Registers of a thread when a block of `num_threads` starts and may have all of the SM: 384 -> 168."""
    return min(SM_REGISTERS // num_threads // _STEP * _STEP, 255)


def register_share(num_registers, block_n, head_dim):
    """What a consumer's thread holds, of a tile of 64 rows a warpgroup: {part: registers}.

    Parameters
    ----------
    num_registers : int, of the thread
    block_n : int, keys of a tile; scores are 64 x block_n in fp32, probs the same in 16 bits
    head_dim : int; acc is 64 x head_dim in fp32

    Returns
    -------
    share : dict, "acc", "scores", "probs", "rest"; the last is negative when the tiles do not fit
    """
    acc, scores = 64 * head_dim // GROUP_THREADS, 64 * block_n // GROUP_THREADS
    used = {"acc": acc, "scores": scores, "probs": scores // 2}
    return {**used, "rest": num_registers - sum(used.values())}


def register_pool_picture(plans=PLANS):
    """The registers of a block, at entry and after setmaxnreg: a pair of bars for each plan, a segment a warpgroup.

    Parameters
    ----------
    plans : sequence of (title, registers of a thread in each warpgroup after setmaxnreg)
    """
    rows, sentences = [], []
    for title, after in plans:
        entry = registers_at_entry(len(after) * GROUP_THREADS)
        pool = entry * len(after) * GROUP_THREADS
        rows += [(f"{title}\nat entry", [entry] * len(after), pool), ("after setmaxnreg", after, pool)]
        sentences.append(f"{title}: {_plan_text(entry, after, pool)}")
    figure = Picture(8.4, 0.55 * len(rows) + 0.8, f"Registers of the warpgroups of a block. {'; '.join(sentences)}.")
    axes = figure.subplots()
    for row, (_, registers, pool) in enumerate(rows):
        y = row + 0.35 * (row // 2)
        _draw_groups(axes, y, registers, pool)
    axes.axvline(SM_REGISTERS, color=INK, linewidth=1, linestyle="--")
    label(axes, (SM_REGISTERS - 400, -0.5), f"the SM has {SM_REGISTERS:,}", size=8, ha="right", va="bottom")
    most = max(max(sum(registers) * GROUP_THREADS for _, registers, _ in rows), SM_REGISTERS)
    axes.set(xlim=(0, 1.07 * most), ylim=(len(rows) - 0.5 + 0.35 * ((len(rows) - 1) // 2), -0.95))
    clean(axes, left=False)
    axes.set_yticks([row + 0.35 * (row // 2) for row in range(len(rows))], [name for name, _, _ in rows])
    axes.tick_params(axis="y", length=0, labelsize=8.5)
    axes.set_xticks(range(0, SM_REGISTERS + 1, 16_384), [f"{tick:,}" for tick in range(0, SM_REGISTERS + 1, 16_384)])
    name_axes(axes, "registers, each segment a warpgroup: 128 threads times what a thread has")
    return figure


def _plan_text(entry, after, pool):
    """One plan in words, with the verdict of setmaxnreg.inc."""
    total = sum(after) * GROUP_THREADS
    fits = "fits" if total <= pool else f"exceeds the block's {pool:,}, so that setmaxnreg.inc never returns"
    start = f"{entry} a thread at entry, {pool:,} in all"
    return f"{start}; then {', '.join(map(str, after))}, {total:,} in all, which {fits}"


def _draw_groups(axes, y, registers, pool):
    """One bar: warpgroups from the left, the producer last; what exceeds the block's own registers is outlined."""
    left = 0
    for number, count in enumerate(registers):
        width, producer = count * GROUP_THREADS, number == len(registers) - 1
        look = {"facecolor": SKY if producer else BLUE, "hatch": HATCHES[1] if producer else "", "alpha": 0.55}
        box(axes, (left, y - 0.36), width, 0.72, edgecolor=INK, linewidth=0.8, **look)
        name = "producer" if producer else f"consumer {number}"
        text = f"{name}: {count}" if width > 9_000 else f"{count}"
        label(axes, (left + width / 2, y), text, size=8, pad=0.8 if producer else None)
        left += width
    if left > pool:
        box(axes, (pool, y - 0.36), left - pool, 0.72, fill=False, edgecolor=INK, linewidth=2, linestyle=":")
        label(axes, (left + 400, y), f"{left - pool:,}\ntoo many", size=7.5, ha="left")
    elif left < SM_REGISTERS:
        label(axes, (SM_REGISTERS + 400, y), f"{SM_REGISTERS - left:,}\nunused", size=7.5, ha="left")


def register_share_picture(tiles=TILES):
    """What the registers of one consumer thread hold: a bar for each tile, with its accumulators, scores and weights.

    Parameters
    ----------
    tiles : sequence of (title, registers of the thread, block_n, head_dim)
    """
    shares = [(title, total, register_share(total, *sizes)) for title, total, *sizes in tiles]
    alt_text = "; ".join(
        f"{title}, {total} registers: {', '.join(f'{part} {count}' for part, count in share.items())}"
        for title, total, share in shares
    )
    figure = Picture(8.4, 0.5 * len(tiles) + 0.7, f"Registers of a thread of a consumer warpgroup. {alt_text}.")
    _draw_shares(figure.subplots(), shares)
    return figure


def warp_share(num_registers, block_n, head_dim, *, q_columns):
    """What a thread of the mma.m16n8k16 kernels holds, 32 query rows a warp: {part: registers}.

    Parameters
    ----------
    num_registers : int, of the thread
    block_n, head_dim : int; scores are 32 x block_n and acc is 32 x head_dim, both in fp32, over 32 lanes
    q_columns : int, columns of Q that are held at a time, in 16 bits

    Returns
    -------
    share : dict, "acc", "scores", "q", "rest"
    """
    used = {"acc": head_dim, "scores": block_n, "q": q_columns // 2}
    return {**used, "rest": num_registers - sum(used.values())}


def warp_share_picture(tiles, num_registers=255):
    """What the registers of one thread of the mma.m16n8k16 kernels hold: a bar for each tile.

    Parameters
    ----------
    tiles : sequence of (title, block_n, head_dim, columns of Q that are held at a time)
    num_registers : int, of a thread; 255 is the most it may have
    """
    shares = [
        (title, num_registers, warp_share(num_registers, block_n, head_dim, q_columns=columns))
        for title, block_n, head_dim, columns in tiles
    ]
    alt_text = "; ".join(
        f"{title}: {', '.join(f'{part} {count}' for part, count in share.items())}" for title, _, share in shares
    )
    figure = Picture(8.4, 0.5 * len(tiles) + 0.7, f"{num_registers} registers of a thread, 32 rows a warp. {alt_text}.")
    _draw_shares(figure.subplots(), shares)
    return figure


def _draw_shares(axes, shares):
    """A bar for each (title, registers of the thread, {part: registers})."""
    for row, (_, total, share) in enumerate(shares):
        left = 0
        for part, colour, hatch in (look for look in _PARTS if look[0] in share):
            width = max(share[part], 0)
            look = {"facecolor": colour, "hatch": hatch, "alpha": 0.6, "edgecolor": INK, "linewidth": 0.7}
            box(axes, (left, row - 0.36), width, 0.72, **look)
            if width:
                label(axes, (left + width / 2, row), f"{part} {width}", size=8, pad=0.8)
            left += width
        axes.plot([total, total], [row - 0.45, row + 0.45], color=INK, linewidth=2)
        if share["rest"] <= 0:
            words = f"{-share['rest']} too many: they spill" if share["rest"] else "nothing is left"
            label(axes, (left + 3, row), words, size=8, ha="left")
    most = max(total - min(share["rest"], 0) for _, total, share in shares)
    axes.set(xlim=(0, 1.02 * most), ylim=(len(shares) - 0.4, -0.6))
    clean(axes)
    axes.set_yticks(range(len(shares)), [f"{title}\n{total} registers" for title, total, _ in shares])
    axes.tick_params(axis="y", length=0, labelsize=8.5)
    name_axes(axes, "32-bit registers of a thread")

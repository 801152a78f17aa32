"""One GPU as a diagram: its SMs, one of them enlarged, the L2 cache and the device memory, with sizes and rates.

May import: style, drawing, matplotlib.
"""

from .drawing import arrow, box, canvas, label
from .style import BLUE, GREY, INK, LIGHT_BLUE, LIGHT_GREEN, LIGHT_ORANGE, ORANGE, PALE, SKY, Picture

WARP_SIZE, WARPS_AT_ONCE = 32, 4  # an SM has four schedulers, each of which issues one warp in a cycle
_COLUMNS = 12  # of the grid of SMs
_LEFT, _SM = (0, 46), (56, 100)  # left and right edges of the chip and of the enlarged SM


def chip_picture(gpu, levels):
    """The chip with all its SMs, one SM enlarged, and the memories outside, nearest at the top.

    Parameters
    ----------
    gpu : a row of course_lib.device.KNOWN_GPUS
    levels : its levels, as ``course_lib.measure.memory_levels`` gives them: registers, shared memory, L2, device
        memory, host
    """
    _, shared, l2, memory, host = levels
    registers = 4 * gpu.registers_per_sm // 1024
    words = {
        "registers": f"{registers} KiB",
        "shared": f"{gpu.shared_bytes_per_sm // 1024} KiB",
        "l2": f"{gpu.l2_bytes >> 20} MiB{_wait(l2)}",
        "memory": f"{gpu.memory_bytes / 1e9:.0f} GB, {gpu.memory_gbps:,.0f} GB/s{_wait(memory)}",
    }
    warps = gpu.threads_per_sm // WARP_SIZE
    figure = Picture(
        8.6,
        4.7,
        f"Diagram of {gpu.name}. The chip has {gpu.num_sms} SMs, which share one L2 cache of {words['l2']}; below it, "
        f"outside the chip, device memory of {words['memory']}, and the host over PCIe at {host.gbps:,.0f} GB/s. One "
        f"SM enlarged: four parts, each issues one warp of {WARP_SIZE} threads in a cycle; registers of "
        f"{words['registers']} in all four; shared memory of up to {words['shared']} with the L1 cache in the same "
        f"storage{_wait(shared)}. An SM holds up to {gpu.threads_per_sm:,} threads, which are {warps} warps.",
    )
    axes = figure.subplots()
    canvas(axes, (-0.5, 100.5), (-0.5, 57))
    _draw_chip(axes, gpu, words)
    _draw_sm(axes, gpu, words, _wait(shared))
    label(axes, (_SM[0], 5.2), f"The host's memory is behind PCIe: {host.gbps:,.0f} GB/s.", size=8.5, ha="left")
    return figure


def _wait(level):
    """The latency of a level in words, if it is known."""
    return f", {level.cycles:,.0f} cycles" if level.cycles else ""


def _draw_chip(axes, gpu, words):
    """All SMs, L2 under them, and the device memory outside the chip."""
    left, right = _LEFT
    box(axes, (left, 13), right - left, 40, facecolor="white", edgecolor=INK, linewidth=1.3)
    label(axes, (left, 55), f"the chip: {gpu.num_sms} SMs", size=10, ha="left")
    rows = -(-gpu.num_sms // _COLUMNS)
    width, height = 44 / _COLUMNS, 29 / rows
    for number in range(gpu.num_sms):
        row, column = divmod(number, _COLUMNS)
        corner = (left + 1 + column * width, 52 - (row + 1) * height)
        look = (
            {"facecolor": SKY, "edgecolor": INK}
            if number == _COLUMNS - 1
            else {"facecolor": LIGHT_BLUE, "edgecolor": GREY}
        )
        box(axes, corner, 0.86 * width, 0.8 * height, linewidth=0.7, **look)
    box(axes, (left + 1, 14.5), 43.7, 6, facecolor=LIGHT_ORANGE, edgecolor=ORANGE)
    label(axes, (23, 17.5), f"L2 cache: {words['l2']}")
    box(axes, (left, 1), right - left, 7.5, facecolor=PALE, edgecolor=INK, hatch="..", linewidth=0.8)
    label(axes, (23, 4.75), f"device memory (HBM): {words['memory']}", pad=1.5)
    arrow(axes, (23, 8.6), (23, 14.4), arrowstyle="<|-|>", shrinkA=0, shrinkB=0)
    arrow(axes, (23, 20.6), (23, 23.4), arrowstyle="<|-|>", shrinkA=0, shrinkB=0)
    for y, target in ((52, 53), (52 - 0.8 * height, 13)):  # the marked SM is the enlarged one
        axes.plot([right - 1.5, _SM[0]], [y, target], color=GREY, linewidth=0.9, linestyle=":")


def _draw_sm(axes, gpu, words, wait):
    """One SM: four parts with their lanes and registers, shared memory under all of them."""
    left, right = _SM
    box(axes, (left, 13), right - left, 40, facecolor="white", edgecolor=INK, linewidth=1.3)
    warps = gpu.threads_per_sm // WARP_SIZE
    label(axes, (left, 55), f"one SM: up to {warps} warps = {gpu.threads_per_sm:,} threads", size=10, ha="left")
    width = (right - left - 2) / WARPS_AT_ONCE
    for part in range(WARPS_AT_ONCE):
        x = left + 1 + part * width
        box(axes, (x, 26), 0.94 * width, 26, facecolor="white", edgecolor=GREY)
        label(axes, (x + 0.47 * width, 50), "one warp", size=8)
        for lane in range(WARP_SIZE):
            corner = (x + 0.6 + lane % 8 * 1.1, 46.2 - lane // 8 * 2.3)
            box(axes, corner, 0.9, 1.9, facecolor=SKY, edgecolor=BLUE, linewidth=0.4)
        label(axes, (x + 0.47 * width, 37), "32 lanes", size=8)
        box(axes, (x + 0.6, 27), 0.94 * width - 1.2, 7.5, facecolor=LIGHT_BLUE, edgecolor=BLUE)
        label(axes, (x + 0.47 * width, 30.75), "registers", size=8)
    label(
        axes, ((left + right) / 2, 23.7), f"registers: {words['registers']} in all four, each thread its own", size=8.5
    )
    box(axes, (left + 1, 14.5), right - left - 2.6, 7, facecolor=LIGHT_GREEN, edgecolor=INK)
    text = f"shared memory: up to {words['shared']}{wait}\nfor the threads of a block; L1 in the same storage"
    label(axes, ((left + right) / 2, 18), text, size=8.5)

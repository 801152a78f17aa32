"""The roofline picture.

May import: style, matplotlib.
"""

from .style import BLUE, GREY, INK, ORANGE, PALE, SERIES, Picture, clean, name_axes

MARKERS = ("o", "s", "^", "D", "v")
_NEAR = 6.0  # points less than this factor apart would write over each other


def roofline(machine, points, *, peak_tflops, memory_gbps):
    """Attainable TFLOP/s against FLOP per byte, with kernels on it.

    Parameters
    ----------
    machine : str, shown as the title
    points : dict, name -> (FLOP per byte, TFLOP/s reached or None); None marks the place under the roof
    peak_tflops : 10^12 FLOP per second
    memory_gbps : 10^9 bytes per second
    """
    ridge = peak_tflops * 1000 / memory_gbps
    told = "; ".join(f"{name} at {intensity:.3g} FLOP per byte" for name, (intensity, _) in points.items())
    rates = f"{peak_tflops:g} TFLOP/s, {memory_gbps:g} GB/s"
    figure = Picture(6.4, 3.4, f"Roofline of {machine}: {rates}, ridge at {ridge:.3g} FLOP per byte. {told}.")
    axes = figure.subplots()
    low = min([ridge, *(intensity for intensity, _ in points.values())]) / 8
    high = max([ridge, *(intensity for intensity, _ in points.values())]) * 8
    axes.plot([low, ridge], [low * memory_gbps / 1000, peak_tflops], color=BLUE, linewidth=2)
    axes.plot([ridge, high], [peak_tflops, peak_tflops], color=ORANGE, linewidth=2, linestyle=(0, (6, 2)))
    axes.text(ridge / 1.15, peak_tflops * 1.5, "memory bandwidth limits", ha="right", fontsize=9, color=INK)
    axes.text(ridge * 1.15, peak_tflops * 1.5, "arithmetic limits", ha="left", fontsize=9, color=INK)
    for number, (name, (intensity, reached)) in enumerate(points.items()):
        height = min(peak_tflops, intensity * memory_gbps / 1000) if reached is None else reached
        axes.plot(
            intensity,
            height,
            MARKERS[number % len(MARKERS)],
            color=SERIES[number % len(SERIES)],
            markersize=8,
            markeredgecolor=INK,
            markerfacecolor="none" if reached is None else None,
        )
        look = _label(intensity, height >= peak_tflops, [value for value, _ in points.values()])
        axes.annotate(name, (intensity, height), textcoords="offset points", fontsize=9, color=INK, **look)
    axes.axvline(ridge, color=GREY, linewidth=0.8, linestyle=":")
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(None, peak_tflops * 3))
    name_axes(axes, "FLOP per byte of memory traffic", "TFLOP/s", machine)
    clean(axes)
    axes.grid(color=PALE, linewidth=0.5)
    return figure


def _label(intensity, on_the_roof, all_of_them):
    """Where a name stands: below on the right; level or out of the way when another point is near."""
    if sum(other == intensity for other in all_of_them) > 1:  # one above the other: each name level with its mark
        return {"xytext": (9, -3), "ha": "left"}
    crowded = any(intensity < other < _NEAR * intensity for other in all_of_them)
    if not crowded:
        return {"xytext": (9, -11), "ha": "left"}
    return {"xytext": (0, -25), "ha": "center"} if on_the_roof else {"xytext": (-9, 5), "ha": "right"}

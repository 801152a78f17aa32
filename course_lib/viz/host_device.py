"""Host and device on a time axis: kernels that the host launches one by one, and the same kernels from a graph.

May import: style, matplotlib.
"""

from matplotlib.patches import Rectangle

from .style import BLUE, GREY, HATCHES, INK, ORANGE, Picture, clean, name_axes

_HOST, _DEVICE = "host", "device"
_LOOKS = {_HOST: {"facecolor": ORANGE, "hatch": HATCHES[1]}, _DEVICE: {"facecolor": BLUE, "hatch": ""}}


def launch_steps(num_kernels, launch, kernel, *, graph):
    """Who does what when: [(lane, number, start, end)].

    Parameters
    ----------
    num_kernels : int
    launch, kernel : float, what the host needs to launch once and what a kernel runs, in any unit
    graph : bool; one launch starts all kernels
    """
    steps, free = [], 0.0
    for number in range(num_kernels):
        launched = launch if graph else (number + 1) * launch
        if number == 0 or not graph:
            steps.append((_HOST, number, launched - launch, launched))
        start = max(launched, free)
        free = start + kernel
        steps.append((_DEVICE, number, start, free))
    return steps


def launch_picture(num_kernels=6, launch=1.6, kernel=1.0):
    """Two time axes, one above the other: a launch for each kernel, and one launch of a graph that holds them.

    Parameters
    ----------
    num_kernels, launch, kernel : as in `launch_steps`; the bars are a drawing, not a measurement
    """
    walks = {
        "a launch for each kernel": launch_steps(num_kernels, launch, kernel, graph=False),
        "one launch of a graph": launch_steps(num_kernels, launch, kernel, graph=True),
    }
    ends = {name: steps[-1][3] for name, steps in walks.items()}
    told = "; ".join(f"{name}: {end:.3g}" for name, end in ends.items())
    sizes = f"A launch takes the host {launch:g}, a kernel runs {kernel:g}"
    figure = Picture(
        8.2, 2.9, f"{num_kernels} kernels on a time axis, a drawing and not a measurement. {sizes}. End: {told}."
    )
    for axes, (name, steps) in zip(figure.subplots(2, 1, sharex=True), walks.items(), strict=True):
        for lane, number, start, end in steps:
            y = 1 if lane == _HOST else 0
            axes.add_patch(Rectangle((start, y), end - start, 0.8, edgecolor=INK, alpha=0.6, **_LOOKS[lane]))
            words = "graph" if lane == _HOST and name.endswith("graph") else f"{number + 1}"
            box = {"facecolor": "white", "pad": 1.0, "lw": 0}
            at = ((start + end) / 2, y + 0.4)
            axes.text(*at, words, ha="center", va="center", fontsize=8, color=INK, bbox=box)
        axes.axvline(ends[name], color=GREY, linewidth=1, linestyle=":")
        axes.set_xlim(0, max(ends.values()) * 1.02)
        axes.set_ylim(-0.15, 1.95)
        clean(axes, bottom=False)
        axes.set_yticks([0.4, 1.4], [_DEVICE, _HOST])
        name_axes(axes, "", "", name)
    axes.set_xlabel("time", fontsize=9, color=INK)
    return figure

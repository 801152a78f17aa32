"""What the memory of a KV cache holds, on average: one bar a scheme, split by kind.

May import: style, matplotlib.
"""

from .style import BLUE, GREEN, HATCHES, INK, ORANGE, PALE, PURPLE, Picture, clean, name_axes

_KINDS = (  # key, words, colour, hatch
    ("tokens", "tokens", BLUE, HATCHES[0]),
    ("later", "will be used", GREEN, HATCHES[2]),
    ("never", "never used", ORANGE, HATCHES[1]),
    ("holes", "free, in holes too small", PURPLE, HATCHES[3]),
    ("free", "free", "white", HATCHES[0]),
)
_LEAST = 0.055  # a narrower part has no room for its number


def memory_use_bars(shares, *, title=""):
    """Stacked bars that add up to the whole memory.

    Parameters
    ----------
    shares : dict, name -> {"tokens", "later", "never", "holes", "free": share of the memory, 0 to 1}; as
        ``course_lib.kv.Use.shares`` gives them
    """
    told = "; ".join(f"{name}: {_say(parts)}" for name, parts in shares.items())
    figure = Picture(7.8, 0.42 * len(shares) + 1.25, f"What the memory holds, in percent. {told}.")
    axes = figure.subplots()
    for row, parts in enumerate(shares.values()):
        left = 0.0
        for key, words, colour, hatch in _KINDS:
            width = 100 * parts[key]
            label = words if row == 0 and any(other[key] for other in shares.values()) else None
            axes.barh(row, width, 0.66, left, color=colour, hatch=hatch, edgecolor=INK, linewidth=0.6, label=label)
            if parts[key] >= _LEAST:
                box = {"facecolor": "white", "edgecolor": "none", "pad": 1.2}
                axes.text(
                    left + width / 2, row, f"{width:.0f}", ha="center", va="center", fontsize=8, color=INK, bbox=box
                )
            left += width
    axes.set_yticks(range(len(shares)), list(shares))
    axes.set_xlim(0, 100)
    axes.invert_yaxis()
    name_axes(axes, "% of the memory", title=title)
    figure.legend(loc="outside lower center", fontsize=8, frameon=False, ncols=5)
    clean(axes)
    axes.tick_params(axis="y", labelsize=9, length=0)
    axes.grid(axis="x", color=PALE, linewidth=0.6)
    axes.set_axisbelow(True)
    return figure


def _say(parts):
    return ", ".join(f"{words} {100 * parts[key]:.0f}" for key, words, _, _ in _KINDS if parts[key] >= 0.005)

"""What is in a page and who asks for it: two layouts, new queries over a cache, one byte per number.

May import: style, drawing, matplotlib.
"""

from .drawing import box, canvas, fill, label
from .style import BLUE, GREY, HATCHES, INK, LIGHT_BLUE, ORANGE, PALE, VERMILION, Picture


def layout_rows(page_size, num_kv_heads, layout):
    """(slot, head) of each row of a page in the order of memory; layout "NHD" or "HND"."""
    if layout == "NHD":
        return [(slot, head) for slot in range(page_size) for head in range(num_kv_heads)]
    return [(slot, head) for head in range(num_kv_heads) for slot in range(page_size)]


def layouts_picture(page_size=4, num_kv_heads=3):
    """The rows of one page in the order of memory, in both layouts; colours are heads.

    Parameters
    ----------
    page_size, num_kv_heads : int, at most 16 rows in all
    """
    orders = {layout: layout_rows(page_size, num_kv_heads, layout) for layout in ("NHD", "HND")}
    said = "; ".join(
        f"{layout}: " + ", ".join(f"slot {s} head {h}" for s, h in rows) for layout, rows in orders.items()
    )
    figure = Picture(
        8.4, 1.9, f"Rows of a page of {page_size} tokens and {num_kv_heads} heads in the order of memory. {said}."
    )
    axes = figure.subplots()
    width = 20 / (page_size * num_kv_heads)
    groups = {"NHD": (num_kv_heads, "token"), "HND": (page_size, "head")}
    for top, (layout, rows) in zip((0.4, 3.0), orders.items(), strict=True):
        size, noun = groups[layout]
        label(axes, (-0.3, top + 0.5), layout, size=10, ha="right")
        for i, (slot, head) in enumerate(rows):
            box(axes, (i * width, top), width, 1.0, linewidth=0.8, **fill(head, 0.5))
            label(axes, ((i + 0.5) * width, top + 0.5), f"t{slot} h{head}", size=8, pad=0.8)
        for i in range(0, len(rows), size):
            axes.plot([i * width + 0.06, (i + size) * width - 0.06], [top + 1.25] * 2, color=INK, linewidth=1.2)
            label(axes, ((i + size / 2) * width, top + 1.6), f"one {noun}", size=8)
    canvas(axes, (-1.9, 20.2), (5.0, 0.1))
    return figure


def visible(num_new, seq_len):
    """How many keys each of the last `num_new` tokens of a sequence sees: causal, aligned to the bottom right."""
    return [seq_len - num_new + i + 1 for i in range(num_new)]


def new_queries_picture(sequences):
    """New queries of each sequence over its keys in pages: filled where a query sees a key.

    Parameters
    ----------
    sequences : dict, name -> (new tokens, all tokens), about 20 tokens at most
    """
    said = []
    for name, (new, tokens) in sequences.items():
        first, *_, last = [*visible(new, tokens)] * 2
        said.append(f"{name}: {new} new of {tokens} tokens, each sees {first} to {last} keys")
    alt_text = f"One launch for all, the mask aligned to the bottom right. {'; '.join(said)}."
    widths = [tokens for _, tokens in sequences.values()]
    figure = Picture(8.4, 0.17 * max(new for new, _ in sequences.values()) + 1.1, alt_text)
    panels = figure.subplots(1, len(sequences), squeeze=False, width_ratios=[width + 2 for width in widths])[0]
    tall = max(new for new, _ in sequences.values())
    for axes, (name, (new, tokens)) in zip(panels, sequences.items(), strict=True):
        for row, count in enumerate(visible(new, tokens)):
            for key in range(tokens):
                old = key < tokens - new
                look = {"facecolor": LIGHT_BLUE if old else BLUE, "edgecolor": GREY, "hatch": "" if old else HATCHES[1]}
                if key >= count:
                    look = {"facecolor": "white", "edgecolor": PALE}
                box(axes, (key, row), 1, 1, linewidth=0.5, **look)
        label(axes, (tokens / 2, new + 0.7), f"{tokens} keys", size=8, va="top")
        canvas(axes, (-0.5, tokens + 0.5), (tall + 2.0, -0.3), equal=True)
        axes.set_title(name, fontsize=9.5, color=INK, loc="left")
    return figure


def e4m3_values(largest, scale):
    """The positive e4m3 numbers times `scale`, up to `largest`."""
    values = [m / 8 * 2.0**-6 for m in range(1, 8)]  # subnormal
    values += [
        (1 + m / 8) * 2.0**e for e in range(-6, 9) for m in range(8) if not (e == 8 and m == 7)
    ]  # that one is NaN
    return [value * scale for value in values if value * scale <= largest * (1 + 1e-9)]


def byte_steps_picture(largest=1.0):
    """The positive numbers that one byte can hold, in int8 and in e4m3, scaled so that the largest is the same.

    Parameters
    ----------
    largest : float, of the row
    """
    int8 = [largest * i / 127 for i in range(1, 128)]
    e4m3 = e4m3_values(largest, largest / 448)
    steps = {"int8": int8, "e4m3": e4m3}
    gaps = {name: (values[-1] - values[-2], _gap_at(values, largest / 16)) for name, values in steps.items()}
    said = "; ".join(f"{name}: {100 * top / largest:.2g} % of the largest at the top, {100 * low / largest:.2g} % at a "
                     f"sixteenth of it" for name, (top, low) in gaps.items())  # fmt: skip
    figure = Picture(
        8.4, 1.8, f"The positive numbers of one byte, a line each, from 0 to the largest of a row. Steps: {said}."
    )
    for axes, (name, values), colour in zip(
        figure.subplots(2, 1, sharex=True), steps.items(), (BLUE, ORANGE), strict=True
    ):
        axes.vlines(values, 0, 1, color=colour, linewidth=0.9)
        axes.plot([0, largest], [0, 0], color=INK, linewidth=0.8)
        for share in (1 / 16, 1):
            axes.plot([share * largest] * 2, [0, 1.15], color=VERMILION, linewidth=1, linestyle=":")
        top, low = gaps[name]
        low, top = 100 * low / largest, 100 * top / largest
        words = f"{name}: steps of {low:.2g} % at 1/16 of the largest, {top:.2g} % at the top"
        canvas(axes, (-0.01 * largest, 1.01 * largest), (-0.05, 1.2), title=words)
    return figure


def _gap_at(values, point):
    """The distance of the neighbours around `point`."""
    above = next(i for i, value in enumerate(values) if value > point * (1 + 1e-9))
    return values[above] - values[above - 1]

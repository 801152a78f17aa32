"""A language model as boxes: its operations in order, and which chapter builds each.

May import: style, drawing, matplotlib.
"""

from .drawing import arrow, box, canvas, fill, label
from .style import INK, Picture

_STEPS = (  # (words above, operation, kind): kind 0 moves bytes, 1 multiplies, 2 is attention
    ("ids", "embedding", 0),
    ("x", "norm", 0),
    ("", "qkv", 1),
    ("q, k, v", "attention", 2),
    ("", "out", 1),
    ("+ x", "norm", 0),
    ("", "up", 1),
    ("", "GELU", 0),
    ("", "down", 1),
    ("+ x", "norm", 0),
    ("", "head", 1),
)
_KINDS = ("one read, one write: chapter 12", "matrix product: chapter 04", "attention: chapters 07 to 11")


def block_picture(num_layers=12):
    """The operations of GPT-2 in order, those of a layer in a frame; the residual stream passes below them."""
    names = ", ".join(name for _, name, _ in _STEPS)
    alt_text = (
        f"The operations of GPT-2 from left to right: {names}. Norm to down, with the cache of keys and values beside "
        f"attention, are a layer, which is there {num_layers} times. The residual stream x passes below: attention and "
        "the MLP read its norm and are added to it."
    )
    figure = Picture(9.4, 2.7, alt_text)
    axes = figure.subplots()
    box(axes, (1.4, -0.75), 13.4, 3.05, facecolor="none", edgecolor=INK, linewidth=0.8, linestyle="--")
    label(axes, (8.3, -1.1), f"a layer, {num_layers} times")
    for at, (above, name, kind) in enumerate(_STEPS):
        left = at * 1.65 + 0.3 * (at > 8) - 0.3 * (at < 1)
        box(axes, (left, 0.0), 1.35, 0.8, linewidth=0.7, **fill(kind, 0.55))
        label(axes, (left + 0.68, 0.4), name, size=8)
        label(axes, (left + 0.68, -0.35), above, size=8)
        if at < len(_STEPS) - 1:
            arrow(
                axes, (left + 1.35, 0.4), (left + (1.95 if at in (0, 8) else 1.65), 0.4), shrinkA=0, shrinkB=0, size=7
            )
    arrow(axes, (0.4, 1.75), (15.6, 1.75), shrinkA=0, shrinkB=0)
    label(axes, (8.3, 2.05), "residual stream x, (num_tokens, hidden_size)", size=8.5)
    for at in (1, 5):  # read by the norms
        arrow(axes, (at * 1.65 + 0.4, 1.75), (at * 1.65 + 0.4, 0.8), shrinkA=0, shrinkB=0, size=7)
    for at in (4, 8):  # what is added to it
        arrow(axes, (at * 1.65 + 0.7, 0.8), (at * 1.65 + 0.7, 1.75), shrinkA=0, shrinkB=0, size=7)
    label(axes, (5.65, 1.3), "cache of k, v", size=8)
    for kind, words in enumerate(_KINDS):
        box(axes, (0.3 + 6.2 * kind, 2.75), 0.4, 0.4, linewidth=0.5, **fill(kind, 0.55))
        label(axes, (0.85 + 6.2 * kind, 2.95), words, size=8.5, ha="left")
    canvas(axes, (-0.6, 18.6), (3.3, -1.4))
    return figure

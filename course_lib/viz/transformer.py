"""Kernels around attention: a row in registers, rotary pairs and angles, a threshold, a packed word, an operator.

May import: style, drawing, matplotlib.
"""

import math

from .drawing import arrow, box, canvas, clean, fill, label, name_axes
from .style import BLUE, GREY, HATCHES, INK, LIGHT_BLUE, LIGHT_GREEN, LIGHT_ORANGE, ORANGE, PALE, Picture

_CIRCLE = 60  # points of a drawn circle


def row_chunks_picture(num_threads=8, chunks=2, vec=8):
    """A row as chunks, in each the thread that reads it; the chunks in registers, the sum of all, and the row written.

    Parameters
    ----------
    num_threads : int, that share the row
    chunks : int, of a thread
    vec : int, numbers of a chunk
    """
    total = num_threads * chunks
    mine = ", ".join(str(i * num_threads) for i in range(chunks))
    alt_text = (
        f"A row of {total * vec} numbers as {total} chunks of {vec}, shared by {num_threads} threads: thread 0 has the "
        f"chunks {mine}. Every thread reads its chunks once, keeps them in registers, adds its squares to the sum of "
        "the row, and writes the same chunks from the registers: one read, one write."
    )
    figure = Picture(8.4, 2.9, alt_text)
    axes = figure.subplots()
    width = 16 / total
    for chunk in range(total):
        for top in (0, 5.4):
            box(axes, (chunk * width, top), width, 0.9, linewidth=0.7, **fill(chunk // num_threads, 0.5))
            label(axes, ((chunk + 0.5) * width, top + 0.45), str(chunk % num_threads), size=8, pad=0.8)
    label(axes, (-0.2, 0.45), "x, one row", ha="right")
    label(axes, (-0.2, 5.85), "out", ha="right")
    label(axes, (8, -0.5), f"{total} chunks of {vec} numbers, in each the thread that reads it and later writes it")
    box(axes, (0, 2.2), 16, 1.7, facecolor=LIGHT_BLUE, edgecolor=BLUE)
    words = "registers: each thread keeps its chunks and the sum of their squares\n"
    label(axes, (8, 3.05), words + "shuffles, and shared memory between warps: one sum for all of them")
    for start, end, words in ((1.0, 2.1, "read once"), (4.0, 5.3, "chunk · rstd · weight, written once")):
        arrow(axes, (8, start), (8, end), shrinkA=0, shrinkB=0)
        label(axes, (8.3, (start + end) / 2), words, ha="left")
    canvas(axes, (-2.2, 16.3), (6.5, -1.0))
    return figure


def rotary_pairs(rotary_dim, interleaved):
    """[(first, second)] of the numbers of a head that one angle turns."""
    half = rotary_dim // 2
    return [(2 * i, 2 * i + 1) if interleaved else (i, i + half) for i in range(half)]


def pairings_picture(rotary_dim=8):
    """The pairs of a head in both styles: neighbours, and the two halves."""
    styles = {"half-split (Llama, GPT-NeoX)": False, "interleaved (GPT-J)": True}
    said = "; ".join(
        f"{name}: " + ", ".join(f"({a}, {b})" for a, b in rotary_pairs(rotary_dim, interleaved))
        for name, interleaved in styles.items()
    )
    figure = Picture(8.2, 2.5, f"Which numbers of a head of {rotary_dim} form a pair. {said}.")
    for axes, (name, interleaved) in zip(figure.subplots(1, 2), styles.items(), strict=True):
        for pair, (a, b) in enumerate(rotary_pairs(rotary_dim, interleaved)):
            for number in (a, b):
                box(axes, (number, 0), 1, 1, **fill(pair, 0.5))
                label(axes, (number + 0.5, 0.5), str(number), pad=0.8)
            height = 0.35 + 0.25 * (0 if interleaved else pair + 1)
            axes.plot([a + 0.5] * 2 + [b + 0.5] * 2, [0, -height, -height, 0], color=INK, linewidth=1.1)
            label(axes, ((a + b + 1) / 2, -height), f"pair {pair}", size=7.5, pad=0.8)
        canvas(axes, (-0.2, rotary_dim + 0.2), (1.2, -1.9), title=name)
    return figure


def rotary_angles(rotary_dim, position, base=10000.0):
    """Radians by which each pair of a head at `position` is turned."""
    return [position * base ** (-2 * i / rotary_dim) for i in range(rotary_dim // 2)]


def rotation_picture(rotary_dim=8, positions=(0, 1, 2, 3), base=10000.0):
    """A circle for each pair: the same pair of numbers at several positions.

    Parameters
    ----------
    rotary_dim : int, even; a panel for each of its pairs
    positions : sequence of int
    base : float
    """
    last = rotary_angles(rotary_dim, positions[-1], base)
    said = ", ".join(f"pair {i} by {angle:.3g}" for i, angle in enumerate(last))
    alt_text = (
        f"The pairs of a head of {rotary_dim} as arrows in the plane, at positions {', '.join(map(str, positions))}; "
        f"each is turned by position times its own frequency. Radians at position {positions[-1]}: {said}. "
        "The length of an arrow stays."
    )
    figure = Picture(8.4, 2.35, alt_text)
    for pair, axes in enumerate(figure.subplots(1, rotary_dim // 2)):
        points = [2 * math.pi * k / _CIRCLE for k in range(_CIRCLE + 1)]
        axes.plot([math.cos(t) for t in points], [math.sin(t) for t in points], color=PALE, linewidth=1)
        for number, position in enumerate(positions):
            angle = 0.25 + rotary_angles(rotary_dim, position, base)[pair]  # the pair itself points 0.25 up
            tip = (math.cos(angle), math.sin(angle))
            look = {"color": BLUE if number else INK, "linestyle": "-" if number else (0, (4, 2))}
            arrow(axes, (0, 0), tip, shrinkA=0, shrinkB=0, **look)
            if number == 0 or angle - 0.25 > 0.25:  # a name where it is clear of the one before
                label(axes, (1.22 * tip[0], 1.22 * tip[1]), str(position), size=8)
        frequency = rotary_angles(rotary_dim, 1, base)[pair]
        canvas(axes, (-1.45, 1.45), (-1.45, 1.45), title=f"pair {pair}: {frequency:g} rad a token", equal=True)
    return figure


def loss_blocks_picture(num_rows=4, parts=3):
    """Cross-entropy: which logits a block reads, forward and backward, and what it writes.

    Parameters
    ----------
    num_rows : int, rows of logits
    parts : int, blocks that share a row backward
    """
    alt_text = (
        f"Forward, {num_rows} blocks: each reads a row of logits in chunks, carries (m, l), and writes lse and loss. "
        f"Backward, {num_rows * parts} blocks: each reads a part of a row and lse, and writes the gradient there."
    )
    figure = Picture(8.4, 2.5, alt_text)
    forward, backward = figure.subplots(1, 2)
    for axes, blocks, writes in ((forward, 1, "lse, loss"), (backward, parts, "gradient, in place")):
        for row in range(num_rows):
            for part in range(blocks):
                box(axes, (9 * part / blocks, row), 9 / blocks - 0.1, 0.85, **fill(row * blocks + part, 0.5))
                label(axes, (9 * (part + 0.5) / blocks, row + 0.43), f"block {row * blocks + part}", size=8, pad=0.8)
            if blocks == 1:
                arrow(axes, (9, row + 0.43), (10, row + 0.43), shrinkA=0, shrinkB=0)
                label(axes, (10.1, row + 0.43), writes, ha="left", size=8)
            else:
                arrow(axes, (10, row + 0.43), (9, row + 0.43), shrinkA=0, shrinkB=0)
                label(axes, (10.1, row + 0.43), "lse of the row", ha="left", size=8)
        title = "forward: a block has a row" if blocks == 1 else f"backward: reads logits, writes the {writes}"
        canvas(axes, (-0.2, 13), (num_rows + 0.1, -0.2), title=title)
    return figure


def thresholds(probs, top_p, passes):
    """[(threshold, sum of what is above)] of an interval that is halved `passes` times, and the interval."""
    low, high, tried = 0.0, max(probs), []
    for _ in range(passes):
        middle = (low + high) / 2
        above = sum(prob for prob in probs if prob > middle)
        low, high = (low, middle) if above < top_p else (middle, high)
        tried.append((middle, above))
    return tried, low, high


def threshold_picture(probs, top_p, passes=4):
    """The probabilities of a row, in the order of its tokens, and the thresholds that are tried one after the other.

    Parameters
    ----------
    probs : sequence of float, whose sum is 1
    top_p : float
    passes : int, over the row
    """
    tried, low, _ = thresholds(probs, top_p, passes)
    said = "; ".join(f"above {middle:.3f} the sum is {above:.2f}" for middle, above in tried)
    kept = [token for token, prob in enumerate(probs) if prob > low]
    alt_text = (
        f"The probabilities of {len(probs)} tokens, unsorted, and {passes} thresholds for top_p {top_p}: {said}. "
        f"Kept are the tokens {', '.join(map(str, kept))}."
    )
    figure = Picture(8.4, 2.9, alt_text)
    axes = figure.subplots()
    for token, prob in enumerate(probs):
        look = {"facecolor": BLUE} if token in kept else {"facecolor": ORANGE, "hatch": HATCHES[1]}
        axes.bar(token, prob, width=0.8, edgecolor=INK, linewidth=0.7, **look)
    for number, (middle, above) in enumerate(tried, 1):
        words = "too low" if above >= top_p else "high enough"
        axes.plot([-0.6, len(probs) - 0.4], [middle, middle], color=INK, linewidth=0.8, linestyle=(0, (4, 2)))
        label(axes, (len(probs) - 0.3, middle), f"{number}. above: {above:.2f}, {words}", ha="left", size=8)
    axes.set(xlim=(-0.6, len(probs) + 4.5), xticks=range(len(probs)))
    clean(axes)
    name_axes(axes, "token (plain: kept, hatched: left out)", "probability", f"top_p {top_p}")
    return figure


def packed_word_picture(numbers=(3, 15, 9, 7, 8, 0, 12, 5)):
    """A word of 32 bits with eight numbers of four, the first in the lowest bits, and how one of them is taken out."""
    word, chosen = sum(number << (4 * j) for j, number in enumerate(numbers)), 2
    alt_text = (
        f"The word {word:#010x} as eight numbers of four bits: number j is in the bits 4 j to 4 j + 3, number 0 on the "
        f"right. Shifted right by 4 times {chosen}, number {chosen} is in the lowest four bits; & 15 keeps only these."
    )
    figure = Picture(8.4, 2.6, alt_text)
    axes = figure.subplots()
    for top, shift in ((0, 0), (1.9, chosen)):
        for j in range(8):
            number = (word >> 4 * shift >> 4 * j) & 15
            look = fill(1, 0.5) if j + shift == chosen else {"facecolor": "white", "edgecolor": INK}
            box(axes, (2 * (7 - j), top), 2, 0.8, **look)
            label(axes, (2 * (7 - j) + 1, top + 0.4), f"{number:04b}", size=8.5, pad=0.8)
            if not shift:
                label(axes, (2 * (7 - j) + 1, -0.3), f"number {j} = {number}", size=7.5)
                label(axes, (2 * (7 - j) + 1, 1.05), f"bits {4 * j + 3}–{4 * j}", size=7)
    arrow(axes, (2 * (7 - chosen) + 1, 1.25), (15, 1.9), shrinkA=0, shrinkB=0)
    label(axes, (-0.3, 0.4), "word", ha="right")
    label(axes, (-0.3, 2.3), f"word >> {4 * chosen}", ha="right")
    label(axes, (15, 3.0), "& 15", size=8.5)
    canvas(axes, (-2.6, 16.2), (3.3, -0.7))
    return figure


def token_order_picture():
    """Thirty-two numbers of a token as four lanes read them, and as wgmma wants them beside unpacked weights."""
    alt_text = (
        "32 numbers of a token, two a cell, in two orders. In global memory lane t has the eight numbers from 8 t on: "
        "pairs 0 to 3. In shared memory pair p of all four lanes is one piece of 16 bytes. The first two pieces are "
        "the k of one product, the last two of the other: lane 1 has the numbers 8 to 15, and its share of the first "
        "product is 8, 9 and 10, 11."
    )
    figure = Picture(8.4, 2.9, alt_text)
    axes = figure.subplots()
    for lane in range(4):
        label(axes, (4 * lane + 2, -0.3), f"lane {lane}", size=8)
        for pair in range(4):
            first, after = 8 * lane + 2 * pair, 4 * pair + lane
            for place, top in ((4 * lane + pair, 0), (after, 2.2)):
                box(axes, (place, top), 1, 0.8, **fill(lane, 0.45))
                label(axes, (place + 0.5, top + 0.4), f"{first} {first + 1}", size=7.5, pad=0.5)
            if lane == 1:
                arrow(axes, (4 * lane + pair + 0.5, 0.85), (after + 0.5, 2.15), shrinkA=0, shrinkB=0)
    for product in range(2):
        label(axes, (8 * product + 4, 3.4), f"product {product}: k = 0 to 15", size=8)
    label(axes, (-0.3, 0.4), "global memory", ha="right")
    label(axes, (-0.3, 2.6), "shared memory", ha="right")
    canvas(axes, (-3.2, 16.2), (3.7, -0.6))
    return figure


_PARTS = (  # who asks, which of the registered functions answers, what it must know
    ("eager call", "kernel", "launches, returns tensors"),
    ("torch.compile, export", "fake", "shape, dtype and strides, no numbers"),
    ("loss.backward()", "autograd", "what to save; the gradient, itself an operator"),
    ("order of operators", "schema", "which arguments are changed in place"),
)


def operator_picture(name="course::rms_norm"):
    """An operator as four registered parts, and which of them each user of it asks."""
    said = "; ".join(f"{user} asks the {part}: {words}" for user, part, words in _PARTS)
    figure = Picture(8.4, 2.7, f"The operator {name} and its four parts. {said}.")
    axes = figure.subplots()
    box(axes, (3.6, -0.75), 9.0, 4.95, facecolor="white", edgecolor=GREY)
    label(axes, (8.1, -0.42), name, size=9.5)
    colours = (LIGHT_BLUE, LIGHT_ORANGE, LIGHT_GREEN, "white")
    for row, ((user, part, words), colour) in enumerate(zip(_PARTS, colours, strict=True)):
        label(axes, (2.5, row + 0.4), user, ha="right")
        arrow(axes, (2.6, row + 0.4), (3.9, row + 0.4), shrinkA=0, shrinkB=0)
        box(axes, (4, row), 2, 0.8, facecolor=colour, edgecolor=INK)
        label(axes, (5, row + 0.4), part)
        label(axes, (6.3, row + 0.4), words, ha="left")
    canvas(axes, (-1.2, 12.8), (4.3, -0.9))
    return figure

"""Work of a batch on a time axis: a row for each block of a launch, a bar for each item; and keys that requests share.

May import: style, drawing, matplotlib.
"""

from matplotlib.ticker import MaxNLocator

from .drawing import box, clean, label, name_axes, plural
from .style import BLUE, HATCHES, INK, ORANGE, SERIES, Picture


def one_block_each(costs, num_blocks):
    """A launch with a block for each request: blocks start in turn on the first of `num_blocks` slots that is free.

    Parameters
    ----------
    costs : sequence of (request, cost)

    Returns
    -------
    list of [(request, cost)], one a slot
    """
    slots, ends = [[] for _ in range(num_blocks)], [0.0] * num_blocks
    for request, cost in costs:
        slot = ends.index(min(ends))
        slots[slot].append((request, cost))
        ends[slot] += cost
    return slots


def work_lists_picture(launches, unit="keys"):
    """What each block does, one item after the other; a panel for each launch, all on one axis.

    Parameters
    ----------
    launches : dict, title -> list of [(request, cost)], one a block
    unit : str, of the costs
    """
    ends = {title: [sum(cost for _, cost in block) for block in blocks] for title, blocks in launches.items()}
    told = "; ".join(
        f"{title}: {plural(len(blocks), 'block')}, the last ends at {max(ends[title]):,.0f} {unit}, the mean at "
        f"{sum(ends[title]) / len(blocks):,.0f}"
        for title, blocks in launches.items()
    )
    rows = max(len(blocks) for blocks in launches.values())
    figure = Picture(8.2, 0.7 + len(launches) * (0.55 + 0.16 * rows), f"Items of requests on blocks. {told}.")
    longest = max(max(each) for each in ends.values())
    for axes, (title, blocks) in zip(
        figure.subplots(len(launches), 1, sharex=True, squeeze=False)[:, 0], launches.items(), strict=True
    ):
        for row, block in enumerate(blocks):
            _bars(axes, row, block, longest)
        mean = sum(ends[title]) / len(blocks)
        axes.axvline(mean, color=INK, linewidth=1, linestyle=":")
        axes.set(xlim=(0, 1.02 * longest), ylim=(len(blocks) - 0.1, -0.2), yticks=[])
        clean(axes, bottom=False)
        name_axes(axes, "", "blocks", f"{title}: ends at {max(ends[title]):,.0f}, mean {mean:,.0f} (dotted)")
    axes.set_xlabel(unit, fontsize=9, color=INK)
    return figure


def _bars(axes, row, block, longest):
    start = 0.0
    for request, cost in block:
        look = {"facecolor": SERIES[request % len(SERIES)], "hatch": HATCHES[request // len(SERIES) % len(HATCHES)]}
        box(axes, (start, row), cost, 0.8, edgecolor=INK, alpha=0.6, linewidth=0.5, **look)
        if cost > 0.035 * longest:
            label(axes, (start + cost / 2, row + 0.42), f"{request}", size=7, pad=0.6)
        start += cost


def items_picture(requests, items):
    """Rows and keys of a batch, a panel for each request, with the items that cover what is visible.

    Parameters
    ----------
    requests : sequence of (new tokens, keys, rows of a token)
    items : sequence of (block, request, first row, rows, first key, end key)
    """
    shown = [number for number, (tokens, _, _) in enumerate(requests) if tokens]
    told = ", ".join(f"{sum(item[1] == number for item in items)} of request {number}" for number in shown)
    figure = Picture(8.4, 2.6, f"Rows, downwards, and keys of {plural(len(shown), 'request')}, cut into items: {told}.")
    for axes, number in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        tokens, keys, group = requests[number]
        rows = tokens * group
        for block, request, row, count, first, end in items:
            if request == number:
                box(axes, (first, row), end - first, count, facecolor=SERIES[block % 5], edgecolor=INK, alpha=0.6)
                label(axes, ((first + end) / 2, row + count / 2), f"block {block}", size=7, pad=0.6)
        steps = [(keys - tokens + token + 1, row) for token in range(tokens) for row in (token, token + 1)]
        axes.plot([key for key, _ in steps], [group * row for _, row in steps], color=INK, linewidth=1.2)
        axes.set(xlim=(0, keys * 1.02), ylim=(rows, -0.02 * rows))
        clean(axes)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        name_axes(axes, "keys", "rows" if number == shown[0] else "", f"request {number}")
    return figure


def shared_prefix_picture(num_requests=5, shared=8, own=2):
    """Which keys are read: every request all of its own, or the shared ones once for all.

    Parameters
    ----------
    num_requests, shared, own : int; tiles of keys that all requests share, and that each has besides
    """
    counts = num_requests * (shared + own), shared + num_requests * own
    alt_text = (
        f"{num_requests} requests share {plural(shared, 'tile')} of keys and have {own} each. Flat: {counts[0]} tiles "
        f"are read; in two levels {counts[1]}, since the shared tiles are read once, for the rows of all requests."
    )
    figure = Picture(8.2, 0.8 + 0.28 * num_requests, alt_text)
    flat, levels = figure.subplots(1, 2)
    for request in range(num_requests):
        for tile in range(shared + own):
            is_shared = tile < shared
            look = {"facecolor": BLUE if is_shared else ORANGE, "hatch": "" if is_shared else HATCHES[1]}
            box(flat, (tile, request), 0.86, 0.8, edgecolor=INK, alpha=0.6, **look)
            if not is_shared:
                box(levels, (tile, request), 0.86, 0.8, edgecolor=INK, alpha=0.6, **look)
    for tile in range(shared):
        box(levels, (tile, 0), 0.86, num_requests - 0.2, facecolor=BLUE, edgecolor=INK, alpha=0.6)
    for axes, title in ((flat, f"flat: {counts[0]} tiles read"), (levels, f"two levels: {counts[1]} tiles read")):
        axes.set(xlim=(-0.2, shared + own + 0.2), ylim=(num_requests + 0.1, -0.2), xticks=[], yticks=[])
        clean(axes, bottom=False)
        name_axes(axes, "tiles of keys: shared plain, own hatched", "requests", title)
    return figure

"""Sequences on pages: the logical pages of each above, the pool below, a line for every entry of the block table.

May import: style, drawing, matplotlib.
"""

from .drawing import box, canvas, label
from .style import GREY, HATCHES, INK, PALE, SERIES, Picture

_GAP = 0.55  # between two sequences; a page has the width 1
_TOP, _POOL, _HEIGHT = 1.75, 0.0, 0.62  # lower edges of both rows of pages, and the height of a page
_PAGE = 0.96  # width of a page's box


def pages_picture(sequences, page_size, num_pages, title=""):
    """One state of a pool.

    Parameters
    ----------
    sequences : dict, name -> (physical pages in the order of the tokens, number of tokens), as `PagePool.pages` and
        `PagePool.num_tokens` give them
    page_size : int, slots of a page; up to 8 are distinguishable
    num_pages : int, pages of the pool
    """
    return pages_frames([(title, sequences)], page_size, num_pages)


def pages_frames(frames, page_size, num_pages, *, among=()):
    """Several states of one pool, one above the other.

    Parameters
    ----------
    frames : sequence of (title, sequences), each as in `pages_picture`
    among : more such frames, not drawn: widths and colours are chosen so that pictures of any of them match
    """
    alt_text = " ".join(
        f"{title + ': ' if title else ''}{pool_sentence(sequences, num_pages)}" for title, sequences in frames
    )
    figure = Picture(8.4, 2.15 * len(frames), f"Sequences on pages of {page_size} slots. {alt_text}")
    names = list(dict.fromkeys(name for _, sequences in [*among, *frames] for name in sequences))
    width = max(num_pages, *(_width(sequences) for _, sequences in [*among, *frames]))
    looks = {name: (SERIES[i % 5], HATCHES[i % 5]) for i, name in enumerate(names)}
    for axes, (title, sequences) in zip(figure.subplots(len(frames), squeeze=False)[:, 0], frames, strict=True):
        _draw_sequences(axes, sequences, looks, page_size, (width - num_pages) / 2, (width - _width(sequences)) / 2)
        _draw_pool(axes, sequences, looks, page_size, num_pages, (width - num_pages) / 2)
        canvas(axes, (-0.1, width + 0.1), (-0.42, _TOP + _HEIGHT + 0.35), title=title)
    return figure


def holders(sequences):
    """Physical page -> [(name, index of the page in that sequence)]."""
    held = {}
    for name, (pages, _) in sequences.items():
        for index, page in enumerate(pages):
            held.setdefault(page, []).append((name, index))
    return held


def pool_sentence(sequences, num_pages):
    """The pages of each sequence, the shared pages and the free ones, in words."""
    held = holders(sequences)
    parts = []
    for name, (pages, tokens) in sequences.items():
        parts.append(f"{name} has {tokens} tokens on pages {', '.join(map(str, pages))}")
    parts += [f"page {page} is held by {len(owners)}" for page, owners in sorted(held.items()) if len(owners) > 1]
    free = [str(page) for page in range(num_pages) if page not in held]
    return "; ".join([*parts, f"free: {', '.join(free) or 'none'}"]) + "."


def _width(sequences):
    """The width of all their logical pages, side by side."""
    return sum(len(pages) for pages, _ in sequences.values()) + _GAP * (len(sequences) - 1)


def _draw_sequences(axes, sequences, looks, page_size, pool_left, left):
    """The logical pages of each sequence, and a line from each to its physical page."""
    for name, (pages, tokens) in sequences.items():
        label(axes, (left, _TOP + _HEIGHT + 0.08), f"{name}: {tokens} tokens", size=8.5, ha="left", va="bottom")
        for index, page in enumerate(pages):
            _draw_page(axes, left, _TOP, [(looks[name], _num_filled(index, tokens, page_size))], page_size)
            ends = [left + _PAGE / 2, pool_left + page + _PAGE / 2], [_TOP - 0.03, _POOL + _HEIGHT + 0.03]
            axes.plot(*ends, color=GREY, linewidth=0.9)
            left += 1
        left += _GAP


def _draw_pool(axes, sequences, looks, page_size, num_pages, left):
    """The physical pages, with a band for each sequence that holds one."""
    held = holders(sequences)
    for page in range(num_pages):
        owners = held.get(page, [])
        parts = [(looks[name], _num_filled(index, sequences[name][1], page_size)) for name, index in owners]
        _draw_page(axes, left + page, _POOL, parts, page_size)
        state = f", held {len(owners)}x" if len(owners) > 1 else "" if owners else ", free"
        label(axes, (left + page + _PAGE / 2, _POOL - 0.1), f"page {page}{state}", size=7.5, va="top")


def _num_filled(index, tokens, page_size):
    """Tokens in page `index` of a sequence."""
    return min(max(tokens - index * page_size, 0), page_size)


def _draw_page(axes, x, y, parts, page_size):
    """One page: a cell a slot; each sequence that holds it fills a band of the slots that have its tokens."""
    slot = _PAGE / page_size
    for number, ((colour, hatch), filled) in enumerate(parts):
        band = _HEIGHT / len(parts)
        look = {"facecolor": colour, "alpha": 0.6, "hatch": hatch, "edgecolor": INK, "linewidth": 0}
        box(axes, (x, y + _HEIGHT - (number + 1) * band), filled * slot, band, **look)
    for i in range(1, page_size):
        axes.plot([x + i * slot] * 2, [y, y + _HEIGHT], color=INK if parts else PALE, linewidth=0.5)
    box(axes, (x, y), _PAGE, _HEIGHT, facecolor="none", edgecolor=INK if parts else GREY, linewidth=1.1)

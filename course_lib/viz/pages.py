"""Sequences on pages: the logical pages of each above, the pool below, a line for every entry of the block table.

May import: style, matplotlib.
"""

from matplotlib.patches import Rectangle

from .style import GREY, HATCHES, INK, PALE, SERIES, Picture

_GAP = 0.55  # between two sequences, and beside a pool that is narrower than they are; a page has the width 1
_TOP, _POOL, _HEIGHT = 1.75, 0.0, 0.62  # where the boxes stand, and how high they are


def pages_picture(sequences, page_size, num_pages, title=""):
    """One state of a pool.

    Parameters
    ----------
    sequences : dict, name -> (physical pages in the order of the tokens, number of tokens), as `PagePool.pages` and
        `PagePool.num_tokens` give them
    page_size : int, slots of a page; up to 8 can be told apart
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
    told = " ".join(f"{title + ': ' if title else ''}{pool_sentence(*frame, num_pages)}" for title, *frame in frames)
    figure = Picture(8.4, 2.15 * len(frames), f"Sequences on pages of {page_size} slots. {told}")
    names = list(dict.fromkeys(name for _, sequences in [*among, *frames] for name in sequences))
    width = max(num_pages, *(_width(sequences) for _, sequences in [*among, *frames]))
    looks = {name: (SERIES[i % 5], HATCHES[i % 5]) for i, name in enumerate(names)}
    for axes, (title, sequences) in zip(figure.subplots(len(frames), squeeze=False)[:, 0], frames, strict=True):
        axes.set_title(title, fontsize=10, color=INK, loc="left")
        _draw(axes, sequences, looks, page_size, num_pages, width)
        axes.set_xlim(-0.1, width + 0.1)
        axes.set_ylim(-0.42, _TOP + _HEIGHT + 0.35)
        axes.axis("off")
    return figure


def holders(sequences):
    """Physical page -> [(name, place of the page in that sequence)]."""
    found = {}
    for name, (pages, _) in sequences.items():
        for place, page in enumerate(pages):
            found.setdefault(page, []).append((name, place))
    return found


def pool_sentence(sequences, num_pages):
    """The same in words."""
    held = holders(sequences)
    parts = []
    for name, (pages, tokens) in sequences.items():
        parts.append(f"{name} has {tokens} tokens on pages {', '.join(map(str, pages))}")
    parts += [f"page {page} is held by {len(who)}" for page, who in sorted(held.items()) if len(who) > 1]
    free = [str(page) for page in range(num_pages) if page not in held]
    return "; ".join([*parts, f"free: {', '.join(free) or 'none'}"]) + "."


def _width(sequences):
    """Of all their logical pages, side by side."""
    return sum(len(pages) for pages, _ in sequences.values()) + _GAP * (len(sequences) - 1)


def _draw(axes, sequences, looks, page_size, num_pages, width):
    """Both rows of boxes and the lines between them, in the middle of `width`."""
    held, shift, at = holders(sequences), (width - num_pages) / 2, (width - _width(sequences)) / 2
    for name, (pages, tokens) in sequences.items():
        axes.text(at, _TOP + _HEIGHT + 0.08, f"{name}: {tokens} tokens", fontsize=8.5, color=INK, va="bottom")
        for place, page in enumerate(pages):
            _box(axes, at, _TOP, [(looks[name], _filled(place, tokens, page_size))], page_size)
            ends = [at + 0.48, shift + page + 0.48], [_TOP - 0.03, _POOL + _HEIGHT + 0.03]
            axes.plot(*ends, color=GREY, linewidth=0.9)
            at += 1
        at += _GAP
    for page in range(num_pages):
        who = held.get(page, [])
        parts = [(looks[name], _filled(place, sequences[name][1], page_size)) for name, place in who]
        _box(axes, shift + page, _POOL, parts, page_size)
        words = f"page {page}" + (f", held {len(who)}x" if len(who) > 1 else "" if who else ", free")
        axes.text(shift + page + 0.48, _POOL - 0.1, words, fontsize=7.5, color=INK, ha="center", va="top")


def _filled(place, tokens, page_size):
    """Tokens in page `place` of a sequence."""
    return min(max(tokens - place * page_size, 0), page_size)


def _box(axes, x, y, parts, page_size):
    """One page: a cell a slot; each holder fills a band of those that have its tokens."""
    slot = 0.96 / page_size
    for number, ((colour, hatch), filled) in enumerate(parts):
        band = _HEIGHT / len(parts)
        corner = (x, y + _HEIGHT - (number + 1) * band)
        look = {"facecolor": colour, "alpha": 0.6, "hatch": hatch, "linewidth": 0}
        axes.add_patch(Rectangle(corner, filled * slot, band, edgecolor=INK, **look))
    for i in range(1, page_size):
        axes.plot([x + i * slot] * 2, [y, y + _HEIGHT], color=PALE if not parts else INK, linewidth=0.5)
    axes.add_patch(Rectangle((x, y), 0.96, _HEIGHT, facecolor="none", edgecolor=INK if parts else GREY, linewidth=1.1))

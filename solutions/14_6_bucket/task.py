"""14.6 Bucket and padding: what the judge runs."""

from course_lib.grading.subjects.plain_data import plain_exercise

from .diagnostics import MISTAKES, compared, filled, say

STALE = 5  # in the buffers before the first step: a slot, a length and a page that exist


def _step(rng, lengths, page_size, spare=0):
    """[(token, num_computed, pages), …] of requests with these lengths, the new token included."""
    needed = [-(-length // page_size) + rng.randint(0, spare) for length in lengths]
    pages = iter(rng.sample(range(3 * sum(needed) + 9), sum(needed)))
    return [
        (rng.randrange(50_000), length - 1, [next(pages) for _ in range(count)])
        for length, count in zip(lengths, needed, strict=True)
    ]


def _call(rng, steps, page_size, batch_buckets, len_buckets, spare=0):
    made = [_step(rng, lengths, page_size, spare) for lengths in steps]
    widest = max((len(pages) for step in made for _, _, pages in step), default=1)
    max_pages = max(-(-len_buckets[-1] // page_size), widest)
    return made, page_size, batch_buckets, len_buckets, max_pages, STALE


def _shrinking(rng):
    """A small batch after a large one, short requests after long ones, in the same buffers."""
    return [
        _call(rng, [[1]], 1, [1], [1]),
        _call(rng, [[9, 30, 17, 5, 2], [3, 8, 4]], 4, [1, 2, 4, 8], [16, 64]),
        _call(rng, [[60, 33, 20, 64], [5], [7, 6]], 8, [1, 2, 4], [16, 32, 64]),
        _call(rng, [[12, 1], [13, 2, 1], [14]], 3, [1, 3, 4], [12, 13, 20], spare=1),
    ]


def _borders(rng):
    """Batches and lengths at the borders of buckets and beyond the last ones."""
    sizes = [[3] * count for count in (1, 2, 3, 4, 5, 6, 7, 12, 13, 5)]
    lengths = [[1, length] for length in (15, 16, 17, 32, 33, 48, 49, 20)]
    return [
        _call(rng, sizes, 4, [1, 2, 5, 6, 12], [16]),
        _call(rng, lengths, 4, [2, 4], [16, 32, 48]),
        _call(rng, [[40, 2, 3], [2, 40, 3], [2, 3, 40], [90, 1], [1, 90], [2, 3]], 8, [1, 2, 3], [16, 64]),
        _call(rng, [[5, 6], [5, 6, 7], [9, 9]], 2, [1, 2], [8]),
    ]


def _drawn(rng):
    return [_one(rng) for _ in range(5)]


def _one(rng):
    batch_buckets = sorted(rng.sample(range(1, 20), rng.randint(1, 4)))
    len_buckets = sorted(rng.sample(range(20, 90), rng.randint(1, 3)))
    steps = [
        [rng.randint(1, len_buckets[-1] + (rng.random() < 0.1)) for _ in range(rng.randint(1, batch_buckets[-1] + 1))]
        for _ in range(5)
    ]
    return _call(rng, steps, rng.choice((1, 3, 16, 100)), batch_buckets, len_buckets, spare=1)


EXERCISE = plain_exercise(
    __file__,
    cases={
        "a small batch after a large one": _shrinking,
        "borders of buckets": _borders,
        "drawn": _drawn,
        "many requests": lambda rng: [_call(rng, [[700] * 200, [300] * 130], 100, [64, 256], [512, 1024])],
    },
    form=[(tuple | list | None, [list])],
    outcome=filled,
    say=say,
    mistakes=MISTAKES,
    normal=compared,
)

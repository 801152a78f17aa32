"""14.5 Evict: what the judge runs."""

from course_lib.grading.subjects.plain_data import plain_exercise

from .diagnostics import MISTAKES, evicted, say

ROOT = (0, 0, (), 0, 0)  # key, parent, pages, locks, last_used


def _one(locks):
    return [ROOT, (5, 0, (7,), locks, 3)]


CHAIN = [ROOT, (5, 0, (4, 2), 0, 9), (6, 1, (7,), 0, 8), (7, 2, (1, 3, 0), 0, 6)]
FORK = [ROOT, (5, 0, (4,), 0, 9), (6, 1, (7, 6), 0, 9), (7, 1, (1,), 0, 5), (8, 0, (3,), 0, 7), (9, 0, (2, 0), 0, 0)]
HELD = [ROOT, (5, 0, (4,), 1, 9), (6, 1, (7, 6), 1, 4), (7, 1, (1,), 0, 8), (8, 0, (3,), 2, 3), (9, 4, (2, 0), 0, 1)]
DEEP = [ROOT, *((5, number, (number,), 0, 100 - number) for number in range(80))]  # a chain
WIDE = [ROOT, (0, 0, tuple(range(100, 140)), 0, 900)]  # 100 leaves, three of them below a node of 40 pages
WIDE += [(number, int(number < 5), (number - 2,), 0, 7 * number % 103) for number in range(2, 102)]
SMALL = [
    ([ROOT], (0, 1)),
    (_one(0), (0, 1, 1)),
    *((_one(locks), (1,)) for locks in (1, 2, 256)),
    *((CHAIN, amounts) for amounts in ((1, 3), (4, 1), (99,))),
    (DEEP, (70, 2, 99)),
    (WIDE, (90, 20, 99)),
    *((FORK, amounts) for amounts in ((1, 1, 1, 1, 1), (2, 2), (3, 1), (4, 3), (5, 1), (6,))),
    *((HELD, amounts) for amounts in ((1, 1, 1), (99, 1))),
]


def _drawn(count, most, most_pages=5):
    """Trees whose paths were used one after the other; some paths are locked."""

    def make(rng):
        return [_call(rng, rng.randint(2, most), most_pages) for _ in range(count)]

    return make


def _call(rng, num_nodes, most_pages):
    pages = iter(rng.sample(range(num_nodes * most_pages), num_nodes * most_pages))
    parents = [0] + [rng.choice((0, rng.randrange(number))) for number in range(1, num_nodes)]
    own = [()] + [tuple(next(pages) for _ in range(rng.randint(1, most_pages))) for _ in parents[1:]]
    used, locks = [0] * num_nodes, [0] * num_nodes
    order = rng.sample(range(num_nodes), num_nodes) + [rng.randrange(num_nodes) for _ in range(num_nodes)]
    start, unit = rng.choice(((0, 1), (10**15, 1), (0, 2**33)))
    for time, number in enumerate(order):
        for above in _path(parents, number):
            used[above] = start + unit * time
    for number in rng.sample(range(num_nodes), rng.randint(0, num_nodes // 4)):
        for above in _path(parents, number):
            locks[above] += 1
    keys = rng.sample(range(10 * num_nodes), num_nodes)
    amounts = [rng.choice((0, 1, rng.randint(1, 6), rng.randint(1, 3 * num_nodes))) for _ in range(3)]
    return list(zip(keys, parents, own, locks, used, strict=True)), amounts


def _path(parents, number):
    return [number, *_path(parents, parents[number])] if number else [0]


EXERCISE = plain_exercise(
    __file__,
    cases={
        "small trees": lambda rng: SMALL,
        "drawn, up to 8 nodes": _drawn(24, 8),
        "drawn, up to 40 nodes": _drawn(6, 40),
        "drawn, 200 nodes": lambda rng: [_call(rng, 200, 3)],
    },
    form=[([int], list)],
    outcome=evicted,
    say=say,
    mistakes=MISTAKES,
)

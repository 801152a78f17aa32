"""14.1 Admit or wait: what the judge runs."""

from course_lib.grading.subjects.plain_data import plain_exercise

from .diagnostics import MISTAKES, say, step

# (running, waiting, free_pages, preempted, limits), a request as (id, num_tokens, num_computed)
SMALL = [
    ([], [], 0, False, (8, 8, 4, 4, 0)),
    ([(0, 6, 5)], [], 3, False, (8, 8, 4, 4, 0)),
    ([], [(0, 6, 0)], 2, False, (8, 8, 4, 4, 0)),
    ([], [(0, 6, 0)], 2, False, (8, 8, 4, 4, 1)),  # the watermark holds where nothing runs, too
    ([(0, 30, 0)], [], 9, False, (64, 8, 4, 4, 0)),
    ([(0, 6, 5), (1, 9, 8)], [(2, 3, 0)], 9, False, (8, 8, 4, 4, 1)),
    ([(0, 6, 5), (1, 9, 0)], [(2, 3, 0)], 9, False, (16, 4, 4, 4, 1)),
    ([(0, 6, 5), (1, 9, 8)], [(2, 3, 0)], 9, True, (8, 8, 4, 4, 1)),
    ([], [(0, 6, 0)], 9, True, (8, 8, 4, 4, 1)),
    ([(0, 6, 5), (1, 9, 8), (2, 4, 3)], [(3, 3, 0)], 9, False, (2, 2, 4, 4, 1)),
]
BUDGET = [
    ([(0, 6, 5), (1, 9, 8)], [(2, 3, 0), (3, 9, 0)], 30, False, (10, 10, 8, 4, 1)),
    ([(0, 6, 5)], [(1, 90, 0)], 30, False, (16, 16, 8, 4, 1)),
    ([(0, 6, 5)], [(1, 15, 0), (2, 1, 0)], 30, False, (16, 16, 8, 4, 1)),
    ([(0, 6, 5)], [(1, 14, 0), (2, 5, 0)], 30, False, (16, 16, 8, 4, 1)),
    ([(0, 300, 40), (1, 7, 6)], [(2, 40, 0), (3, 10, 0), (4, 5, 0)], 90, False, (64, 20, 8, 16, 1)),
    ([], [(0, 700, 0), (1, 700, 0), (2, 700, 0)], 200, False, (512, 256, 8, 16, 0)),
    ([(0, 9, 0), (1, 8, 0), (2, 7, 0)], [(3, 9, 0)], 30, False, (64, 8, 8, 4, 1)),  # one more than a chunk
    ([(0, 70_001, 3), (1, 9, 8)], [(2, 40_000, 0), (3, 1, 0)], 5000, False, (100_000, 65_000, 4, 16, 300)),
]
SEATS = [
    ([(0, 6, 5), (1, 9, 8)], [(2, 3, 0), (3, 2, 0)], 30, False, (64, 64, 3, 4, 1)),
    ([(0, 6, 5), (1, 9, 8)], [(2, 3, 0), (3, 2, 0)], 30, False, (64, 64, 2, 4, 1)),
    ([], [(2, 3, 0), (3, 2, 0)], 30, False, (64, 64, 1, 4, 1)),
    ([(0, 6, 5)], [(2, 3, 0), (3, 2, 0), (4, 2, 0)], 30, False, (64, 64, 4, 4, 1)),
    ([(0, 6, 5)], [(2, 1, 0), (3, 1, 0)], 30, False, (64, 64, 2, 4, 1)),
    ([(number, 9, 8) for number in range(300)], [(301, 3, 0), (302, 3, 0)], 30, False, (4096, 64, 301, 4, 1)),
]
PAGES = [
    ([(0, 6, 5)], [(1, 16, 0), (2, 3, 0)], 4, False, (64, 64, 8, 4, 0)),
    ([(0, 6, 5)], [(1, 16, 0), (2, 3, 0)], 4, False, (64, 64, 8, 4, 1)),
    ([(0, 6, 5)], [(1, 17, 0), (2, 3, 0)], 5, False, (64, 64, 8, 4, 1)),
    ([(0, 6, 5)], [(1, 17, 0), (2, 3, 0)], 6, False, (64, 64, 8, 4, 1)),
    ([(0, 6, 5)], [(1, 17, 0), (2, 3, 0)], 7, False, (64, 64, 8, 4, 1)),
    ([(0, 6, 5)], [(1, 90, 0), (2, 3, 0)], 12, False, (16, 8, 8, 4, 1)),
    ([(0, 6, 5)], [(1, 40, 32), (2, 3, 0)], 4, False, (64, 64, 8, 4, 1)),
    ([(0, 6, 5)], [(1, 40, 36), (2, 3, 0)], 2, False, (64, 64, 8, 4, 1)),
    ([(0, 6, 5)], [(1, 40, 36), (2, 3, 0)], 1, False, (64, 64, 8, 4, 1)),
    ([], [(0, 13, 0), (1, 1, 0)], 2, False, (64, 64, 8, 12, 0)),
    *(([], [(0, 40_000, 0)], free_pages, False, (64, 64, 8, 16, 300)) for free_pages in (2799, 2800)),
    ([], [(0, 16, 0), (1, 16, 0)], 7, False, (64, 4, 8, 4, 0)),  # pages of all tokens are taken, not of the chunk
]


def _drawn(count, most, budgets=(1, 7, 64, 256, 2048)):
    """Calls with up to `most` requests in each queue; the first has as many."""

    def make(rng):
        return [_call(rng, most, budgets, 0 if number else most) for number in range(count)]

    return make


def _call(rng, most, budgets, least):
    page_size = rng.choice((1, 3, 8, 16, 100))
    numbers = iter(rng.sample(range(4 * most + 4), 2 * most))  # ids in no order
    running = [_running(rng, next(numbers)) for _ in range(rng.randint(least, most))]
    waiting = [_waiting(rng, next(numbers), page_size) for _ in range(rng.randint(least, most))]
    budget = rng.choice(budgets)
    chunk = rng.choice((budget, max(budget // 3, 1), 50))
    limits = (budget, chunk, len(running) + rng.randint(0, most), page_size, rng.choice((0, 1, 5)))
    return running, waiting, rng.choice((0, 4, 30, 200, 5000)), rng.random() < 0.15, limits


def _running(rng, number):
    """A request that decodes, or one in the middle of its prompt."""
    num_tokens = rng.randint(2, 900)
    return number, num_tokens, num_tokens - 1 if rng.random() < 0.7 else rng.randrange(num_tokens)


def _waiting(rng, number, page_size):
    """A request, every third with whole pages from the prefix cache."""
    num_tokens = int(2000 ** rng.random()) + 1
    pages = rng.randint(0, (num_tokens - 1) // page_size) if rng.random() < 0.3 else 0
    return number, num_tokens, pages * page_size


EXERCISE = plain_exercise(
    __file__,
    cases={
        "few requests": lambda rng: SMALL,
        "the budget": lambda rng: BUDGET,
        "max_seqs": lambda rng: SEATS,
        "pages": lambda rng: PAGES,
        "drawn, up to four of each": _drawn(60, 4),
        "drawn, up to 40 of each": _drawn(30, 40),
        "drawn, up to 300 of each": _drawn(4, 300, (50_000,)),
    },
    form=[(int, int)],
    outcome=step,
    say=say,
    mistakes=MISTAKES,
)

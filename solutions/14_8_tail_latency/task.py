"""14.8 Read a p99: what the judge runs."""

from course_lib.grading.subjects.plain_data import plain_exercise

from .diagnostics import MISTAKES, report, say

MS = 1000
PERCENTS = (50, 99)

# (requests, warm_up, percents, first_limit, gap_limit); a request: due, sent, times of its tokens
SMALL = [
    ([], 0, (50, 99), 10, 10),
    ([(0, 0, [7])], 0, (50,), 10, 10),
    ([(0, 0, [7])], 0, (50,), 7, 0),
    ([(0, 0, [])], 0, (50, 100), 10, 10),
    ([(3, 4, [7, 9, 16])], 0, (1, 50, 100), 4, 7),
    ([(3, 4, [7, 9, 16])], 3, (1, 50, 100), 3, 7),
    ([(3, 4, [7, 9, 16]), (5, 5, [11, 12])], 0, (25, 50, 75, 100), 4, 6),
    ([(3, 8, [17, 19]), (5, 5, [11, 12, 40]), (9, 9, [])], 5, (50, 90), 6, 27),
    ([(2, 9, [17, 19]), (5, 5, [11, 12, 40]), (9, 12, [20])], 5, (50, 90), 11, 28),
    ([(1, 1, [3, 4]), (2, 2, [5, 8]), (4, 4, [])], 4, (50,), 6, 6),
    ([(1, 1, [3, 400]), (5, 5, [8, 12, 13])], 4, (99, 50, 99), 6, 6),  # one of the warm-up ends last
    ([(1, 1, [2 + token * token for token in range(300)])], 0, (50, 75, 90, 100), 6, 6),  # 299 gaps: 1, 3, 5, …
    ([(0, 0, [10_000 * token for token in range(1, 8)])], 0, (50,), 6, 6),  # 7 tokens in 0.07 seconds
]
HUNDRED = ([(due, due, [2 * due + 1]) for due in range(100)], 0, (7, 14, 28, 55, 56, 57), 50, 9)  # no fractions of 100


def _stall(rng, closed):
    """200 requests of a server that stops for two seconds; a closed loop sends nothing meanwhile."""
    requests, now = [], 0
    for number in range(200):
        due = number * 20 * MS + rng.randint(0, 999)
        sent = max(due, now) if closed else due
        begin = max(sent, 3000 * MS) if 1000 * MS <= sent < 3000 * MS else sent
        tokens = [begin + 15 * MS + rng.randint(0, 4000)]
        for _ in range(rng.randint(0, 6)):
            tokens.append(tokens[-1] + 8 * MS + rng.randint(0, 2000))
        now = tokens[0]
        requests.append((due, sent, tokens))
    return requests, 500 * MS, (50, 90, 99), 100 * MS, 20 * MS


def _drawn(count, most):
    def make(rng):
        return [_call(rng, rng.randint(1, most)) for _ in range(count)]

    return make


def _call(rng, num_requests):
    """Requests in no order; some are sent late, some fail, some answers pause."""
    scale = rng.choice((10, 1000, 100_000))
    requests = []
    for _ in range(num_requests):
        due = rng.randint(0, 100 * scale)
        sent = due + (rng.randint(1, 20 * scale) if rng.random() < 0.3 else 0)
        tokens, now = [], sent
        for _ in range(rng.choice((1, 2, 3, 8, 20)) if rng.random() < 0.9 else 0):
            now += rng.randint(1, scale) * (30 if rng.random() < 0.05 else 1)
            tokens.append(now)
        requests.append((due, sent, tokens))
    warm_up = rng.choice((0, 20 * scale, 60 * scale))
    percents = tuple(rng.choices((1, 25, 50, 75, 90, 95, 99, 100), k=rng.randint(1, 4)))
    return requests, warm_up, percents, 3 * scale, rng.choice((scale, 10 * scale))


EXERCISE = plain_exercise(
    __file__,
    cases={
        "few requests": lambda rng: SMALL,
        "a hundred requests": lambda rng: [HUNDRED],
        "a server that stops for two seconds": lambda rng: [_stall(rng, False), _stall(rng, True)],
        "drawn, up to 12 requests": _drawn(40, 12),
        "drawn, up to 300 requests": _drawn(6, 300),
    },
    form=([int | float | None], [int | float | None], int | float | None, int),
    outcome=report,
    say=say,
    mistakes=MISTAKES,
)

"""14.3 Preempt the right one: what the judge runs."""

from course_lib.grading.subjects.plain_data import plain_exercise

from .diagnostics import MISTAKES, explain, normal, room, say

FIRST_ID = 1000  # more than pages of a pool: a sentence that names an id names no number of pages by it
REQUEST = (int, int, int, [int], [int], int, [int])


def _request(rng, number, priority, arrival, num_prompt, num_output, pages, computed=None):
    prompt, output = ([rng.randrange(50_000) for _ in range(count)] for count in (num_prompt, num_output))
    computed = (num_prompt + num_output - 1) * bool(pages) if computed is None else computed
    return FIRST_ID + number, priority, arrival, prompt, output, computed, list(pages)


def _waiting(rng, numbers):
    """Requests that wait; one of them was preempted before and has output."""
    return [_request(rng, number, 1, 1000 + number, 5, 3 * (number % 2), (), 0) for number in numbers]


def _refs(num_pages, running):
    return [sum(page in request[6] for request in running) for page in range(num_pages)]


def _small(rng):
    """Pools of 1 to 6 pages of 4 tokens."""
    one = [_request(rng, 0, 0, 0, 4, 1, (0,))]
    two = [_request(rng, 0, 0, 0, 4, 5, (1, 0)), _request(rng, 1, 0, 1, 4, 2, (2, 3))]
    full = [_request(rng, 0, 0, 0, 4, 0, (1,)), _request(rng, 1, 0, 1, 8, 0, (2, 0))]
    shared = [
        _request(rng, 5, 0, 3, 4, 5, (0, 1)),
        _request(rng, 6, 0, 8, 6, 1, (0, 2)),
        _request(rng, 7, 0, 4, 6, 2, (0, 3)),
    ]
    pools = [(one, 2), (two, 4), (two, 5), (full, 3), (shared, 4), (shared, 5)]
    calls = [([], [], [0, 0], 4)]
    for running, num_pages in pools:
        calls += [(running, waiting, _refs(num_pages, running), 4) for waiting in ([], _waiting(rng, (8, 9)))]
    return calls


def _refusals(rng):
    """Requests that outgrow the pool, beside others, and one that takes all of it."""
    alone = [_request(rng, 3, 0, 0, 4, 5, (0, 1))]
    whole = [_request(rng, 3, 0, 0, 4, 8, (0, 1))]
    beside = [_request(rng, 3, 1, 7, 4, 9, (0, 1)), _request(rng, 4, 1, 8, 3, 2, (2,))]
    after = [_request(rng, 4, 1, 8, 3, 2, (2,)), _request(rng, 3, 1, 7, 4, 9, (0, 1))]
    prompt = [_request(rng, 2, 0, 1, 90, 0, (0,), 4), _request(rng, 4, 1, 8, 3, 1, (2,))]
    pools = [(alone, 2), (whole, 2), (whole, 3), (beside, 3), (after, 3), (prompt, 5)]
    return [(running, _waiting(rng, (9,)), _refs(num_pages, running), 4) for running, num_pages in pools]


def _drawn(count, most, page_sizes):
    """Full and nearly full pools, every second with a shared prefix; arrivals and priorities in no order."""

    def make(rng):
        return [_call(rng, most, rng.choice(page_sizes)) for _ in range(count)]

    return make


def _call(rng, most, page_size):
    count = rng.randint(1, most)
    arrivals, numbers = rng.sample(range(4 * count), count), rng.sample(range(4 * count), count)
    shared = rng.randint(0, 2) * (rng.random() < 0.6)
    held = [rng.randint(0, 3) for _ in range(count)]
    num_pages = shared + sum(held) + rng.choice((0, 0, 1, 2))
    places = iter(rng.sample(range(num_pages), num_pages))
    prefix, running = [next(places) for _ in range(shared)], []
    for number, arrival, own in zip(numbers, arrivals, held, strict=True):
        pages = (prefix if rng.random() < 0.8 else []) + [next(places) for _ in range(own)]
        known = max(len(pages) * page_size + rng.choice((-1, 0, 0, 1, 1, 1, page_size + 1)), 1)
        num_output = rng.randrange(known)
        running.append(_request(rng, number, rng.choice((0, 1, 1, 2)), arrival, known - num_output, num_output, pages))
    num_pages = max(num_pages, 1)
    return (
        running,
        _waiting(rng, [4 * count + i for i in range(rng.randint(0, 2))]),
        _refs(num_pages, running),
        page_size,
    )


EXERCISE = plain_exercise(
    __file__,
    cases={
        "pools of up to 6 pages": _small,
        "requests that outgrow the pool": _refusals,
        "drawn, up to four requests": _drawn(60, 4, (1, 2, 4, 16)),
        "drawn, up to 12 requests": _drawn(25, 12, (1, 3, 8)),
        "drawn, up to 60 requests": _drawn(3, 60, (2,)),
    },
    form=([REQUEST], [REQUEST], [int], [(int, str)]),
    outcome=room,
    say=say,
    mistakes=MISTAKES,
    explain=explain,
    normal=normal,
)

"""14.2 Chunk the prefill: what the judge runs."""

from course_lib.grading.subjects.plain_data import plain_exercise

from .diagnostics import MISTAKES, assembled, say

CHUNK = 8


def _request(rng, num_tokens, num_prompt, num_computed, num_new, page_size):
    """(tokens, num_prompt, num_computed, num_new, pages): ids and pages in no order, sometimes a page to spare.

    Half of the texts repeat three ids.
    """
    ids = rng.choice((3, 50_000))
    tokens = [rng.randrange(ids) for _ in range(num_tokens)]
    pages = -(-num_tokens // page_size) + rng.randint(0, 1)
    return tokens, num_prompt, num_computed, num_new, rng.sample(range(4 * pages + 9), pages)


def _chunks_of(num_tokens, num_prompt, page_size, chunk=CHUNK):
    """The chunks of one sequence, a call each."""

    def make(rng):
        calls = []
        for start in range(0, num_tokens, chunk):
            num_new = min(chunk, num_tokens - start)
            calls.append(([_request(rng, num_tokens, num_prompt, start, num_new, page_size)], page_size))
        return calls

    return make


def _together(*makers):
    return lambda rng: [call for make in makers for call in make(rng)]


def _drawn(rng):
    """Steps of requests that decode, are in their prompt, or are computed again after a preemption."""
    steps = [_step(rng, rng.choice((1, 3, 4, 16, 100)), rng.randint(0, 7)) for _ in range(20)]
    return [*steps, _step(rng, 4, 300, longest=6)]


def _step(rng, page_size, num_requests, longest=250):
    requests = []
    for _ in range(num_requests):
        num_tokens = rng.randint(1, longest)
        num_prompt = rng.randint(1, num_tokens)
        start = num_tokens - 1 if rng.random() < 0.4 else rng.randrange(num_tokens)
        num_new = num_tokens - start if rng.random() < 0.4 else rng.randint(1, num_tokens - start)
        requests.append(_request(rng, num_tokens, num_prompt, start, num_new, page_size))
    return requests, page_size


EXERCISE = plain_exercise(
    __file__,
    cases={
        "one token": lambda rng: [([_request(rng, 1, 1, 0, 1, 1)], 1)],
        "no request": lambda rng: [([], 4)],
        "one below a chunk": _chunks_of(CHUNK - 1, CHUNK - 1, 4),
        "a chunk": _chunks_of(CHUNK, CHUNK, 4),
        "one above a chunk": _chunks_of(CHUNK + 1, CHUNK + 1, 4),
        "full pages, chunks across them": _together(
            _chunks_of(24, 24, 6), _chunks_of(30, 30, 10), _chunks_of(27, 27, 3)
        ),
        "pages of 1 and of 100": _together(_chunks_of(21, 21, 1), _chunks_of(21, 21, 100)),
        "computed again after a preemption": _together(_chunks_of(30, 16, 4), _chunks_of(30, 21, 4)),
        "a long prompt": _chunks_of(5003, 5003, 16, 4200),
        "drawn": _drawn,
    },
    form=([int],) * 6,
    outcome=assembled,
    say=say,
    mistakes=MISTAKES,
)

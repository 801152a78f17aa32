"""Counting what memory holds: every slot is counted once, and the shares equal those worked out by hand."""

import pytest

from course_lib import kv, viz
from course_lib.errors import ArgumentError
from course_lib.kv.fragmentation import KINDS

TRACE = kv.random_trace(40, seed=5, max_len=256, median_prompt=20, median_output=30)
CAPACITY = 1024


USES = (
    kv.contiguous_use(TRACE, CAPACITY),
    kv.contiguous_use(TRACE, CAPACITY, reserve=lambda request: request.total_len, name="one piece of its own length"),
    *kv.page_size_use(TRACE, CAPACITY),
)


@pytest.mark.parametrize("use", USES, ids=lambda use: use.name)
def test_every_slot_is_counted_once(use):
    assert all(set(step) == set(KINDS) and min(step.values()) >= 0 for step in use.steps)
    assert all(sum(step.values()) == CAPACITY for step in use.steps)
    assert sum(use.shares().values()) == pytest.approx(1)
    assert len(use.steps) == len(use.running) == len(use.waiting)


@pytest.mark.parametrize("use", USES, ids=lambda use: use.name)
def test_every_token_is_made_once(use):
    """A step in which n sequences run makes n tokens; what a preempted sequence has made is read again, not made."""
    assert sum(use.running) == sum(request.output_len for request in TRACE)


def test_one_request_in_one_piece_by_hand():
    use = kv.contiguous_use([kv.Request(0, 3, 2)], 8, reserve=lambda _request: 6)
    assert use.steps == (
        {"tokens": 3, "later": 2, "never": 1, "holes": 0, "free": 2},
        {"tokens": 4, "later": 1, "never": 1, "holes": 0, "free": 2},
    )


def test_one_request_on_pages_by_hand():
    use = kv.paged_use([kv.Request(0, 3, 3)], 8, 4)
    assert use.steps == (
        {"tokens": 3, "later": 1, "never": 0, "holes": 0, "free": 4},
        {"tokens": 4, "later": 0, "never": 0, "holes": 0, "free": 4},
        {"tokens": 5, "later": 1, "never": 2, "holes": 0, "free": 0},
    )


def test_free_slots_too_small_for_the_next_request_are_holes():
    """Two short requests leave gaps of 4 and 4; a request of 8 waits for one piece."""
    requests = [kv.Request(0, 3, 1), kv.Request(0, 1, 7), kv.Request(0, 7, 1)]
    use = kv.contiguous_use(requests, 16, reserve=lambda request: request.total_len)
    assert use.running[0] == 2 and use.steps[0]["free"] == 4  # 4 + 8 taken, the last one does not fit
    assert use.steps[1]["holes"] == 8 and use.waiting[1]


def test_pages_hold_more_than_pieces():
    longest, known, one, four, sixteen, *_ = (use.shares()["tokens"] for use in USES)
    assert longest < known < sixteen < four < one
    assert all(use.shares()["holes"] == 0 for use in USES[2:])
    assert USES[2].shares()["never"] == 0
    assert USES[-1].shares()["never"] > USES[0].shares()["never"]  # four pages of 256 are four pieces


def test_a_full_pool_sends_the_youngest_back():
    requests = [kv.Request(0, 2, 6), kv.Request(0, 2, 6)]
    use = kv.paged_use(requests, 8, 1)
    assert use.preempted == 1 and use.running[:4] == (2, 2, 2, 1) and sum(use.running) == 12


def test_a_trace_is_the_same_everywhere_and_within_its_bounds():
    assert TRACE == kv.random_trace(40, seed=5, max_len=256, median_prompt=20, median_output=30)
    assert TRACE != kv.random_trace(40, seed=6, max_len=256, median_prompt=20, median_output=30)
    assert all(request.prompt_len >= 1 and request.output_len >= 1 and request.total_len <= 256 for request in TRACE)
    assert [request.arrival for request in TRACE] == sorted(request.arrival for request in TRACE)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: kv.paged_use(TRACE, 1000, 16), "multiple of page_size"),
        (lambda: kv.paged_use([kv.Request(0, 9, 9)], 16, 16), "32 of 16 slots"),
        (lambda: kv.contiguous_use(TRACE, 64), "of 64 slots"),
        (lambda: kv.contiguous_use(TRACE, 1024, reserve=lambda _request: 1), "gets 1 of 1024 slots"),
    ],
)
def test_what_cannot_be_served_is_refused(call, words):
    with pytest.raises(ArgumentError, match=words):
        call()


def test_the_picture_says_its_shares():
    picture = viz.memory_use_bars({use.name: use.shares() for use in USES}, title="what the memory holds")
    share = round(100 * USES[0].shares()["tokens"])
    assert (
        f"one piece of the longest length: tokens {share}," in picture.alt_text and "pages of 256: " in picture.alt_text
    )
    assert len(picture.png()) < 60_000

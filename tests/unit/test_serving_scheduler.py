"""The scheduler of the serving engine without a model: steps by hand."""

import pytest

from course_lib.errors import BusyError, RefusedError, ServingError
from course_lib.serving import PENDING, Request, Scheduler, ServingConfig, State


def scheduler(num_pages=8, **options):
    options = {"page_size": 4, "max_num_tokens": 8, "max_num_seqs": 4, "prefix": None, **options}
    return Scheduler(ServingConfig(num_pages, **options))


def pieces(step):
    return [(piece.sequence.name, piece.start, piece.num_tokens, piece.samples) for piece in step.pieces]


def test_a_prompt_in_chunks_beside_a_decoding_request():
    serving = scheduler()
    serving.add(Request("a", range(3), 3))
    serving.add(Request("b", range(9), 2))
    step = serving.schedule()
    assert pieces(step) == [("a", 0, 3, True), ("b", 0, 5, False)]
    assert [output.tokens for output in serving.commit(step, {"a": 7})] == [(7,)]
    step = serving.schedule()
    assert pieces(step) == [("a", 3, 1, True), ("b", 5, 4, True)]
    serving.commit(step, {"a": 8, "b": 5})
    step = serving.schedule()
    assert pieces(step) == [("a", 4, 1, True), ("b", 9, 1, True)] and step.is_decode
    outputs = serving.commit(step, {"a": 9, "b": 6})
    assert [(output.name, output.finish_reason) for output in outputs] == [("a", "length"), ("b", "length")]
    assert not serving.has_work and serving.cache.allocator.num_free == 8


def test_the_next_step_is_scheduled_before_the_tokens_are_known():
    serving = scheduler()
    sequence = serving.add(Request("a", range(3), 9, eos=0))
    first, second = serving.schedule(), serving.schedule()
    assert sequence.tokens == [0, 1, 2, PENDING, PENDING] and sequence.produced == []
    assert pieces(second) == [("a", 3, 1, True)]
    with pytest.raises(ServingError, match="2 steps are in flight"):
        serving.schedule()
    (output,) = serving.commit(first, {"a": 0})
    assert output.finish_reason == "stop" and sequence.produced == [0]
    assert serving.cache.allocator.num_free == 7  # the second step still computes it
    assert serving.commit(second, {"a": 5}) == [] and serving.cache.allocator.num_free == 8


def test_what_can_never_be_served_is_refused_at_once():
    serving = scheduler(max_model_len=40)
    for request, why in (
        (Request("a", (), 1), "its prompt is empty"),
        (Request("a", (1,), 0), "max_new_tokens is 0"),
        (Request("a", range(30), 4), "need 9 pages of 4; the whole pool has 8"),
        (Request("a", range(30), 11), "make 41; the model takes 40"),
    ):
        with pytest.raises(RefusedError, match=why):
            serving.add(request)
    assert serving.add(Request("a", range(30), 3)).state is State.WAITING  # 32 tokens are kept, the last is not


def test_a_full_queue_and_a_name_in_use():
    serving = scheduler(max_waiting=2)
    serving.add(Request("a", (1,), 1))
    with pytest.raises(ServingError, match="'a' is being served"):
        serving.add(Request("a", (1,), 1))
    serving.add(Request("b", (1,), 1))
    with pytest.raises(BusyError, match="2 requests wait") as caught:
        serving.add(Request("c", (1,), 1))
    assert caught.value.retry_after > 0

"""The scheduler of the serving engine without a model: steps by hand."""

import pytest

from course_lib.errors import ArgumentError, BusyError, RefusedError, ServingError
from course_lib.serving import PENDING, Request, Scheduler, Sequence, ServingConfig, State


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


def drive(serving, steps, token=7):
    """Schedule and commit `steps` times, every token the same. -> the steps"""
    made = []
    for _ in range(steps):
        step = serving.schedule()
        serving.commit(step, {piece.sequence.name: token for piece in step.pieces if piece.samples})
        serving.audit()
        made.append(step)
    return made


def test_the_last_in_order_is_preempted_and_nobody_new_comes_in_that_step():
    serving = scheduler(num_pages=4, admission="optimistic", max_num_tokens=16)
    a, b = (serving.add(Request(name, range(7), 9)) for name in "ab")
    drive(serving, 2)  # both have two full pages: 8 tokens each
    serving.add(Request("c", range(3), 1))
    (step,) = drive(serving, 1)
    assert step.preempted == (b,) and pieces(step) == [("a", 8, 1, True)]
    assert b.state is State.WAITING and b.num_computed == 0 and b.produced == [7, 7] and b.num_preemptions == 1
    assert [each.name for each in serving.waiting] == ["b", "c"]
    (step,) = drive(serving, 1)
    assert pieces(step) == [("a", 9, 1, True)]  # b needs 3 pages, 1 is free; c would fit and must not overtake


def test_the_victim_has_the_lowest_priority_and_is_the_youngest():
    serving = scheduler(num_pages=6, admission="optimistic", max_num_tokens=32)
    old, urgent, late = (
        serving.add(Request(name, range(7), 9, priority=priority, arrival=arrival))
        for name, priority, arrival in (("old", 1, 0.0), ("urgent", 0, 2.0), ("late", 1, 1.0))
    )
    steps = drive(serving, 4)
    assert [piece.sequence for piece in steps[0].pieces] == [urgent, old, late]
    assert [step.preempted for step in steps] == [(), (), (late,), ()]


def test_a_running_request_may_be_its_own_victim():
    serving = scheduler(num_pages=3, admission="optimistic", max_num_tokens=16)
    serving.add(Request("a", range(7), 2))
    b = serving.add(Request("b", range(4), 4))
    steps = drive(serving, 2)
    assert steps[1].preempted == (b,) and pieces(steps[1]) == [("a", 7, 1, True)]


def test_a_preemption_waits_for_the_step_in_flight():
    serving = scheduler(num_pages=5, admission="optimistic", max_num_tokens=16)
    for name in "ab":
        serving.add(Request(name, range(7), 9))
    first, second = serving.schedule(), serving.schedule()
    serving.commit(first, {"a": 7, "b": 7})
    assert serving.cache.num_available == 1 and serving.schedule() is None  # both need a page
    serving.commit(second, {"a": 7, "b": 7})
    assert [each.name for each in serving.schedule().preempted] == ["b"]


def test_swapping_out_and_in_names_the_same_host_pages():
    serving = scheduler(num_pages=4, admission="optimistic", max_num_tokens=16, preempt="swap", num_swap_pages=3)
    serving.add(Request("a", range(7), 3))
    b = serving.add(Request("b", range(7), 9))
    steps = drive(serving, 3)
    pages, host_pages = zip(*steps[2].swaps_out, strict=True)
    assert len(pages) == 2 and b.state is State.SWAPPED and list(host_pages) == b.host_pages and b.num_computed == 8
    (step,) = drive(serving, 1)  # a has ended
    assert tuple(host for _, host in step.swaps_in) == host_pages and pieces(step) == [("b", 8, 1, True)]
    assert [page for page, _ in step.swaps_in] == b.pages[:2] and serving.tables.host.num_free == 3
    assert serving.stats.num_preempted == serving.stats.num_swapped == 1


def test_with_no_host_page_left_it_is_recomputed():
    serving = scheduler(num_pages=4, admission="optimistic", max_num_tokens=16, preempt="swap", num_swap_pages=1)
    serving.add(Request("a", range(7), 3))
    b = serving.add(Request("b", range(7), 9))
    steps = drive(serving, 3)
    assert b.state is State.WAITING and steps[2].preempted == (b,) and not steps[2].swaps_out


@pytest.mark.parametrize(
    "admission, num_pages, running",
    [
        ("optimistic", 7, ["a", "b", "c"]),
        ("watermark", 7, ["a", "b"]),  # c would leave one page, and a quarter of 7 is two
        ("reserve", 7, ["a"]),  # each may need four
        ("reserve", 8, ["a", "b"]),
    ],
)
def test_three_policies_admit_so_many(admission, num_pages, running):
    serving = scheduler(num_pages=num_pages, admission=admission, max_num_tokens=16, watermark=0.25)
    for name in "abc":
        serving.add(Request(name, range(5), 9))
    drive(serving, 1)
    assert [each.name for each in serving.running] == running


@pytest.mark.parametrize("admission", ["optimistic", "watermark", "reserve"])
def test_a_request_that_needs_the_whole_pool_is_served_alone(admission):
    serving = scheduler(num_pages=2, admission=admission, watermark=0.5)
    for name in "ab":
        serving.add(Request(name, range(8), 1))
    assert [pieces(step) for step in drive(serving, 2)] == [[("a", 0, 8, True)], [("b", 0, 8, True)]]


def test_pages_of_a_finished_request_in_flight_are_not_given_away():
    serving = scheduler(num_pages=5, admission="reserve", max_num_tokens=16)
    serving.add(Request("a", range(3), 2))
    serving.add(Request("b", range(8), 9, eos=0))
    first, second = serving.schedule(), serving.schedule()
    serving.add(Request("c", range(12), 5))  # its 4 pages and that of a are all that is promised
    assert serving.commit(first, {"a": 7, "b": 0})[1].finish_reason == "stop"
    assert serving.schedule() is None  # b still holds 3 pages
    serving.commit(second, {"a": 7, "b": 7})
    assert pieces(serving.schedule()) == [("c", 0, 12, True)]


@pytest.mark.parametrize("prefix", ["hash", "radix"])
def test_a_salt_is_kept_from_the_first_page_to_the_cache(prefix):
    serving = scheduler(prefix=prefix)
    for name, salt, hit in (("a", "x", 0), ("b", "", 0), ("c", "x", 4), ("d", "", 4), ("e", "y", 0)):
        sequence = serving.add(Request(name, range(7), 1, salt=salt))
        drive(serving, 1)
        assert sequence.num_cached == hit


def test_without_chunks_prompts_come_first_and_whole():
    serving = scheduler(num_pages=20, chunked=False, max_num_tokens=16)
    serving.add(Request("a", range(3), 5))
    drive(serving, 1)
    for name in "bc":
        serving.add(Request(name, range(9), 5))
    steps = drive(serving, 3)
    assert pieces(steps[0]) == [("b", 0, 9, True)] and pieces(steps[1]) == [("c", 0, 9, True)]
    assert [name for name, *_ in pieces(steps[2])] == ["a", "b", "c"] and steps[2].is_decode
    with pytest.raises(RefusedError, match="without chunked prefill its 17 tokens"):
        serving.add(Request("d", range(9), 9))


def test_an_urgent_long_prompt_leaves_a_token_to_everyone_who_runs():
    serving = scheduler(num_pages=40, max_num_tokens=8)
    for name in "ab":
        serving.add(Request(name, range(2), 30))
    drive(serving, 1)
    serving.add(Request("urgent", range(60), 1, priority=-1))
    for step in drive(serving, 3)[1:]:
        assert [(name, count) for name, _, count, _ in pieces(step)] == [("urgent", 6), ("a", 1), ("b", 1)]


def test_max_chunk_leaves_budget_to_the_next_prompt():
    serving = scheduler(num_pages=20, max_chunk=3, max_num_tokens=8)
    for name in "ab":
        serving.add(Request(name, range(7), 1))
    assert [pieces(step) for step in drive(serving, 3)] == [
        [("a", 0, 3, False), ("b", 0, 3, False)],
        [("a", 3, 3, False), ("b", 3, 3, False)],
        [("a", 6, 1, True), ("b", 6, 1, True)],
    ]


@pytest.mark.parametrize("where", ["waiting", "running", "swapped", "in flight"])
def test_an_abort_frees_everything(where):
    serving = scheduler(num_pages=4, admission="optimistic", max_num_tokens=16, preempt="swap", num_swap_pages=3)
    for name in "ab":
        serving.add(Request(name, range(7), 9))
    drive(serving, {"waiting": 0, "running": 2, "swapped": 3, "in flight": 1}[where])
    step = serving.schedule() if where == "in flight" else None
    output = serving.abort("b")
    serving.audit()
    assert (output.name, output.finish_reason, output.tokens) == ("b", "abort", ()) and serving.abort("b") is None
    if step:
        assert serving.cache.num_available == 0  # the step still reads its pages
        assert [each.name for each in serving.commit(step, {"a": 7, "b": 7})] == ["a"]
    serving.abort("a")
    serving.audit()
    assert serving.cache.num_available == 4 and serving.tables.host.num_free == 3 and not serving.has_work


def test_rejected_drafts_are_rolled_back_with_their_pages():
    serving = scheduler(num_pages=8, speculate=4, max_num_tokens=16)
    sequence = serving.add(Request("a", range(6), 12, eos=99))
    drive(serving, 1)
    step = serving.schedule()
    assert pieces(step) == [("a", 6, 5, True)] and step.pieces[0].num_drafts == 4 and not step.is_decode
    assert len(sequence.pages) == 3
    with pytest.raises(ServingError, match="1 steps are in flight"):
        serving.schedule()  # how many tokens there will be is not known
    (output,) = serving.commit(step, {"a": [1, 2]})
    assert output.tokens == (1, 2) and sequence.tokens[6:] == [7, 1, 2]
    assert sequence.num_computed == 8 and len(sequence.pages) == 2
    step = serving.schedule()
    (output,) = serving.commit(step, {"a": [1, 99, 5]})  # what follows the end was accepted, and is not wanted
    assert output.tokens == (1, 99) and output.finish_reason == "stop" and serving.cache.num_available == 8
    assert (serving.stats.num_drafts, serving.stats.num_accepted) == (8, 3)


def test_drafts_never_go_past_the_last_token():
    serving = scheduler(speculate=4, max_num_tokens=16)
    serving.add(Request("a", range(6), 4))
    drive(serving, 1)
    assert serving.schedule().pieces[0].num_drafts == 2  # two drafts and one more token are all that is left


def test_a_commit_out_of_order_or_without_a_token_changes_nothing():
    serving = scheduler()
    serving.add(Request("a", range(3), 9))
    first, second = serving.schedule(), serving.schedule()
    with pytest.raises(ServingError, match="Step 1 is not the oldest in flight"):
        serving.commit(second, {"a": 7})
    with pytest.raises(ServingError, match="0 tokens for 'a'"):
        serving.commit(first, {})
    with pytest.raises(ServingError, match="2 tokens for 'a'; with 0 drafts"):
        serving.commit(first, {"a": [1, 2]})
    serving.audit()
    assert len(serving.commit(first, {"a": 7})) == 1 and len(serving.commit(second, {"a": 7})) == 1
    with pytest.raises(ServingError, match="Step 1 is not the oldest"):
        serving.commit(second, {"a": 7})


def test_a_wrong_move_of_a_sequence_is_refused():
    sequence = Sequence(Request("a", range(3), 9))
    with pytest.raises(ServingError, match="'a' is waiting with 0 steps in flight; to preempt, it must be running"):
        sequence.preempt()
    sequence.admit([], 0)
    for move in (lambda: sequence.admit([], 0), lambda: sequence.swap_in([1])):
        with pytest.raises(ServingError, match="'a' is running"):
            move()
    sequence.num_in_flight = 1
    with pytest.raises(ServingError, match="with 1 steps in flight; to swap out, it must be running with none"):
        sequence.swap_out([1])
    sequence.finish("abort")
    with pytest.raises(ServingError, match="has finished"):
        sequence.finish("stop")


@pytest.mark.parametrize(
    "options, why",
    [
        ({"max_num_seqs": 9}, "every running sequence"),
        ({"prefix": "trie"}, "choose one of 'radix', 'hash', None"),
        ({"preempt": "swap"}, "num_swap_pages 0"),
        ({"watermark": 1}, "a share of the pages"),
        ({"page_size": 0}, "page_size is 0; it must be at least 1"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(options, why):
    with pytest.raises(ArgumentError, match=why):
        scheduler(**options)

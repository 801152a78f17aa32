"""Requests played on a simulated clock: the same tokens under every policy, and the same steps on every machine."""

import random
from dataclasses import replace

import pytest

from course_lib.errors import ServingError
from course_lib.serving import Request, Scheduler, ServingConfig
from course_lib.serving.trace import PagedModel, StepTime, made_up_tokens, play

CONFIG = ServingConfig(64, page_size=4, max_num_tokens=128, max_num_seqs=16, max_chunk=32)


def requests(count, seed=0):
    """Half of them begin with one of three system prompts of 6 pages."""
    chance, now, made = random.Random(seed), 0.0, []
    systems = [tuple(chance.randrange(1000) for _ in range(24)) for _ in range(3)]
    for number in range(count):
        now += chance.expovariate(50)
        prompt = chance.choice((*systems, (), (), ())) + tuple(
            chance.randrange(1000) for _ in range(chance.randint(1, 80))
        )
        made.append(
            Request(f"r{number}", prompt, chance.randint(1, 40), priority=chance.choice((0, 0, 1)), arrival=now)
        )
    return made


def test_five_hundred_requests_get_the_tokens_that_each_gets_alone():
    trace = play(CONFIG, requests(500))
    assert all(trace.served[request.name].tokens == made_up_tokens(request) for request in requests(500))
    assert (len(trace.frames), trace.stats.num_preempted, round(trace.hit_rate, 3)) == (3366, 134, 0.118)


@pytest.mark.parametrize(
    "options",
    [
        {"prefix": None, "admission": "optimistic"},
        {"prefix": "hash", "admission": "optimistic", "preempt": "swap", "num_swap_pages": 40},
        {"prefix": "hash", "admission": "reserve", "speculate": 3},
        {"prefix": "radix", "chunked": False},
        {"prefix": "radix", "preempt": "swap", "num_swap_pages": 40, "speculate": 3},
    ],
    ids=str,
)
def test_every_policy_gives_the_same_tokens(options):
    made = requests(60)
    trace = play(replace(CONFIG, **options), made, audit=True)
    for request in made:
        served = trace.served.get(request.name)
        assert served.tokens == made_up_tokens(request) if served else request.name in trace.refused
        assert served is None or len(served.times) == len(served.tokens) and served.ttft > 0


def test_a_table_with_a_wrong_page_gives_other_tokens():
    serving, model = Scheduler(CONFIG), PagedModel(CONFIG)
    request = Request("a", range(8), 3)
    sequence = serving.add(request)
    for _ in range(2):
        step = serving.schedule()
        serving.commit(step, model.run(step))
    assert sequence.produced == made_up_tokens(request)[:2]
    step = serving.schedule()
    sequence.pages[2] = 63
    assert model.run(step)["a"] != made_up_tokens(request)[2:]


def test_the_clock_and_the_frames_by_hand():
    made = [Request("a", range(5), 2), Request("b", range(3), 1, arrival=10.0)]
    trace = play(CONFIG, made, step_time=StepTime(1.0, 0.1, 0.01))
    first, second, third = trace.frames
    assert [frame.start for frame in trace.frames] == pytest.approx([0.0, 1.55, 10.0])
    assert [frame.seconds for frame in trace.frames] == pytest.approx([1.55, 1.16, 1.33])
    (token,), (last,) = first.pieces[0][4], second.pieces[0][4]
    assert first.pieces == (("a", 0, 5, (0, 1), (token,)),) and second.pieces == (("a", 5, 1, (0, 1), (last,)),)
    assert trace.served["a"].tokens == [token, last] and trace.served["a"].tpot == pytest.approx(1.16)
    assert (first.num_free, first.num_cached, first.num_held) == (62, 0, 2)
    assert (third.num_free, third.num_cached, third.num_held) == (62, 1, 1) and trace.seconds == pytest.approx(11.33)


def test_a_scheduler_that_plans_nothing_is_noticed():
    class Idle(Scheduler):
        def schedule(self):
            return None

    with pytest.raises(ServingError, match="1 requests wait at 0.0 s, and no step was planned"):
        play(CONFIG, [Request("a", range(5), 2)], scheduler=Idle(CONFIG))


def test_what_cannot_be_served_is_in_the_trace_with_its_sentence():
    trace = play(CONFIG, [Request("long", range(300), 2), Request("a", range(5), 2)])
    assert list(trace.served) == ["a"] and "the whole pool has 64" in trace.refused["long"]


def test_an_overlapped_step_reads_the_token_of_the_step_before():
    serving, model = Scheduler(CONFIG), PagedModel(CONFIG)
    request = Request("a", range(5), 4)
    sequence, flying = serving.add(request), []
    while serving.has_work:
        if len(flying) < 2 and (step := serving.schedule()):
            flying.append((step, model.run(step)))
        else:
            serving.commit(*flying.pop(0))
        serving.audit()
    assert sequence.produced == made_up_tokens(request) and serving.stats.num_steps == 4


def test_requests_of_one_time_are_served_in_the_order_given():
    same = [Request(name, (1, 2, 3), 2) for name in "abc"]
    trace = play(ServingConfig(8, max_num_seqs=1, max_num_tokens=8), same)
    assert [frame.pieces[0][0] for frame in trace.frames] == ["a", "a", "b", "b", "c", "c"]

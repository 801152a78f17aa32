"""The engine in its thread: streams, a bounded queue, time-outs, aborts, a failure and a restart."""

import asyncio
import threading
import time
import weakref

import pytest
from fake_engine import FakeEngine, Gate

from course_lib.errors import BusyError, EngineStopped, RefusedError, ServingError, TimedOut
from course_lib.serving import Output, Request
from course_lib.serving.service import Service
from course_lib.serving.stream import Stream


def counting(sequence):
    return sequence.num_produced - 1  # the token that is asked for counts already


def request(name="a", tokens=3, prompt=(1, 2)):
    return Request(name, prompt, tokens)


def tokens_of(outputs):
    return [token for output in outputs for token in output.tokens]


def wait_until(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.001)


def test_outputs_by_for_and_by_async_for_are_the_same():
    async def read(stream):
        return [output async for output in stream]

    with Service(FakeEngine(counting)) as service:
        outputs = list(service.submit(request()))
        assert tokens_of(outputs) == [0, 1, 2]
        assert [output.finish_reason for output in outputs] == [None, None, "length"]
        assert asyncio.run(read(service.submit(request("b")))) == [
            type(output)("b", *list(vars(output).values())[1:]) for output in outputs
        ]
        assert service.num_open == 0


def test_a_late_reader_takes_what_is_there_at_once():
    with Service(FakeEngine(counting)) as service:
        stream = service.submit(request(tokens=5))
        wait_until(lambda: service.num_open == 0 and stream.ended)
        assert tokens_of([next(stream), *stream.waiting()]) == [0, 1, 2, 3, 4]
        assert stream.waiting() == list(stream) == []


def test_nothing_follows_the_end_of_a_stream():
    stream = Stream(request(), None, close=lambda *arguments: None)
    stream.put(None)
    stream.put(Output("a", (1,), None, 2, 0))
    assert list(stream) == []


def test_many_readers_each_get_their_own_tokens_once():
    answers = {}

    def read(name, count):
        answers[name] = tokens_of(service.submit(request(name, count)))

    with Service(FakeEngine(counting, num_pages=8)) as service:  # few pages: some are preempted
        threads = [threading.Thread(target=read, args=(f"r{n}", 1 + n % 7)) for n in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
    assert answers == {f"r{n}": list(range(1 + n % 7)) for n in range(24)}


def test_the_request_that_is_one_too_many_is_told_when_to_come_back():
    gate = Gate()
    with Service(FakeEngine(counting, gate.wait), max_open=2) as service:
        streams = [service.submit(request(name)) for name in "ab"]
        with pytest.raises(BusyError, match="2 requests wait or run") as caught:
            service.submit(request("c"))
        assert 1 <= caught.value.retry_after <= 60
        gate.open()
        assert [tokens_of(stream) for stream in streams] == [[0, 1, 2]] * 2
        assert tokens_of(service.submit(request("c"))) == [0, 1, 2]


def test_a_request_that_never_fits_is_refused_and_the_others_go_on():
    with Service(FakeEngine(counting, num_pages=2)) as service:
        with pytest.raises(RefusedError, match="the whole pool has 2"):
            list(service.submit(request("long", 100)))
        assert tokens_of(service.submit(request())) == [0, 1, 2]
        assert service.num_open == 0


def test_a_name_is_free_again_after_its_request_ended():
    gate = Gate()
    with Service(FakeEngine(counting, gate.wait)) as service:
        stream = service.submit(request())
        with pytest.raises(ServingError, match="'a' is open already"):
            service.submit(request())
        gate.open()
        assert len(list(stream)) == 3 and len(list(service.submit(request()))) == 3


@pytest.mark.parametrize("steps_before", [0, 1, 3])
def test_a_closed_request_has_no_pages_after_the_step_in_flight(steps_before):
    gate = Gate()
    engine = FakeEngine(counting, gate.wait)
    with Service(engine) as service:
        stream = service.submit(request(tokens=50, prompt=range(20)))
        gate.let(steps_before)
        for _ in range(steps_before):
            next(stream)
        wait_until(lambda: gate.waiting)  # inside the next step
        service.abort("a")
        gate.let(1)
        wait_until(lambda: gate.passed == steps_before + 1 and engine.scheduler.cache.num_available == 64)
        assert list(stream) == [] and not engine.has_work
        engine.scheduler.audit()


def test_a_late_request_is_ended_and_its_pages_are_free():
    gate = Gate()
    engine = FakeEngine(counting, gate.wait)
    with Service(engine) as service:
        stream = service.submit(request(tokens=40), timeout=1000)
        gate.let(1)
        assert next(stream).tokens == (0,)
        stream.deadline = time.monotonic() + 0.02
        with pytest.raises(TimedOut, match="not finished in 1000 s"):  # the engine hangs in its second step
            next(stream)
        gate.open()
        wait_until(lambda: engine.scheduler.cache.num_available == 64)


def test_nobody_has_to_read_for_a_late_request_to_end():
    engine = FakeEngine(counting, lambda: time.sleep(0.002))
    with Service(engine) as service:
        stream = service.submit(request(tokens=200), timeout=0.05)
        wait_until(lambda: service.num_open == 0)
        wait_until(lambda: engine.scheduler.cache.num_available == 64)
        with pytest.raises(TimedOut):
            list(stream)


def test_a_failed_engine_ends_every_request_in_words_until_the_restart():
    gate = Gate()
    service = Service(FakeEngine(counting, gate.wait), lambda: FakeEngine(counting)).start()
    streams = [service.submit(request(name)) for name in "ab"]
    gate.fail(RuntimeError("device lost"))
    for stream in streams:
        with pytest.raises(EngineStopped, match="the engine failed with RuntimeError: device lost.*send it again"):
            list(stream)
    with pytest.raises(EngineStopped, match="device lost"):
        service.submit(request("c"))
    with pytest.raises(EngineStopped, match=r"restart\(\)"):
        service.start()
    assert tokens_of(service.restart().submit(request("c"))) == [0, 1, 2]
    assert service.num_restarts == 1
    service.stop()


def test_the_old_engine_is_gone_before_the_new_one_is_made():
    engine, seen = FakeEngine(counting), []
    engine.itself, old = engine, weakref.ref(engine)
    service = Service(engine, lambda: seen.append(old()) or FakeEngine(counting)).start()
    del engine
    service.restart().stop()
    assert seen == [None]


def test_a_thread_that_is_told_to_exit_ends_its_requests_too():
    gate = Gate()
    service = Service(FakeEngine(counting, gate.wait)).start()
    stream = service.submit(request())
    gate.fail(SystemExit())
    with pytest.raises(EngineStopped, match="SystemExit"):
        next(stream)
    with pytest.raises(ServingError, match="without make_engine"):
        service.restart()


def test_stop_ends_open_requests_and_leaves_no_page_behind():
    gate = Gate()
    engine = FakeEngine(counting, gate.wait)
    service = Service(engine).start()
    stream = service.submit(request(tokens=50))
    wait_until(lambda: gate.waiting)
    stopping = threading.Thread(target=service.stop)
    stopping.start()
    wait_until(lambda: service.state == "stopped")
    gate.open()
    stopping.join()
    with pytest.raises(EngineStopped, match="the service was stopped"):
        list(stream)
    with pytest.raises(EngineStopped, match="the service was stopped"):
        service.submit(request())
    assert engine.scheduler.cache.num_available == 64 and not engine.has_work
    with service.start():  # the same engine is good for another start
        assert len(list(service.submit(request()))) == 3

"""The dashboard of a serving engine: what it shows while the engine runs, its buttons, and what it saves."""

import pytest
from fake_engine import FakeEngine, Gate

pytest.importorskip("ipywidgets", reason="ipywidgets belongs to the notebook environment")

from course_lib import viz  # noqa: E402
from course_lib.serving import Request  # noqa: E402
from course_lib.serving.service import Service  # noqa: E402
from course_lib.viz.dashboard import Dashboard, sentence  # noqa: E402

LOOK = {"running": 2, "waiting": 1, "kv_use": 0.25, "tokens_per_s": 1234.4, "num_preemptions": 3}


class Clock:
    """A clock that only its sleepers move."""

    def __init__(self):
        self.now = 0.0

    def sleep(self, seconds):
        self.now += seconds


class Stats:
    """Numbers that a test sets."""

    num_running = num_waiting = num_output_tokens = num_preemptions = prefix_queries = prefix_hits = 0
    kv_usage = 0.0


class Scripted:
    """A service whose stats follow a script, a step a look."""

    def __init__(self, script):
        self.script, self.submitted = iter(script), []

    @property
    def stats(self):
        found = Stats()
        vars(found).update(next(self.script, {}))
        return found

    def submit(self, request):
        if len(self.submitted) >= 2:
            raise RuntimeError("the queue is <full>")
        self.submitted.append(request)


def test_it_follows_the_engine_until_it_is_idle():
    script = [{}, {"num_running": 3, "kv_usage": 0.5, "num_output_tokens": 30}, {"num_output_tokens": 60}]
    clock = Clock()
    board = Dashboard(Scripted(script), {}, clock=lambda: clock.now, sleep=clock.sleep).follow()
    assert [look["running"] for look in board.history[:3]] == [0, 3, 0] and 2 < clock.now < 4
    assert board.history[1]["tokens_per_s"] == pytest.approx(100) and "course-picture" in board.picture.value
    assert "<td>0 %</td>" in board.numbers.value


def test_buttons_send_requests_under_new_names_and_say_what_was_refused():
    service = Scripted([])
    requests = [Request("a", (1,), 2), Request("b", (1,), 2)]
    clock = Clock()
    board = Dashboard(service, {"two": requests}, clock=lambda: clock.now, sleep=clock.sleep)
    assert viz.serving_dashboard(service, {}).buttons == []
    board.press("two")
    assert [request.name for request in service.submitted] == ["board-1", "board-2"] and not board.words.value
    board.buttons[0].click()
    board.thread.join(10)
    assert board.words.value == "the queue is &lt;full&gt;" and board.buttons[0].description == "two"


def test_its_saved_output_is_a_player_without_a_kernel():
    script = [{"num_running": 1 + i % 7, "kv_usage": i / 40, "num_preemptions": i // 9} for i in range(30)]
    clock = Clock()
    board = Dashboard(Scripted(script), {}, clock=lambda: clock.now, sleep=clock.sleep)
    for _ in range(29):
        clock.sleep(0.3)
        board.look()
    data, _ = board.box._repr_mimebundle_()
    assert "course-player" in data["text/html"] and "3 preemptions" in data["text/plain"]
    assert len(data["text/html"]) < 100_000
    assert "application/vnd.jupyter.widget-view+json" in data


def test_one_look_in_words():
    text = sentence(LOOK | {"prefix_queries": 8, "prefix_hits": 2})
    assert text == (
        "2 requests run, 1 wait; 25 % of the pages in use; 1,234 tokens/s; 3 preemptions; "
        "prompt tokens from the prefix cache: 25 %."
    )
    assert sentence(LOOK | {"prefix_queries": 0, "prefix_hits": 0}).endswith("none.")


def test_a_real_service():
    gate = Gate()
    engine = FakeEngine(lambda sequence: 1, gate.wait, page_size=4, max_num_seqs=1)
    with Service(engine, max_open=4) as service:
        board = Dashboard(service, {"load": [Request("r", (1,) * 5, 3), Request("s", (1,) * 5, 3)]})
        board.press("load")
        gate.let(2)
        for _ in range(200):
            if board.look()["waiting"]:
                break
            board.sleep(0.01)
        assert board.history[-1]["running"] == 1 and board.history[-1]["kv_use"] > 0
        gate.open()
        for stream in board.streams:
            assert sum(len(output.tokens) for output in stream) == 3

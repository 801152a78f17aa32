"""The HTTP server in this process: answers, events, refusals, back-pressure, clients that leave, metrics."""

import argparse
import asyncio
import json
import re
import socket
import time

import httpx
import openai
import pytest
import torch
from fake_engine import FakeEngine, Gate

from course_lib.cli import serve
from course_lib.errors import ModelError, ServingError
from course_lib.model import generate, load_tokenizer
from course_lib.model.shipped import folder, load_shipped
from course_lib.serving import Request
from course_lib.serving.server import Served, create_app, running
from course_lib.serving.server_answers import EventStream
from course_lib.serving.service import Service

TOKENIZER = load_tokenizer(folder("small"))
TEXT = "One 🚀 two. STOP three"
TOKENS = TOKENIZER.encode(TEXT).ids
NUM_PAGES, MAX_LEN = 64, 100


def next_token(sequence):
    """The tokens of TEXT, then end of text."""
    return [*TOKENS, 0][min(sequence.num_produced - 1, len(TOKENS))]


class Course:
    """A server without a port: `post` and `get` give httpx responses."""

    def __init__(self, before_step=lambda: None, *, max_open=8, **limits):
        self.engine = FakeEngine(next_token, before_step, num_pages=NUM_PAGES, max_model_len=MAX_LEN)
        self.service = Service(self.engine, lambda: FakeEngine(next_token), max_open=max_open)
        served = Served("small", TOKENIZER, 4096, MAX_LEN, bos=0, eos=0, **limits)
        self.app = create_app(self.service, served)

    def __enter__(self):
        self.service.start()
        return self

    def __exit__(self, *error):
        self.service.stop()

    def get(self, path):
        return asyncio.run(self.send("GET", path))

    def post(self, path="/v1/completions", **body):
        return asyncio.run(self.ask(path, **body))

    def ask(self, path="/v1/completions", **body):
        start = {"messages": [{"role": "user", "content": "hi"}]} if "chat" in path else {"prompt": "x"}
        return self.send("POST", path, json={"model": "small", "temperature": 0, **start, **body})

    async def send(self, method, path, **content):
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://course") as client:
            return await client.request(method, path, **content)

    @property
    def is_empty(self):
        return self.engine.scheduler.cache.num_available == NUM_PAGES and not self.engine.has_work


@pytest.fixture(scope="module")
def course():
    with Course() as course:
        yield course


def events(response):
    """Objects of a stream whose every frame is `data: …` and an empty line, the last one [DONE]."""
    assert response.headers["content-type"].startswith("text/event-stream")
    frames = response.text.split("\n\n")
    assert frames.pop() == "" and frames.pop() == "data: [DONE]"
    assert all(frame.startswith("data: ") and "\n" not in frame for frame in frames)
    return [json.loads(frame.removeprefix("data: ")) for frame in frames]


def refused(response, status):
    """The sentence of an error in OpenAI's form."""
    error = response.json()["error"]
    assert response.status_code == status and set(error) == {"message", "type", "param", "code"}
    assert error["message"].endswith(".") and " " in error["message"], error["message"]
    return error["message"]


def wait_until(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.001)


# answers


def test_a_completion(course):
    answer = course.post(prompt="hello", max_tokens=50).json()
    assert answer["choices"] == [{"index": 0, "text": TEXT, "logprobs": None, "finish_reason": "stop"}]
    assert answer["object"] == "text_completion" and answer["model"] == "small" and answer["id"].startswith("cmpl-")
    prompt = 1 + len(TOKENIZER.encode("hello").ids)  # it begins with the end-of-text token
    usage = answer["usage"]
    assert usage["prompt_tokens"] == prompt and usage["completion_tokens"] == len(TOKENS) + 1
    assert usage["total_tokens"] == prompt + len(TOKENS) + 1


def test_a_completion_of_tokens_ends_at_max_tokens(course):
    answer = course.post(prompt=[5, 6, 7], max_tokens=2).json()
    assert answer["usage"]["prompt_tokens"] == 3 and answer["usage"]["completion_tokens"] == 2
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["choices"][0]["text"] == TOKENIZER.decode(TOKENS[:2])


def test_a_streamed_completion_is_the_whole_one_in_pieces(course):
    chunks = events(course.post(stream=True, max_tokens=50))
    texts = [chunk["choices"][0]["text"] for chunk in chunks]
    assert "".join(texts) == TEXT and "\ufffd" not in "".join(texts)
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert reasons == [None] * (len(reasons) - 1) + ["stop"]
    assert len({chunk["id"] for chunk in chunks}) == 1


def test_a_stop_string_over_token_borders_is_not_shown(course):
    for stop in ("STOP", ["zz", " two. S"]):
        expected = TEXT.partition(stop if isinstance(stop, str) else stop[1])[0]
        choice = course.post(stop=stop, max_tokens=50).json()["choices"][0]
        assert choice["text"] == expected and choice["finish_reason"] == "stop"
        chunks = events(course.post(stop=stop, max_tokens=50, stream=True))
        assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == expected
        assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    wait_until(lambda: course.is_empty)


def test_a_stop_string_ends_the_request_in_the_engine_too():
    gate = Gate()
    needed = next(n for n in range(len(TOKENS)) if "STOP" in TOKENIZER.decode(TOKENS[:n]))
    with Course(gate.wait) as course:
        gate.let(needed)
        answer = course.post(stop="STOP", max_tokens=90, ignore_eos=True).json()
        assert answer["usage"]["completion_tokens"] == needed
        gate.let(1)  # the step in flight, if it had begun
        wait_until(lambda: course.is_empty)
        assert 'request_success_total{finished_reason="stop",model_name="small"} 1.0' in course.get("/metrics").text


def test_what_could_have_been_a_stop_string_comes_at_the_end(course):
    assert course.post(stop="three!", max_tokens=50).json()["choices"][0]["text"] == TEXT
    chunks = events(course.post(stop="three!", max_tokens=len(TOKENS), stream=True))
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == TEXT


def test_a_chat_whole_and_streamed(course):
    choice = course.post("/v1/chat/completions").json()["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": TEXT} and choice["finish_reason"] == "stop"
    chunks = events(course.post("/v1/chat/completions", stream=True, stream_options={"include_usage": True}))
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks[:-1]]
    assert deltas[0]["role"] == "assistant" and not any("role" in delta for delta in deltas[1:])
    assert "".join(delta.get("content", "") for delta in deltas) == TEXT
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] == len(TOKENS) + 1


def test_a_request_carries_what_was_asked(course, monkeypatch):
    seen = []
    monkeypatch.setattr(
        course.engine, "add", lambda request: seen.append(request) or course.engine.scheduler.add(request)
    )
    options = {"temperature": 0.5, "top_p": 0.9, "top_k": 7, "min_p": 0.1, "seed": 3}
    course.post(**options, priority=2, cache_salt="me", ignore_eos=True, stop="q", max_tokens=3)
    messages = [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    ]
    course.post("/v1/chat/completions", messages=messages, max_completion_tokens=4)
    first, second = seen
    assert vars(first.sampling) == options
    assert (first.priority, first.salt, first.eos, first.stop, first.max_new_tokens) == (2, "me", None, ("q",), 3)
    assert TOKENIZER.decode(second.prompt) == "Be short.\n\nUser: hi\nAssistant:"
    assert second.max_new_tokens == 4 and second.stop == ("\nUser:",) and second.eos == 0


def test_models_and_health(course):
    listed = course.get("/v1/models").json()["data"]
    assert [model["id"] for model in listed] == ["small"] and listed[0]["max_model_len"] == MAX_LEN
    assert course.get("/v1/models/small").json() == listed[0]
    assert course.get("/health").status_code == 200
    refused(course.get("/v1/models/other/one"), 404)


# refusals

ABSURD = {
    "temperature": (-1, 2.5, "0.5", True, [1]),
    "top_p": (0, 1.5, -1),
    "top_k": (-2, 2**31, 1.5),
    "min_p": (-0.1, 2),
    "max_tokens": (0, -5, 1e9, "many", 10**30),
    "seed": (2**63, "x", 1.5),
    "stop": ("", [1], ["a"] * 5, "x" * 300, {}),
    "n": (2, 0, "1"),
    "best_of": (3,),
    "logprobs": (0, 5, True),
    "echo": (True,),
    "logit_bias": ({"5": 1},),
    "presence_penalty": (0.5,),
    "tools": ([{"type": "function"}],),
    "prompt": (None, 5, ["a", "b"], [1.5], [True], [[1], [2]], [-1], [4096], [], [10**30], {"a": 1}),
    "stream": ("yes",),
    "stream_options": ({"other": 1}, 5),
    "priority": (2**40,),
    "model": (None, 7),
    "colour": ("red",),
}


@pytest.mark.parametrize("name", ABSURD)
def test_an_absurd_parameter_is_refused_by_its_name(course, name):
    for value in ABSURD[name]:
        assert name in refused(course.post(**{name: value}), 400)


def test_what_asks_for_nothing_is_taken(course):
    nothing = {"n": 1, "echo": False, "presence_penalty": 0, "frequency_penalty": 0.0, "logit_bias": {}, "tools": []}
    assert course.post(**nothing, logprobs=None, user="me", seed=None, stop=None).status_code == 200


@pytest.mark.parametrize(
    "messages",
    [[], "hi", [{"role": "robot", "content": "x"}], [{"role": "user"}], [{"role": "user", "content": 5}],
     [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]],
)  # fmt: skip
def test_a_message_that_is_none_is_refused(course, messages):
    assert "messages" in refused(course.post("/v1/chat/completions", messages=messages), 400)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe", b"[]", b"null", b"[" * 10_000, b'{"model": "small", "prompt": NaN}', b'{"a": "\\ud800"}',
     b'{"model":"small","prompt":"x","temperature":1e999}', b'{"model":"small","prompt":"x","top_p":NaN}'],
)  # fmt: skip
def test_a_body_that_is_no_request_is_refused(course, body):
    headers = {"Content-Type": "application/json"}
    refused(asyncio.run(course.send("POST", "/v1/completions", content=body, headers=headers)), 400)


def test_other_refusals_have_their_own_status(course):
    assert "'big'" in refused(course.post(model="big"), 404)
    assert course.post(model="big").json()["error"]["code"] == "model_not_found"
    assert "/v1/completions" in refused(course.get("/v2"), 404)
    refused(course.get("/v1/completions"), 405)
    plain = asyncio.run(course.send("POST", "/v1/completions", content=b"{}", headers={"Content-Type": "text/plain"}))
    assert "application/json" in refused(plain, 415)


def test_a_prompt_that_is_too_long_is_refused_with_the_numbers(course):
    response = course.post(prompt=[1] * 90, max_tokens=11)
    assert "90 tokens and max_tokens is 11; together they may be 100" in refused(response, 400)
    assert response.json()["error"]["code"] == "context_length_exceeded"
    assert course.post(prompt=[1] * 89, max_tokens=11).status_code == 200
    refused(course.post("/v1/chat/completions", messages=[{"role": "user", "content": "x y " * 100}]), 400)


def test_a_huge_or_a_slow_body_is_refused():
    async def slowly():
        yield b"{"
        await asyncio.sleep(1)

    with Course(max_body_bytes=1000, read_timeout=0.05) as course:
        assert "1000 bytes" in refused(course.post(prompt="x" * 1000), 413)
        headers = {"Content-Type": "application/json"}
        slow = asyncio.run(course.send("POST", "/v1/completions", content=slowly(), headers=headers))
        assert "0.05 s" in refused(slow, 408)


# load, time, failure


def test_a_full_queue_is_a_429_with_retry_after():
    gate = Gate()

    async def two(course):
        first = asyncio.create_task(course.ask())
        while not course.service.num_open:
            await asyncio.sleep(0.001)
        second = await course.ask()
        gate.open()
        return await first, second

    with Course(gate.wait, max_open=1) as course:
        first, second = asyncio.run(two(course))
    assert first.status_code == 200 and int(second.headers["retry-after"]) >= 1
    assert "ask again in 1 s" in refused(second, 429)


def test_a_request_that_takes_too_long_is_a_504():
    gate = Gate()
    with Course(gate.wait, timeout=0.05) as course:
        assert "0.05 s" in refused(course.post(), 504)
        gate.open()


def test_a_stream_that_takes_too_long_ends_with_an_error(monkeypatch):
    gate, streams = Gate(), []

    async def be_late(course):
        answer = asyncio.create_task(course.ask(stream=True))
        while not (gate.waiting and gate.passed == 3):
            await asyncio.sleep(0.001)
        streams[0].deadline = 0.0
        gate.let(1)
        return await answer

    with Course(gate.wait, timeout=1000) as course:
        submit = course.service.submit
        monkeypatch.setattr(course.service, "submit", lambda *given: streams.append(submit(*given)) or streams[-1])
        gate.let(3)
        last = events(asyncio.run(be_late(course)))[-1]
        assert "1000 s" in last["error"]["message"]
        wait_until(lambda: course.is_empty)


def test_a_failed_engine_is_a_503_until_it_is_restarted():
    gate = Gate()

    async def fail(course, **body):
        answer = asyncio.create_task(course.ask(**body))
        while not gate.waiting:
            await asyncio.sleep(0.001)
        gate.fail(RuntimeError("device lost"))
        return await answer

    with Course(gate.wait) as course:
        gate.let(2)
        last = events(asyncio.run(fail(course, stream=True)))[-1]
        assert "device lost" in last["error"]["message"]
        for response in (course.post(), course.get("/health")):
            assert "device lost" in refused(response, 503) and response.headers["retry-after"] == "1"
        course.service.restart()
        assert course.post().status_code == course.get("/health").status_code == 200


async def leave(app, body, after, gate):
    """A client that goes away after so many pieces of its answer, while the engine is in a step."""
    left, pieces = asyncio.Event(), 0
    request = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]

    async def receive():
        if request:
            return request.pop()
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        nonlocal pieces
        pieces += message["type"] == "http.response.body"

    scope = {"type": "http", "method": "POST", "path": "/v1/completions", "raw_path": b"/v1/completions",
             "query_string": b"", "headers": [(b"content-type", b"application/json")], "http_version": "1.1",
             "scheme": "http", "root_path": "", "asgi": {"version": "3.0", "spec_version": "2.3"}}  # fmt: skip
    answer = asyncio.create_task(app(scope, receive, send))
    while not (gate.waiting and pieces >= after):
        await asyncio.sleep(0.001)
    left.set()
    await answer


@pytest.mark.parametrize("stream, steps", [(True, 3), (True, 0), (False, 2)])
def test_pages_of_a_client_that_left_are_free_after_the_step_in_flight(stream, steps):
    gate = Gate()
    with Course(gate.wait) as course:
        gate.let(steps)
        body = {"model": "small", "prompt": [5] * 30, "max_tokens": 60, "stream": stream}
        asyncio.run(leave(course.app, body, min(steps, 1) if stream else 0, gate))  # pieces may come together
        assert course.service.num_open == 0
        gate.let(1)  # the step in flight
        wait_until(lambda: gate.passed == steps + 1 and course.is_empty)


def test_a_client_that_takes_nothing_is_left_alone_after_a_while():
    async def endless():
        while True:
            yield "data: {}\n\n"

    async def send(message):
        if message["type"] == "http.response.body":
            await asyncio.sleep(60)

    async def stuck(stream):
        await EventStream(endless(), stream, 0.05)({"type": "http"}, asyncio.Event().wait, send)

    with Course() as course:
        asyncio.run(stuck(course.service.submit(Request("slow", (1, 2), 90))))
        wait_until(lambda: course.is_empty)


def test_metrics_have_the_names_that_dashboards_of_vllm_read():
    with Course() as course:
        wait_until(lambda: "vllm:num_requests_running{" in course.get("/metrics").text)  # before the first request too
        for _ in range(3):
            course.post(prompt=[7] * 5, max_tokens=50)
        text = course.get("/metrics").text
    values = {name: float(value) for name, value in re.findall(r"^vllm:(\w+){.*} (\S+)$", text, re.M)}
    for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "num_preemptions_total",
                 "prefix_cache_queries_total", "prefix_cache_hits_total"):  # fmt: skip
        assert values[name] == 0
    count = len(TOKENS) + 1  # with the end of text
    assert values["prompt_tokens_total"] == 3 * 5 and values["generation_tokens_total"] == 3 * count
    for name in ("time_to_first_token", "e2e_request_latency", "request_time_per_output_token"):
        assert values[f"{name}_seconds_count"] == 3
    assert values["inter_token_latency_seconds_count"] == 3 * (count - 1)
    mean = values["inter_token_latency_seconds_sum"] / (count - 1)
    assert values["request_time_per_output_token_seconds_sum"] == pytest.approx(mean)
    assert 'vllm:request_success_total{finished_reason="stop",model_name="small"} 3.0' in text


# the official client, a real port


def test_the_client_of_openai_talks_to_it():
    course = Course()
    with running(course.app) as url, openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        assert [model.id for model in client.models.list()] == ["small"]
        whole = client.completions.create(model="small", prompt="x", max_tokens=50, seed=1)
        assert whole.choices[0].text == TEXT and whole.usage.completion_tokens == len(TOKENS) + 1
        messages = [{"role": "user", "content": "hi"}]
        chat = client.chat.completions.create(model="small", messages=messages)
        assert chat.choices[0].message.content == TEXT and chat.choices[0].finish_reason == "stop"
        options = {"stream": True, "stream_options": {"include_usage": True}, "stop": "STOP"}
        chunks = list(client.chat.completions.create(model="small", messages=messages, **options))
        assert "".join(c.choices[0].delta.content or "" for c in chunks[:-1]) == TEXT.partition("STOP")[0]
        assert chunks[-1].usage.total_tokens > 0
        with pytest.raises(openai.NotFoundError, match="no model 'gpt'"):
            client.completions.create(model="gpt", prompt="x")
        with pytest.raises(openai.BadRequestError, match="logprobs is not supported"):
            client.completions.create(model="small", prompt="x", logprobs=3)
        with client.completions.create(model="small", prompt="x", stream=True, max_tokens=80) as stream:
            next(iter(stream))
        wait_until(lambda: course.is_empty and course.service.num_open == 0)


# the engine and a model that ships with the course


def test_the_command_serves_a_shipped_model():
    options = argparse.ArgumentParser()
    serve.add_arguments(options)
    app, about = serve.application(options.parse_args(["--model", "draft", "--num-pages", "20"]))
    assert about == "draft: 2 layers, width 128, on cpu; 20 pages of 16 tokens."
    model, tokenizer = load_shipped("draft", dtype=torch.float32)
    prompt = "The for statement"
    tokens = generate(model, [[0, *tokenizer.encode(prompt).ids]], max_new_tokens=12)[0]
    with running(app) as url, httpx.Client(base_url=url, timeout=20) as client:
        body = {"model": "draft", "prompt": prompt, "max_tokens": 12, "temperature": 0, "ignore_eos": True}
        answers = [client.post("/v1/completions", json=body).json() for _ in range(2)]
        assert [answer["choices"][0]["text"] for answer in answers] == [tokenizer.decode(tokens)] * 2
        with client.stream("POST", "/v1/completions", json=body | {"max_tokens": 200, "stream": True}) as stream:
            next(stream.iter_lines())
        wait_until(lambda: usage(client) == 0)


def usage(client):
    return float(re.search(r"^vllm:kv_cache_usage_perc{.*} (\S+)$", client.get("/metrics").text, re.M)[1])


def test_a_port_that_is_taken_is_an_error_in_words():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServingError, match=f"127.0.0.1, port {port}: .*in use.*another port"):
            with running(Course().app, port=port):
                pass


def test_a_model_that_is_nowhere_is_an_error_of_the_command():
    with pytest.raises(ModelError, match="gpt-5 is no folder, and no model of this name ships"):
        serve.loaded(argparse.Namespace(model="gpt-5", device=None, dtype=None))

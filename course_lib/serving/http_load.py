"""The same loads over HTTP, against any server that speaks OpenAI's completions and vLLM's metrics.

    run = asyncio.run(drive_http("http://127.0.0.1:8000/v1", "small", OpenLoop(requests)))

Every request is a connection of its own, sent at its time whatever the answers before it do. A piece of text counts as
one arrival; how many tokens an answer had is what the server says at its end. What a turn of a conversation answered is
not known as tokens here, so that the next turn repeats the user's turns alone.

May import: errors, load; httpx.
"""

import asyncio
import json
import re
import time
from dataclasses import dataclass

import httpx

from ..errors import ServingError
from .load import LONGEST_SLEEP, Run, Sample, Timeline

SAMPLE_SECONDS = 0.25  # between two looks at the metrics
GAUGES = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
COUNTERS = ("num_preemptions_total", "generation_tokens_total")
TIMEOUT = httpx.Timeout(None, connect=10)


async def drive_http(url, model, source, *, progress=None, seconds=float("inf"), client=None):
    """Run a load on a server and return its Run; arguments as `load.drive`.

    Parameters
    ----------
    url : str, with its /v1
    model : str, the name under which the server serves
    client : httpx.AsyncClient or None, for tests
    """
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with client or httpx.AsyncClient(limits=limits, timeout=TIMEOUT) as client:
        load = _Load(client, url.rstrip("/"), model, source, progress)
        await load.until_done(seconds)
    return load.run


@dataclass(frozen=True)
class Seen:
    """What the server's counters say of the run."""

    num_preemptions: int


class _Load:
    """One run of a load: its open requests are tasks."""

    def __init__(self, client, url, model, source, progress):
        self.client, self.url, self.model, self.source = client, url, model, source
        self.progress, self.run, self.tasks = progress, Run(), set()
        self.start, self.done, self.counted, self.preempted = time.perf_counter(), 0, None, []

    def now(self):
        return time.perf_counter() - self.start

    async def until_done(self, seconds):
        """Send what is due until nothing is left; what is open after `seconds` is given up."""
        watch = asyncio.create_task(self._watch())
        while self.now() < seconds:
            for item, arrival in self.source.due(self.now()):
                task = asyncio.create_task(self._request(item, arrival))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)
            following = self.source.next_time()
            if not self.tasks and following is None:
                break
            wait = LONGEST_SLEEP if following is None else min(LONGEST_SLEEP, max(0.0, following - self.now()))
            if self.tasks:
                await asyncio.wait(self.tasks, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(wait)
        await self._give_up(watch, seconds)

    async def _give_up(self, watch, seconds):
        for task in [*self.tasks, watch]:
            task.cancel()
        await asyncio.gather(*self.tasks, watch, return_exceptions=True)
        self.run.seconds = self.now()
        await self._look()
        for timeline in self.run.timelines.values():
            if timeline.finish_reason is None and timeline.error is None:
                timeline.error = f"not ended after {seconds:g} s"

    async def _request(self, item, arrival):
        """Send one request and read its events."""
        timeline = self.run.timelines[item.name] = Timeline(item.name, arrival, len(item.prompt))
        try:
            async with self.client.stream("POST", f"{self.url}/completions", json=self._body(item)) as answer:
                if answer.status_code != 200:
                    raise ServingError(_sentence(answer.status_code, await answer.aread()))
                async for line in answer.aiter_lines():
                    self._event(timeline, line)
        except (httpx.HTTPError, ServingError) as error:
            timeline.error = str(error) or type(error).__name__
        self.done += 1
        self.source.finished(item.name, (), self.now())
        if self.progress:
            self.progress(self.done, self.source.num_requests)

    def _body(self, item):
        given = {"model": self.model, "prompt": list(item.prompt), "max_tokens": item.max_new_tokens, "stream": True}
        given |= {"temperature": item.sampling.temperature, "seed": item.sampling.seed, "ignore_eos": item.eos is None}
        given |= {"priority": item.priority} if item.priority else {}
        given |= {"cache_salt": item.salt} if item.salt else {}
        return given | {"stream_options": {"include_usage": True}}

    def _event(self, timeline, line):
        """Note what a line of the event stream says."""
        if not line.startswith("data: ") or line == "data: [DONE]":
            return
        event = json.loads(line.removeprefix("data: "))
        if "error" in event:
            raise ServingError(event["error"]["message"])
        if event.get("usage"):
            timeline.count = event["usage"]["completion_tokens"]
            timeline.num_cached = (event["usage"].get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        for choice in event["choices"]:
            timeline.times.append(self.now())
            timeline.finish_reason = choice["finish_reason"] or timeline.finish_reason

    async def _watch(self):
        while True:
            await self._look()
            await asyncio.sleep(SAMPLE_SECONDS)

    async def _look(self):
        """Sample the server's metrics, where it has them."""
        try:
            text = (await self.client.get(f"{self.url.removesuffix('/v1')}/metrics")).text
        except httpx.HTTPError:
            return
        values = {name: metric(text, name) for name in (*GAUGES, *COUNTERS)}
        if values["num_requests_running"] is not None:
            self._sample(values)

    def _sample(self, values):
        made, before = values["generation_tokens_total"] or 0, self.counted
        self.counted = made
        self.preempted.append(int(values["num_preemptions_total"] or 0))
        self.run.stats = Seen(self.preempted[-1] - self.preempted[0])
        running, waiting, usage = (values[name] or 0.0 for name in GAUGES)
        new = 0 if before is None else int(made - before)
        self.run.samples.append(Sample(self.now(), int(running), int(waiting), usage, new))


def metric(text, name):
    """The value of vllm:NAME in the text of /metrics, summed over its labels; None where it is missing."""
    found = re.findall(rf"^vllm:{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
    return sum(map(float, found)) if found else None


def _sentence(status, body):
    try:
        return f"{status}: {json.loads(body)['error']['message']}"
    except (ValueError, KeyError, TypeError):
        return f"the server answered {status}."

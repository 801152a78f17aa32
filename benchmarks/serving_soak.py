"""A soak test of the HTTP server on the loopback address: what thousands of good, rude and broken clients do to it.

    python3 -m benchmarks.serving_soak --seconds 600 --out benchmarks/results/cpu/serving_soak.csv
    python3 -m benchmarks.serving_soak --dry       a few seconds, the server in this process

Clients read answers whole, in a stream or slowly, leave at any moment, and send malformed JSON, absurd parameters and
no HTTP at all; now and then the engine's thread is killed. Right means: every request is answered once, with the tokens
that it asked for; every refusal is a 4xx with a sentence; greedy answers to one prompt agree, so no two were mixed;
every audit of the pages holds and none is held at the end; the engine is back after each kill; memory does not grow.
"""

import asyncio
import contextlib
import json
import platform
import random
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise

from benchmarks import ROOT, soak_server
from benchmarks.harness import Benchmark, main
from benchmarks.harness.about import package
from benchmarks.soak_clients import BEHAVIOURS, WEIGHTS, Client, Wrong, fetch
from course_lib.serving.server import running

SECONDS, DRY_SECONDS, CLIENTS = 600, 4, 32
KILL_EVERY, SAMPLE_EVERY = 30.0, 1.0  # seconds
WARM_TENTHS = 3  # of the time, after which the memory
GROWTH, GROWTH_MB = 0.03, 8  # may grow by the larger of this share and these megabytes
TOTALS = ("tokens", "kills", "recovery_s", "audits", "preemptions", "wrong", "rss_warm_mb", "rss_end_mb")
COUNTS = ("200", "left", "ended", "400", "404", "405", "413", "429", "503")


class Soak:
    """One soak test of the server at a port."""

    def __init__(self, port, seconds, *, kill_every=KILL_EVERY, patience=60.0, num_clients=CLIENTS, seed=0):
        """kill_every : s; patience : s, for the engine to come back, and to be idle at the end"""
        self.port, self.seconds, self.kill_every, self.num_clients = port, seconds, kill_every, num_clients
        self.patience = patience
        chance = random.Random(seed)
        prompts = [[chance.randrange(4096) for _ in range(80)] for _ in range(6)]
        self.client, self.chance = Client(port, chance, prompts), chance
        self.first = list(BEHAVIOURS)  # each once, then by chance
        self.wrong, self.memory_mb, self.recovery_s = [], [], []

    async def run(self):
        """Attack, wait until the server is idle, and compare its counts with the clients'."""
        self.ends = time.monotonic() + self.seconds
        others = [asyncio.create_task(each()) for each in (self._watch, self._kill)]
        await asyncio.gather(*(self._clients() for _ in range(self.num_clients)))
        await asyncio.gather(*others)
        await self._until(lambda state: state["num_open"] == state["num_held"] == 0, "the server was not idle")
        self.state, self.metrics = await self._state(), (await fetch(self.port, "/metrics"))[1].decode()
        self._compare()

    async def _clients(self):
        while time.monotonic() < self.ends:
            try:
                behaviour = self.first.pop() if self.first else self.chance.choices(list(BEHAVIOURS), WEIGHTS)[0]
                result = await self.client.one(behaviour)
                await asyncio.sleep(self.chance.uniform(0.02, 0.2) if result in (429, 503) else 0)
            except Wrong as wrong:
                self.wrong.append(str(wrong))

    async def _watch(self):
        while time.monotonic() < self.ends:
            self.memory_mb.append((await self._state())["rss_mb"])
            await asyncio.sleep(min(SAMPLE_EVERY, self.seconds / 20))

    async def _kill(self):
        """Kill the engine every now and then; note how long it is away."""
        while time.monotonic() + self.kill_every < self.ends:
            await asyncio.sleep(self.kill_every)
            while not json.loads((await fetch(self.port, "/soak/kill", "POST"))[1])["killed"]:
                await asyncio.sleep(0.001)
            began = time.monotonic()
            kills = len(self.recovery_s) + 1
            await self._until(lambda state, kills=kills: state["num_restarts"] == kills, "the engine was not restarted")
            self.recovery_s.append(time.monotonic() - began)

    async def _state(self):
        state = json.loads((await fetch(self.port, "/soak/state"))[1])
        if state["error"] and "SystemExit" not in state["error"]:
            self.wrong.append(state["error"])
        return state

    async def _until(self, condition, otherwise):
        ends = time.monotonic() + self.patience
        while not condition(await self._state()):
            if time.monotonic() > ends:
                self.wrong.append(f"{otherwise} after {self.patience:g} s")
                return
            await asyncio.sleep(0.02)

    def _compare(self):
        """The server's counts against the clients'."""
        counts = self.client.counts
        read = sum(count for (_, result), count in counts.items() if result == 200)
        open_ended = sum(count for (_, result), count in counts.items() if result in ("left", "ended", 503))
        served = sum(map(float, re.findall(r'request_success_total{finished_reason="length".*} (\S+)', self.metrics)))
        if not read <= served <= read + open_ended:
            self.wrong.append(f"{read} answers were read and {served:.0f} were made; {open_ended} clients left")
        if self.state["num_restarts"] != len(self.recovery_s):
            self.wrong.append(f"{self.state['num_restarts']} restarts for {len(self.recovery_s)} kills")

    def tenths(self):
        """Median memory in each tenth of the time, rounded to 0.1 MB."""
        bounds = [len(self.memory_mb) * tenth // 10 for tenth in range(11)]
        parts = [self.memory_mb[a:b] for a, b in pairwise(bounds) if a < b]
        return [round(statistics.median(part), 1) for part in parts]


def rows_of(load, options):
    """A row of each behaviour, and one of all together."""
    seconds = DRY_SECONDS if options.dry else SECONDS if options.seconds == float("inf") else options.seconds
    with server(options.dry) as port:
        soak = Soak(port, seconds, kill_every=2.0 if options.dry else KILL_EVERY)
        asyncio.run(soak.run())
    client = soak.client
    for behaviour in BEHAVIOURS:
        counts = {str(result): count for (name, result), count in client.counts.items() if name == behaviour}
        yield load | {"behaviour": behaviour, "requests": sum(counts.values())} | counts | times(client, behaviour)
    before, after = soak.tenths()[WARM_TENTHS], soak.tenths()[-1]
    if not options.dry and after - before > max(GROWTH * before, GROWTH_MB):
        soak.wrong.append(f"memory grew from {before:.0f} to {after:.0f} MB")
    counts = Counter()
    for (_, result), count in client.counts.items():
        counts[str(result)] += count
    print(f"memory of the server at each tenth of the time, MB: {soak.tenths()}")
    for sentence in soak.wrong[:20]:
        print(f"wrong: {sentence}")
    yield load | {
        "behaviour": "all", "requests": sum(counts.values()), **counts, "seconds": f"{seconds:g}",
        "tokens": client.num_tokens, "kills": len(soak.recovery_s),
        "recovery_s": f"{max(soak.recovery_s, default=0):.2f}", "audits": soak.state["num_audits"],
        "preemptions": soak.state["num_preemptions"], "wrong": len(soak.wrong), "rss_warm_mb": f"{before:.1f}",
        "rss_end_mb": f"{after:.1f}", "note": f"wrong: {soak.wrong[0]}" if soak.wrong else "",
    }  # fmt: skip


def times(client, behaviour):
    """Columns of the median and the 99th percentile of the time to a whole answer."""
    seconds = sorted(client.seconds[behaviour])
    if not seconds:
        return {}
    late = seconds[int(0.99 * len(seconds))]
    return {"median_ms": f"{1e3 * statistics.median(seconds):.0f}", "p99_ms": f"{1e3 * late:.0f}"}


@contextlib.contextmanager
def server(dry):
    """The port of a server in a process of its own, in a dry run in this one."""
    if dry:
        with running(soak_server.application(*soak_server.real_engine())) as url:
            yield int(url.rpartition(":")[2])
        return
    command = [sys.executable, "-m", "benchmarks.soak_server"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        yield int(child.stdout.readline())
        child.stdin.close()


def machine(options):
    """Machine and software, as columns."""
    return {"python": platform.python_version(), "torch": package("torch"), "commit": options.commit}


BENCHMARK = Benchmark(
    __doc__,
    __file__,
    f"{CLIENTS} clients at once, the draft model in float32, {soak_server.NUM_PAGES} pages of {soak_server.PAGE_SIZE}",
    keys=("model", "behaviour"),
    values=("requests", *COUNTS, "median_ms", "p99_ms", "seconds", *TOTALS, "note"),
    loads=lambda dry: [{"model": "draft"}],
    rows=rows_of,
    shown=("requests", *COUNTS, "median_ms", "p99_ms", *TOTALS),
    compared=(),
    origin=machine,
    gpu=False,
)

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))

"""The soak test in small, against an engine without a model; and that it finds what it looks for."""

import asyncio
import time
from dataclasses import replace

import pytest
from fake_engine import FakeEngine

from benchmarks.serving_soak import Soak
from benchmarks.soak_clients import BEHAVIOURS
from benchmarks.soak_server import MAX_LEN, NUM_PAGES, PAGE_SIZE, application
from course_lib.model import load_tokenizer
from course_lib.model.shipped import folder
from course_lib.serving.server import running


def next_token(sequence):
    """Depends on all tokens before it, so that a mixed-up answer is seen."""
    known = sequence.tokens[:-1]  # without the one that is asked for
    return (7 * sum(known) + len(known)) % 4096


class Engine(FakeEngine):
    def __init__(self):
        sizes = {"num_pages": NUM_PAGES, "page_size": PAGE_SIZE, "max_model_len": MAX_LEN}
        super().__init__(next_token, lambda: time.sleep(0.002), max_num_seqs=12, max_num_tokens=64, **sizes)


class Leaky(Engine):
    """Loses a page with every aborted request."""

    def abort(self, name):
        super().abort(name)
        self.scheduler.cache.allocate(1)


class Hasty(Engine):
    """Drops a token of a request now and then."""

    def step(self):
        return [output for output in super().step() if output.finish_reason or sum(output.tokens) % 16]


class Mixed(Engine):
    """Gives each request the tokens of its neighbour."""

    def step(self):
        outputs = super().step()
        tokens = [output.tokens for output in outputs]
        return [replace(o, tokens=t) for o, t in zip(outputs, tokens[1:] + tokens[:1], strict=True)]


def soak(engine, seconds, *, until_wrong=False, **options):
    async def attack(test):
        soaking = asyncio.create_task(test.run())
        while until_wrong and not test.wrong and not soaking.done():
            await asyncio.sleep(0.01)
        if until_wrong:
            test.ends = time.monotonic()
        await soaking

    with running(application(engine, load_tokenizer(folder("small")))) as url:
        test = Soak(int(url.rpartition(":")[2]), seconds, num_clients=16, **options)
        asyncio.run(attack(test))
    return test


def test_a_few_seconds_of_everything_are_survived():
    test = soak(Engine, 2, kill_every=0.7)
    assert not test.wrong
    assert {behaviour for behaviour, _ in test.client.counts} == BEHAVIOURS.keys()
    assert len(test.recovery_s) >= 1 and test.state["num_audits"] > 0 and test.client.num_tokens > 0


@pytest.mark.parametrize(
    "engine, sentence",
    [(Leaky, "counted 1 times"), (Hasty, "were asked for"), (Mixed, "another answer to its prompt was")],
)
def test_an_engine_that_is_wrong_is_found(engine, sentence):
    test = soak(engine, 8, until_wrong=True, patience=0.2)
    assert any(sentence in wrong for wrong in test.wrong), test.wrong

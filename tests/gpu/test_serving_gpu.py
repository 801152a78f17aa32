"""The serving engine on a GPU: equal tokens in the deterministic mode, graphs beside eager steps, padding, swapping."""

import functools

import pytest
import torch

from course_lib.model import ModelConfig, Sampling, Transformer, random_weights
from course_lib.serving import Request, Scheduler, ServingConfig, ServingEngine, agreement
from course_lib.serving.runner import Runner

LLAMA = ModelConfig("llama", 997, 512, 3, 8, 2, 64, 512, 1024, tie_embeddings=False)
LENGTHS = (1, 15, 16, 17, 200, 5, 133, 64, 300, 2, 31, 90)
TRACES = {  # what happens while the requests are served, and the options of ServingConfig that make it happen
    "": {"num_pages": 256, "prefix": None},
    "eager": {"num_pages": 256, "prefix": None, "graphs": False, "overlap": False},
    "found in chunks": {"num_pages": 256, "max_chunk": 37, "max_num_tokens": 90, "max_num_seqs": 5},
    "preempted": {"num_pages": 40, "admission": "optimistic", "prefix": None},
    "swapped": {"num_pages": 40, "admission": "optimistic", "preempt": "swap", "num_swap_pages": 40},
    "speculating": {"num_pages": 256, "speculate": 3},
}


@functools.cache
def model(dtype=torch.bfloat16):
    """Large weights: other bits are other tokens soon."""
    weights = random_weights(LLAMA, 3, dtype=dtype, device="cuda")
    for tensor in weights.tensors.values():
        if tensor.ndim == 2:
            tensor.mul_(4.0)
    return Transformer(weights)


def requests(new_tokens=40, **options):
    generator = torch.Generator().manual_seed(1)
    prompts = [torch.randint(997, (length,), generator=generator).tolist() for length in LENGTHS]
    prompts[6] = prompts[4][:133]
    return [Request(f"r{i}", tuple(prompt), new_tokens, **options) for i, prompt in enumerate(prompts)]


def serve(todo, **options):
    engine = ServingEngine(model(), None, ServingConfig(**options))
    found = engine.run(todo)
    assert engine.scheduler.cache.num_available == engine.config.num_pages
    return found


@functools.cache
def alone():
    engine = ServingEngine(model(), None, ServingConfig(64, prefix=None, deterministic=True))
    found = {}
    for request in requests():
        found |= engine.run([request])
    return found


@pytest.mark.parametrize("trace", TRACES)
def test_deterministic_tokens_are_those_of_each_request_alone(trace):
    assert serve(requests(), deterministic=True, **TRACES[trace]) == alone()


@pytest.mark.parametrize("trace", TRACES)
def test_fast_tokens_agree_with_the_deterministic_ones_at_first(trace):
    found = serve(requests(new_tokens=3), **TRACES[trace])
    assert agreement(found, {name: tokens[:3] for name, tokens in alone().items()}) >= 0.8


def test_a_request_draws_its_own_tokens_whatever_runs_beside_it():
    samplings = [Sampling(0.9, top_k=40, seed=3), Sampling(), Sampling(1.1, top_p=0.9, min_p=0.02, seed=4)]
    todo = [Request(r.name, r.prompt, 20, samplings[i % 3]) for i, r in enumerate(requests())]
    found = {}
    for request in todo:
        found |= serve([request], num_pages=64, deterministic=True)
    assert serve(todo, num_pages=64, deterministic=True, max_chunk=50) == found


def test_graphs_compute_what_eager_steps_compute():
    """Chunks of prompts, then batches that shrink, all padded: the same tokens, and the same bits in every page."""
    pages, tokens = [], []
    for graphs in (True, False):
        config = ServingConfig(64, max_num_seqs=12, max_chunk=9, max_num_tokens=100, prefix=None, graphs=graphs)
        engine = ServingEngine(model(), None, config)
        num_recorded = len(engine.runner._call.graphs) if graphs else 0
        tokens.append(engine.run([Request(str(i), range(5, 20 + i), 2 + i) for i in range(11)]))
        pages.append(engine.runner.pools.pages)
        assert num_recorded == (len(engine.runner._call.graphs) if graphs else 0)  # none more than the warm-up's
    assert tokens[0] == tokens[1]
    assert torch.equal(*pages)


def test_padding_writes_nowhere():
    config = ServingConfig(64, max_num_seqs=8, overlap=False)
    scheduler, runner = Scheduler(config), Runner(model(), config)
    for index in range(5):
        scheduler.add(Request(str(index), range(5, 25 + index), 8))
    before = None
    for _ in range(5):
        step = scheduler.schedule()
        chosen = runner.run(step).tokens()
        if before is not None:
            changed = (runner.pools.pages != before).flatten(4).any(-1).any(1)  # (2, num_pages, page_size)
            assert changed.flatten(1).sum(1).tolist() == [5, 5]  # of 8 rows
        before = runner.pools.pages.clone()
        scheduler.commit(step, chosen)


def test_steps_of_long_sequences_have_graphs_of_their_own():
    runner = Runner(Transformer(random_weights(LLAMA, 3, dtype=torch.bfloat16, device="cuda")), ServingConfig(64))
    assert runner._longest([3]) == runner._longest([1024]) == 1024  # no sequence of this model is longer
    runner.sequences.table = runner.sequences.table.repeat(8, axis=1)
    assert [runner._longest([n]) for n in (3, 2048, 2049, 5000, 8192)] == [2048, 2048, 4096, 8192, 8192]

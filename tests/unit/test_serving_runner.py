"""The runner on a CPU: in any batch, with chunks, preemptions and overlap, a request has the tokens it has alone."""

import functools
import random
from itertools import pairwise

import pytest
import torch

from course_lib.errors import RefusedError
from course_lib.model import ModelConfig, Sampling, Transformer, generate
from course_lib.model.shipped import load_shipped
from course_lib.serving import Request, Scheduler, ServingConfig, ServingEngine, agreement
from course_lib.serving.graphs import row_buckets, token_buckets
from course_lib.serving.inputs import packed, views
from course_lib.serving.runner import Runner

LLAMA = ModelConfig("llama", 997, 64, 2, 4, 2, 16, 96, 160, tie_embeddings=False)
LENGTHS = (1, 15, 16, 17, 40, 5, 33, 2)
TRACES = {  # what happens while the requests are served, and the options of ServingConfig that make it happen
    "": {"num_pages": 64, "prefix": None},
    "found": {"num_pages": 64, "max_chunk": 7, "max_num_tokens": 24, "max_num_seqs": 6, "prefix": "hash"},
    "found in a tree": {"num_pages": 32, "page_size": 4, "max_num_seqs": 2, "overlap": False},
    "preempted": {"num_pages": 8, "max_num_tokens": 32, "max_num_seqs": 8, "admission": "optimistic", "prefix": None},
    "found preempted": {"num_pages": 40, "page_size": 2, "max_num_tokens": 16, "max_num_seqs": 8, "watermark": 0.0},
    "found preempted swapped": {
        "num_pages": 8, "max_num_seqs": 8, "admission": "optimistic", "preempt": "swap", "num_swap_pages": 8,
    },
    "found accepted": {"num_pages": 64, "speculate": 3, "max_num_seqs": 3},
}  # fmt: skip


@functools.cache
def model(name):
    """The random one is in half precision and has large weights: other bits are other tokens soon."""
    if name == "shipped":
        return load_shipped(dtype=torch.float32)[0]
    return random_model(LLAMA, 3)


def random_model(config, seed):
    found = Transformer.random(config, seed, dtype=torch.bfloat16)
    for tensor in found.weights.tensors.values():
        if tensor.ndim == 2:
            tensor.mul_(4.0)
    return found


def requests(vocab_size, new_tokens=12, **options):
    generator = torch.Generator().manual_seed(1)
    prompts = [torch.randint(vocab_size, (length,), generator=generator).tolist() for length in LENGTHS]
    prompts[6] = prompts[4][:33]  # they share two pages
    return [Request(f"r{i}", tuple(prompt), new_tokens, **options) for i, prompt in enumerate(prompts)]


@functools.cache
def alone(name):
    """name -> tokens, each request by itself, in one step as far as possible."""
    engine = ServingEngine(model(name), None, ServingConfig(16, prefix=None, deterministic=True, overlap=False))
    found = {}
    for request in requests(model(name).config.vocab_size):
        found |= engine.run([request])
    return found


@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize("name", ["shipped", "llama"])
def test_deterministic_tokens_are_those_of_each_request_alone(name, trace):
    engine = ServingEngine(model(name), None, ServingConfig(deterministic=True, **TRACES[trace]))
    assert engine.run(requests(model(name).config.vocab_size)) == alone(name)
    stats = engine.stats()
    counts = {"found": stats.prefix_hits, "preempted": stats.num_preemptions, "accepted": stats.num_accepted}
    counts["swapped"] = engine.scheduler.stats.num_swapped
    assert {name for name, count in counts.items() if count} == set(trace.split()) & set(counts)
    assert engine.scheduler.cache.num_available == engine.config.num_pages


@pytest.mark.parametrize("trace", ["", "found preempted", "found preempted swapped", "found accepted"])
def test_fast_tokens_agree_with_generate_in_float32(trace):
    name = "shipped"
    todo = requests(model(name).config.vocab_size)
    found = ServingEngine(model(name), None, ServingConfig(**TRACES[trace])).run(todo)
    wanted = generate_each(model(name), todo)
    assert agreement(found, wanted) >= 0.9
    assert {key: len(tokens) for key, tokens in found.items()} == {key: len(tokens) for key, tokens in wanted.items()}


def generate_each(model, todo):
    found = {}
    for request in todo:
        options = {"max_new_tokens": request.max_new_tokens, "sampling": request.sampling, "eos": request.eos}
        found[request.name] = generate(model, [list(request.prompt)], **options)[0]
    return found


def test_a_request_draws_its_own_tokens_whatever_runs_beside_it():
    name, todo = "shipped", requests(4096)
    samplings = [Sampling(0.9, top_k=40, seed=3), Sampling(), Sampling(1.1, top_p=0.9, min_p=0.02, seed=4), Sampling()]
    todo = [Request(r.name, r.prompt, 6, samplings[i % 4]) for i, r in enumerate(todo[:4])]
    config = ServingConfig(12, max_chunk=9, max_num_tokens=24, max_num_seqs=4)
    assert agreement(ServingEngine(model(name), None, config).run(todo), generate_each(model(name), todo)) == 1.0


@pytest.mark.parametrize("overlap", [True, False])
def test_a_request_ends_with_its_eos_though_a_step_more_was_started(overlap):
    (prompt,) = [r.prompt for r in requests(997) if r.name == "r4"]
    tokens = alone("llama")["r4"]
    eos = tokens[4]
    todo = [Request("ends", prompt, 12, eos=eos), Request("goes on", prompt, 12)]
    engine = ServingEngine(model("llama"), None, ServingConfig(16, deterministic=True, overlap=overlap))
    assert engine.run(todo) == {"ends": tokens[: tokens.index(eos) + 1], "goes on": tokens}
    assert engine.scheduler.cache.num_available == 16 and not engine.has_work


def test_a_prompt_with_a_number_that_is_no_token_is_refused():
    engine = ServingEngine(model("llama"))
    with pytest.raises(RefusedError, match="has the token 997; the vocabulary has the tokens 0 to 996"):
        engine.add(Request("a", (5, 997), 3))
    assert not engine.has_work and engine.config.num_pages * engine.config.page_size == 8192


def test_an_aborted_request_leaves_the_others_alone():
    todo, engine = requests(997), ServingEngine(model("llama"), None, ServingConfig(32, deterministic=True))
    for request in todo:
        engine.add(request)
    found = {request.name: [] for request in todo}
    for count in range(40):
        if count == 4:
            engine.abort("r4")
        for output in engine.step():
            found[output.name] += output.tokens
    wanted = alone("llama")
    assert {name: tokens for name, tokens in found.items() if name != "r4"} == {
        name: tokens for name, tokens in wanted.items() if name != "r4"
    }
    assert found["r4"] == wanted["r4"][: len(found["r4"])] and 0 < len(found["r4"]) < 12


def test_the_kernels_run_the_same_step_and_padding_writes_nowhere():
    """Course kernels on the SIMT machine: a mixed step by the engine, then a padded one by rows."""
    small = random_model(ModelConfig("llama", 53, 64, 2, 2, 1, 64, 32, 32), 5)
    config = ServingConfig(8, page_size=4, max_num_seqs=3, max_num_tokens=12, max_chunk=4, overlap=False)
    pools, tokens = {}, {}
    for attention in ("kernels", "torch"):
        scheduler, runner = Scheduler(config), Runner(small, config, attention)
        for index, length in enumerate((1, 6, 2)):
            scheduler.add(Request(str(index), range(3, 3 + length), 3))
        tokens[attention] = []
        for _ in range(4):
            step = scheduler.schedule()
            chosen = runner.run(step).tokens()
            tokens[attention].append(chosen)
            scheduler.commit(step, chosen)
        pools[attention] = runner.pools.pages
    assert tokens["kernels"] == tokens["torch"]
    torch.testing.assert_close(pools["kernels"].float(), pools["torch"].float(), rtol=0, atol=0.05)
    assert bool((pools["torch"] == 0).flatten(4).all(-1).any())  # some slots are nobody's
    assert torch.equal(pools["kernels"] == 0, pools["torch"] == 0)


def test_no_batch_after_the_warm_up_needs_larger_buffers():
    """Records of ragged steps hold their addresses."""
    chance, sizes = random.Random(0), token_buckets(512)
    small = Transformer.random(ModelConfig("llama", 53, 64, 1, 2, 1, 64, 32, 512), dtype=torch.bfloat16)
    runner = Runner(small, ServingConfig(32, max_num_seqs=8), "kernels")
    runner.attention.reserve(sizes, 8, 512, 32)
    before = runner.attention.addresses
    for _ in range(40):
        starts = sorted({0, chance.choice(sizes), *chance.choices(range(1, 64), k=chance.randint(0, 7))})
        lengths = [min(512, end - start + chance.choice((0, 3, 400))) for start, end in pairwise(starts)]
        runner.attention.ragged(starts, lengths, torch.zeros(len(lengths), 32, dtype=torch.int32), None)
    assert runner.attention.addresses == before


def test_swapped_pages_come_back_as_they_were():
    config = ServingConfig(8, page_size=4, num_swap_pages=4)
    pools = Runner(model("llama"), config).pools
    pools.pages.normal_()
    before = pools.pages.clone()
    pools.swap([(2, 3), (5, 0)], [])
    pools.pages[:, :, [2, 5]] = 0.0
    pools.swap([], [(7, 3), (1, 0)])
    assert torch.equal(pools.pages[:, :, [7, 1]], before[:, :, [2, 5]])
    assert torch.equal(pools.pages[:, :, [0, 3, 4, 6]], before[:, :, [0, 3, 4, 6]])


def test_inputs_keep_their_values_and_padding_is_harmless():
    arrays = {"ids": [5, -1], "slots": [3, 9], "top_p": [0.5]}
    found = views(packed(arrays, 3, 4, {"rows": 7, "places": 70, "targets": 7}, pin=False), 3, 4)
    assert found["ids"].tolist() == [5, -1, 0] and found["slots"].tolist() == [3, 9, -1]
    assert found["top_p"].tolist() == [0.5, 1.0, 1.0, 1.0] and found["rows"].tolist() == [7, 7, 7]
    assert found["seq_lens"].tolist() == [0, 0, 0] and found["targets"].tolist() == [7] * 4


@pytest.mark.parametrize(
    "most, sizes", [(1, [1]), (3, [1, 2, 3]), (8, [1, 2, 4, 8]), (27, [1, 2, 4, 8, 16, 24, 27]), (4, [1, 2, 4])]
)
def test_row_buckets(most, sizes):
    assert row_buckets(most) == sizes


@pytest.mark.parametrize(
    "most, sizes", [(8, [8]), (64, [64]), (100, [64, 80, 96, 100]), (256, [64, 80, 96, 112, 128, 160, 192, 224, 256])]
)
def test_token_buckets(most, sizes):
    assert token_buckets(most) == sizes

"""The tensor parallel Transformer against one rank: logits, decoding from the cache, tokens, bytes."""

import dataclasses
from collections import Counter

import pytest
import torch

from course_lib.errors import WorldError
from course_lib.model import ModelConfig, Transformer, generate, random_weights
from course_lib.ops._foundation.launch import watched
from course_lib.parallel import run, tensor_model
from course_lib.parallel.tensor_model import TensorParallel, model_bytes

CONFIGS = {
    "gpt2": ModelConfig("gpt2", 61, 32, 2, 4, 4, 8, 64, 48),
    "llama grouped": ModelConfig("llama", 61, 32, 2, 4, 2, 8, 40, 48, tie_embeddings=False),
    "llama tied, one KV head": ModelConfig("llama", 61, 32, 2, 4, 1, 8, 40, 48),
}
IDS = torch.randint(61, (2, 7), generator=torch.Generator().manual_seed(0))
PROMPTS = [[7, 3, 19, 60, 0], [11], [42, 8, 23]]


def weights_of(config, dtype=torch.float64):
    """Weights large enough that the tokens differ; biases that are not 0."""
    weights = random_weights(config, 3)
    generator = torch.Generator().manual_seed(1)
    for tensor in weights.tensors.values():
        tensor.add_(0.2 * torch.randn(tensor.shape, generator=generator))
    return weights.to(dtype=dtype)


FEW = {
    "gpt2": ModelConfig("gpt2", 61, 256, 2, 4, 4, 64, 256, 48),
    "llama": ModelConfig("llama", 61, 128, 2, 4, 2, 64, 128, 48, tie_embeddings=False),
}
LAYER = ["norm_qkv_kernel", "grouped_heads_kernel", "linear_kernel", "norm_linear_kernel", "linear_kernel"]


def step(model):
    """Logits of the token after a prompt."""
    cache = model.new_cache(1, 10)
    model.prefill(IDS[:1], [7], cache)
    return model.step(IDS[:1, 0].contiguous(), cache).double()


def require_near_exact(found, weights):
    """Logits of bfloat16 that err at most twice as much as those of one rank."""
    exact = step(Transformer(weights.to(dtype=torch.float64)))
    limit = 2 * (step(Transformer(weights).use("fast")) - exact).abs().max()
    assert all((logits - exact).abs().max() <= limit for logits in found)


@pytest.mark.parametrize("name", FEW)
@torch.no_grad()
def test_a_step_of_few_tokens_is_five_launches_a_layer_and_two_all_reduces(name):
    weights = weights_of(FEW[name], torch.bfloat16)

    def function(world):
        with torch.no_grad():
            return step(TensorParallel.shard(world, weights).use("fast"))

    with watched() as launches:
        outcome = run(function, 2)
    launched = Counter(launch.function.name for launch in launches)
    expected = Counter(2 * 2 * LAYER) + Counter(2 * ["norm_linear_kernel"])  # ranks, layers; and a head
    assert {kernel: launched[kernel] for kernel in expected} == expected
    labels = [event.label for event in outcome.events if event.rank == 1]
    assert labels[-5:] == ["out", "down", "out", "down", "logits"]
    require_near_exact(outcome.results, weights)


@pytest.mark.parametrize("name", FEW)
@torch.no_grad()
def test_a_world_with_an_inbox_for_products_sums_in_their_launch(name, monkeypatch):
    """On GPUs alone: here the kernel is a product and an all-reduce of float32."""
    weights = weights_of(FEW[name], torch.bfloat16)

    def emulated(x, weight, inbox, *, bias, residual, out):
        total = inbox.all_reduce(x.float() @ weight.float().T)
        out.copy_(total + residual + (0.0 if bias is None else bias))

    def function(world):
        world.products = world  # no inbox, but what `emulated` needs
        with torch.no_grad():
            return step(TensorParallel.shard(world, weights).use("fast"))

    monkeypatch.setattr(tensor_model, "takes", lambda *_: True)
    monkeypatch.setattr(tensor_model, "linear_all_reduce", emulated)
    outcome = run(function, 2)
    labels = [(event.label, event.sent) for event in outcome.events if event.rank == 1 and event.label]
    sent = 4 * FEW[name].hidden_size  # float32 of one token to one peer
    assert labels[-5:-1] == [("out", sent), ("down", sent)] * 2
    require_near_exact(outcome.results, weights)


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_logits_of_prefill_and_steps_equal_one_rank(name, num_ranks):
    weights = weights_of(CONFIGS[name])

    def forward(model):
        cache = model.new_cache(2, 10)
        first = model.prefill(IDS, [7, 4], cache)
        return torch.stack((first, model.step(IDS[:, 0], cache), model.step(IDS[:, 1], cache)))

    def function(world):
        with torch.no_grad():
            return forward(TensorParallel.shard(world, weights))

    outcome, expected = run(function, num_ranks), forward(Transformer(weights))
    for found in outcome.results:
        # the rotary table is float32 on both sides
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    sent = sum(model_bytes(CONFIGS[name], num_ranks, tokens, 2, 8) for tokens in (14, 2, 2))
    assert outcome.sent(0) == outcome.sent(num_ranks - 1) == sent
    assert outcome.count("all_reduce") == 3 * (2 * 2 + 1)


def test_generated_tokens_equal_one_rank():
    weights = weights_of(CONFIGS["llama grouped"], torch.float32)

    def function(world):
        return generate(TensorParallel.shard(world, weights), PROMPTS, max_new_tokens=6)

    expected = generate(Transformer(weights), PROMPTS, max_new_tokens=6)
    assert run(function, 2).results == [expected, expected]


def test_the_parts_hold_every_weight_once():
    config = CONFIGS["llama grouped"]
    weights = random_weights(config, 3)

    def function(world):
        return sum(tensor.numel() for tensor in TensorParallel.shard(world, weights).weights.tensors.values())

    norms = (2 * config.num_layers + 1) * config.hidden_size
    padding = 2 * config.hidden_size  # 61 tokens in 2 parts of 31, twice
    assert sum(run(function, 2).results) == weights.num_parameters + norms + padding


def test_heads_that_do_not_divide_are_refused():
    config = dataclasses.replace(CONFIGS["llama grouped"], num_heads=6, num_kv_heads=3)
    weights = random_weights(config)
    with pytest.raises(WorldError, match="6 query heads and 3 KV heads on 4 ranks"):
        run(lambda world: TensorParallel.shard(world, weights), 4)

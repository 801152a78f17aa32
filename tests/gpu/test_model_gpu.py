"""Models on a GPU: full shapes beside transformers, the course's kernels beside torch's, a step as a CUDA graph."""

import pytest
import torch

from course_lib.model import (
    Decoder,
    ModelConfig,
    NgramDraft,
    Sampling,
    Transformer,
    generate,
    random_weights,
    speculate,
)
from course_lib.model.generate import prompt_len

SMALL = {
    "gpt2": ModelConfig("gpt2", 997, 256, 3, 4, 4, 64, 512, 512),
    "llama": ModelConfig("llama", 997, 256, 3, 4, 2, 64, 512, 512, tie_embeddings=False),
}
PROMPTS = [list(range(5, 150)), [7], [3, 9, 4, 400, 3, 9, 4]]


def small(name, dtype=torch.bfloat16):
    """Weights so large that the logits are far apart."""
    weights = random_weights(SMALL[name], 3, dtype=dtype, device="cuda")
    for tensor in weights.tensors.values():
        if tensor.ndim == 2:
            tensor.mul_(5.0)
    return weights


@torch.no_grad()
def steps(model):
    """Logits of a ragged prefill, of a step and of three tokens at once, float32."""
    ids = torch.zeros(len(PROMPTS), max(map(len, PROMPTS)), dtype=torch.int64)
    for row, prompt in zip(ids, PROMPTS, strict=True):
        row[: len(prompt)] = torch.tensor(prompt)
    cache = model.new_cache(len(PROMPTS), 200)
    logits = [model.prefill(ids.cuda(), [len(prompt) for prompt in PROMPTS], cache)]
    logits.append(model.step(ids[:, 0].cuda(), cache))
    logits.append(model.extend(ids[:, :3].cuda(), cache).flatten(0, 1))
    return torch.cat(logits).float()


@pytest.mark.parametrize("backend", ["fast", "course", "torch"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", SMALL)
def test_logits_of_every_backend(name, dtype, backend):
    weights = small(name, dtype)
    expected = steps(Transformer(weights.to(dtype=torch.float32)).use("torch"))
    error = (steps(Transformer(weights).use(backend)) - expected).abs().max() / expected.std()
    assert error <= (0.05 if dtype == torch.float16 else 0.4)


@pytest.mark.parametrize("name", SMALL)
def test_a_graph_makes_the_tokens_of_the_eager_step(name):
    model, prompts = Transformer(small(name)), [list(range(5, 165)), *PROMPTS[1:]]
    assert prompt_len(160) == 160, "a prefill that is padded for its record has other shapes, and rounds otherwise"
    rows = [Sampling(), Sampling(0.9, top_k=50, top_p=0.9, seed=1), Sampling(1.2, min_p=0.05, seed=2)]
    for samplings in ([Sampling()] * 3, rows):
        recorded, eager = (Decoder(model, 3, 200, 40, graph=graph) for graph in (True, False))
        options = {"max_new_tokens": 40, "sampling": samplings, "decoder": recorded}
        tokens = generate(model, prompts, **options)
        assert generate(model, prompts, **options) == tokens, "replayed for a batch of its own"
        eager.start(prompts, samplings, 40)
        with eager.cache.lengths_on_device():  # the bound on the lengths decides how the keys are split
            for _ in range(39):
                eager._step()
        assert eager.tokens.T.tolist() == tokens


def test_rows_end_at_eos_and_stream():
    model = Transformer(small("llama"))
    free = generate(model, PROMPTS, max_new_tokens=40)
    eos = free[0][20]
    ended = generate(model, PROMPTS, max_new_tokens=40, eos=eos)
    assert ended == [row[: row.index(eos) + 1] if eos in row else row for row in free]


def test_four_bits_equal_their_dense_matrices():
    weights = small("llama")
    model = Transformer(weights).quantised()
    got, expected = (steps(model.use("fast", packed_linear=backend)) for backend in ("course", "torch"))
    assert (got - expected).abs().max() / expected.std() <= 0.4


def test_look_up_makes_the_models_tokens_but_for_near_ties():
    model = Transformer(small("llama", torch.float16))
    tokens, counts = speculate(model, PROMPTS[2], NgramDraft(), max_new_tokens=60)
    expected = generate(model, PROMPTS[2:], max_new_tokens=60)[0]
    assert tokens[:20] == expected[:20] and counts.rounds + counts.accepted >= 60


@torch.no_grad()
@pytest.mark.parametrize("name", ["gpt2", "llama-1.1b"])
def test_full_shapes_equal_transformers(name):
    pytest.importorskip("transformers")
    from benchmarks.harness.model_peers import hugging_face

    weights = random_weights(ModelConfig.named(name), 0, device="cuda")
    ids = torch.randint(weights.config.vocab_size, (2, 300), device="cuda")
    expected = hugging_face(weights, "sdpa")(ids).logits
    torch.testing.assert_close(Transformer(weights).use("torch").forward(ids), expected, rtol=1e-3, atol=1e-3)
    attention = Transformer(weights).use("torch", attention="course").forward(ids)
    torch.testing.assert_close(attention, expected, rtol=1e-3, atol=5e-3)

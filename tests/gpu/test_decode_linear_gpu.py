"""Products of one to eight tokens on the GPU in hand: layers of models, and steps of dependent launches in a graph."""

import pytest
import torch
from norm_cases import assert_near

from course_lib.model import ModelConfig, Transformer
from course_lib.ops import decode_linear as ops
from course_lib.reference import activation, norm


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [(2048, 2048), (2048, 5632), (768, 3072), (1000, 72), (50257, 768)], ids=str)
def test_linear(size, dtype):
    size_n, size_k = size
    torch.manual_seed(size_n)
    x, residual = torch.randn(8, size_k, device="cuda").to(dtype), torch.randn(8, size_n, device="cuda").to(dtype)
    weight = (torch.randn(size, device="cuda") / size_k**0.5).to(dtype)
    want = x.double() @ weight.double().T + residual.double()
    together = ops.linear(x, weight, residual=residual)
    assert_near(together, want, dtype)
    for num_tokens in (1, 3):
        part = ops.linear(x[:num_tokens], weight, residual=residual[:num_tokens])
        assert torch.equal(part, together[:num_tokens])


@pytest.mark.parametrize("num_tokens", [1, 8])
@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_norm_linear(kind, num_tokens):
    torch.manual_seed(num_tokens)
    x, norm_weight = (torch.randn(*shape, device="cuda").bfloat16() + 1.0 for shape in ((num_tokens, 2048), (2048,)))
    weight = (torch.randn(11264, 2048, device="cuda") / 2048**0.5).bfloat16()
    norm_bias = torch.randn(2048, device="cuda").bfloat16() if kind == "layer" else None
    got = ops.norm_linear(x, norm_weight, weight, norm=kind, norm_bias=norm_bias, activation="swiglu")
    exact = norm.rms_norm(x, norm_weight, 1e-5) if kind == "rms" else norm.layer_norm(x, norm_weight, norm_bias, 1e-5)
    want = activation.swiglu(*(exact.bfloat16().double() @ weight.double().T).chunk(2, -1))
    assert_near(got, want, torch.bfloat16, units=2)


@pytest.mark.parametrize("num_tokens", [1, 8])
@pytest.mark.parametrize(("kind", "size"), [("rms", (32000, 2048)), ("layer", (50257, 768))])
def test_the_head(kind, size, num_tokens):
    """The last norm and the head in one launch; 50,257 rows have several blocks a multiprocessor."""
    torch.manual_seed(num_tokens)
    size_n, size_k = size
    x, norm_weight = (
        torch.randn(*shape, device="cuda").bfloat16() + 1.0 for shape in ((num_tokens, size_k), (size_k,))
    )
    weight = (torch.randn(size, device="cuda") / size_k**0.5).bfloat16()
    norm_bias = torch.randn(size_k, device="cuda").bfloat16() if kind == "layer" else None
    got = ops.norm_linear(x, norm_weight, weight, norm=kind, norm_bias=norm_bias)
    exact = norm.rms_norm(x, norm_weight, 1e-5) if kind == "rms" else norm.layer_norm(x, norm_weight, norm_bias, 1e-5)
    assert_near(got, exact.bfloat16().double() @ weight.double().T, torch.bfloat16, units=2)


@torch.no_grad()
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_steps_of_dependent_launches_equal_the_plain_ones(name):
    """Each kernel starts before the one in front of it has ended, and reads what that one wrote: 40 replayed steps."""
    heads = 4 if name == "gpt2" else 2
    config = ModelConfig(name, 997, 256, 6, 4, heads, 64, 512, 256, tie_embeddings=name == "gpt2")
    model = Transformer.random(config, 5, dtype=torch.float16, device="cuda")
    found = []
    for few_tokens in (True, False):
        model.use("fast", few_tokens=few_tokens)
        cache, ids = model.new_cache(1, 64), torch.tensor([[3, 1, 4]], device="cuda")
        model.prefill(ids, [3], cache)
        token, rows = ids[0, :1].clone(), []
        step = lambda model=model, cache=cache, token=token: model.step(token, cache)  # noqa: E731
        with cache.lengths_on_device():
            step()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                logits = step()
            for index in range(40):
                token.fill_(index % 97)
                graph.replay()
                rows.append(logits.float().clone())
        found.append(torch.cat(rows))
    error = (found[0] - found[1]).abs().max() / found[1].std()
    assert error <= 0.05, error

"""A block of a tiny model on the course's kernels, run by the SIMT machine, beside torch's."""

import pytest
import torch

from course_lib.errors import UnsupportedError
from course_lib.measure.dispatch import OperatorNames
from course_lib.model import Kernels, ModelConfig, Sampling, Transformer, few_tokens, generate
from course_lib.model.generate import Decoder
from course_lib.model.packed import pack
from course_lib.model.yours import work_kernels
from course_lib.ops._foundation.launch import watched

SIZES = {
    "gpt2": ModelConfig("gpt2", 29, 128, 1, 2, 2, 64, 128, 32),
    "llama": ModelConfig("llama", 29, 128, 1, 2, 1, 64, 128, 32, tie_embeddings=False),
}
PROMPTS = torch.tensor([[3, 1, 28, 7, 7], [5, 0, 9, 0, 0]])


@pytest.fixture(scope="module", params=SIZES)
def weights(request):
    model = Transformer.random(SIZES[request.param], seed=2)
    generator = torch.Generator().manual_seed(0)
    for tensor in model.weights.tensors.values():  # norms and biases that are not 1 and 0, larger matrices
        tensor.mul_(3.0).add_(torch.randn(tensor.shape, generator=generator), alpha=0.05)
    return model.weights


def run(model):
    """Logits of a prefill, a step and an extension, float32."""
    with torch.no_grad():
        cache = model.new_cache(2, 12)
        logits = [model.prefill(PROMPTS, [5, 3], cache), model.step(PROMPTS[:, 0], cache)]
        logits.append(model.extend(PROMPTS[:, :2], cache).flatten(0, 1))
    return torch.cat(logits).float()


def test_half_precision_step_equals_torchs(weights):
    model = Transformer(weights.to(dtype=torch.float16))
    expected = run(Transformer(weights))
    got = run(model.use("course"))
    assert set(model.kernels.sources.values()) == {"course"}
    torch.testing.assert_close(got, expected, rtol=0.02, atol=0.02 * float(expected.abs().max()))
    torch.testing.assert_close(run(model.use("fast")), expected, rtol=0.02, atol=0.02 * float(expected.abs().max()))


@torch.no_grad()
def test_few_tokens_are_five_launches_a_layer(weights):
    """And one for the head, unless an operation is chosen by hand, weights are packed, or there are nine tokens."""
    model = Transformer(weights.to(dtype=torch.float16)).use("fast")
    layer = ["norm_qkv_kernel", "grouped_heads_kernel", "linear_kernel", "norm_linear_kernel", "linear_kernel"]

    def launched(model, num_rows=1):
        cache, ids = model.new_cache(num_rows, 9), torch.zeros(num_rows, dtype=torch.int64)
        with watched() as launches:
            model.step(ids, cache)
        return [launch.function.name for launch in launches]

    assert launched(model)[1:] == [*layer, "norm_linear_kernel"]
    assert "linear_kernel" not in launched(model, num_rows=9) + launched(model.use("fast", few_tokens=False))
    assert not few_tokens.fits(model.use("fast").quantised(), 1)
    assert not work_kernels(model.config).few_tokens and not Kernels("fast", decode="torch").few_tokens


@torch.no_grad()
def test_forward_in_float32_equals_torchs(weights):
    model = Transformer(weights)
    expected = model.forward(PROMPTS)
    torch.testing.assert_close(model.use("course").forward(PROMPTS), expected, rtol=1e-4, atol=1e-4)


def test_gradients_come_through_the_courses_kernels(weights):
    model = Transformer(weights.to(dtype=torch.float32))
    found = {}
    for backend in ("torch", "course"):
        tensors = {name: x.clone().requires_grad_() for name, x in weights.tensors.items()}
        model = Transformer(type(weights)(weights.config, tensors)).use(backend)
        logits = model.forward(PROMPTS).flatten(0, 1)
        loss = model.kernels.cross_entropy(logits, PROMPTS.roll(-1, 1).flatten())
        loss.backward()
        found[backend] = {name: x.grad for name, x in tensors.items()}
    for name, expected in found["torch"].items():
        torch.testing.assert_close(found["course"][name], expected, rtol=1e-3, atol=1e-5, msg=lambda m, n=name: n + m)


def test_choosing_tokens_equals_torchs():
    logits = torch.randn(3, 40, generator=torch.Generator().manual_seed(1))
    logits[1, 7] = logits[1, 30] = 9.0
    ours, theirs = Kernels("course"), Kernels("torch")
    assert torch.equal(ours.greedy(logits), theirs.greedy(logits))
    options = {"top_k": torch.tensor([0, 5, 10], dtype=torch.int32), "top_p": torch.tensor([0.9, 1.0, 0.5])}
    for draw in (0.01, 0.37, 0.98):
        noise, temperature = torch.full((3,), draw), torch.tensor([1.0, 0.0, 1.7])
        ours_now = ours.sample(logits, temperature, noise, **options)
        assert torch.equal(ours_now, theirs.sample(logits, temperature, noise, **options))


@pytest.mark.parametrize("rows", [None, [Sampling(0.8, seed=2), Sampling(1.1, top_p=0.9, seed=3)]])
def test_a_step_is_counted_in_the_launch_that_chooses(rows, monkeypatch):
    """The same tokens and counts come of a choice that counts nothing, with launches of its own for that."""
    model = Transformer.random(SIZES["llama"], seed=2).use("torch", greedy="course", sample="course")
    prompts = [[3, 1, 28], [5]]

    def generated():
        decoder = Decoder(model, 2, 12, 7)
        with OperatorNames() as names:
            tokens = generate(model, prompts, max_new_tokens=7, sampling=rows, decoder=decoder)
        assert decoder.tokens.T.tolist() == tokens
        return tokens, decoder.cache.counts.tolist(), sum(name.startswith("index_copy_") for name in names.names)

    tokens, counts, copies = generated()
    monkeypatch.setattr(Kernels, "counts", lambda self, operation: False)
    assert generated() == (tokens, counts, 7) and copies == 1  # the first token's, which no step chooses
    assert counts[:4] == [3 + 6, 1 + 6, 3 + 7, 1 + 7] and counts[-4:] == [6, 0, 6, 0]


def test_four_bits(weights):
    matrix = weights.layers[0]["qkv.weight"].half()
    packed = pack(matrix, 64)
    step = (matrix.float().unflatten(1, (-1, 64)).amax(-1) - matrix.float().unflatten(1, (-1, 64)).amin(-1)) / 15
    assert ((packed.dense() - matrix).abs().unflatten(1, (-1, 64)).amax(-1) <= 0.51 * step + 1e-3).all()
    for num_tokens in (1, 9, 40):
        x = torch.randn(num_tokens, 128, generator=torch.Generator().manual_seed(3)).half()
        expected = x.float() @ packed.dense().float().T
        torch.testing.assert_close(Kernels("course").packed_linear(x, packed).float(), expected, rtol=1e-2, atol=2e-2)
    model = Transformer(weights.to(dtype=torch.float16)).quantised()
    assert model.weights.num_bytes < 0.5 * Transformer(weights).weights.to(dtype=torch.float16).num_bytes
    torch.testing.assert_close(run(model.use("fast")), run(model.use("torch", linear="torch")), rtol=0.05, atol=0.2)


def test_an_operation_or_backend_that_does_not_exist():
    with pytest.raises(UnsupportedError, match="'conv' is no operation"):
        Kernels("torch", conv="course")
    with pytest.raises(UnsupportedError, match="'naive' has no decode"):
        Kernels("torch", decode="naive")


def test_a_graph_can_record_that_a_packed_matrix_is_made_dense():
    """A list that becomes an index is a tensor on the host, whose copy to the GPU no graph records."""
    matrix = pack(torch.randn(6, 256, dtype=torch.bfloat16), 128)
    with OperatorNames() as seen:
        matrix.dense()
    assert "__rshift__" in seen.names and not {"index", "lift_fresh", "lift_fresh_copy"} & {*seen.names}, seen.names

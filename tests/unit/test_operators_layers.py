"""The kernels of chapter 12 as PyTorch operators: opcheck, gradients beside torch's own, one graph of torch.compile."""

import pytest
import torch
from torch.nn import functional as F

from course_lib import operators
from course_lib.errors import ShapeError
from course_lib.ops import w4a16 as w4a16_ops
from course_lib.ops.rope import cos_sin_cache
from course_lib.reference import moe as moe_reference
from course_lib.reference import w4a16 as w4a16_reference

QUICK = ("test_schema", "test_autograd_registration", "test_faketensor")


def draw(*shape, dtype=torch.float32, seed=0, grad=True):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)
    return x.requires_grad_(grad)


def strided(*shape, seed=0):
    """Rows two numbers further apart than they are wide."""
    return draw(*shape[:-1], shape[-1] + 2, seed=seed).detach()[..., : shape[-1]].requires_grad_()


POSITIONS, TABLE = torch.tensor([3, 0, 2]), cos_sin_cache(4, 8)
IDS, TARGETS = torch.tensor([[2, 0, 2], [5, 1, 2]]), torch.tensor([3, -100, 0])
NOISE, TEMPERATURE = torch.tensor([0.1, 0.7, 0.4]), torch.tensor([0.0, 1.0, 0.7])


def four_bits():
    q = torch.randint(0, 16, (6, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    scales = 0.1 + torch.rand(2, 6, generator=torch.Generator().manual_seed(2))
    return w4a16_ops.pack(q), scales.half(), torch.full((2, 6), 7, dtype=torch.uint8)


def experts():
    halves = {"dtype": torch.float16, "grad": False}
    return draw(3, 16, **halves), draw(3, 4, grad=False), draw(4, 16, 16, **halves), draw(4, 16, 8, **halves)


def rope_of_torch(q, k, positions, table, interleaved=False, inverse=False):
    def turned(x):
        half = table.shape[1] // 2
        cosines, sines = (part[positions][:, None] for part in (table[:, :half], table[:, half:]))
        sines = -sines if inverse else sines
        parts = (x[..., 0:8:2], x[..., 1:8:2]) if interleaved else (x[..., :4], x[..., 4:8])
        a, b = parts[0] * cosines - parts[1] * sines, parts[1] * cosines + parts[0] * sines
        pairs = torch.stack((a, b), dim=-1).flatten(-2) if interleaved else torch.cat((a, b), dim=-1)
        return torch.cat((pairs, x[..., 8:]), dim=-1)

    return turned(q), turned(k)


def add_rms_norm_of_torch(x, residual, weight, eps):
    total = x + residual
    return F.rms_norm(total, weight.shape, weight, eps), total


def swiglu_of_torch(gate, up=None, activation="silu"):
    gate, up = gate.chunk(2, -1) if up is None else (gate, up)
    return (F.silu(gate) if activation == "silu" else F.gelu(gate, approximate="tanh")) * up


def embedding_of_torch(ids, table, positions=None, position_table=None):
    return table[ids] + (0 if positions is None else position_table[positions])


# name -> (arguments, torch's own form of the operator)
DIFFERENTIABLE = {
    "layer_norm": (
        lambda: (strided(2, 3, 5), draw(5), draw(5, seed=1), 1e-5),
        lambda x, w, b, eps: F.layer_norm(x, w.shape, w, b, eps),
    ),
    "layer_norm, no bias": (lambda: (draw(3, 8), draw(8)), lambda x, w: F.layer_norm(x, w.shape, w)),
    "rms_norm": (lambda: (strided(3, 5), draw(5), 1e-6), lambda x, w, eps: F.rms_norm(x, w.shape, w, eps)),
    "add_rms_norm": (lambda: (strided(3, 5), draw(3, 5, seed=2), draw(5), 1e-6), add_rms_norm_of_torch),
    "rope": (lambda: (draw(3, 2, 10), draw(3, 1, 10), POSITIONS, TABLE), rope_of_torch),
    "rope, interleaved": (lambda: (draw(3, 2, 8), draw(3, 1, 8), POSITIONS, TABLE, True, True), rope_of_torch),
    "gelu_tanh": (lambda: (strided(3, 5),), lambda x: F.gelu(x, approximate="tanh")),
    "swiglu": (lambda: (strided(3, 5), draw(3, 5)), swiglu_of_torch),
    "swiglu, one tensor": (lambda: (strided(3, 8), None, "gelu_tanh"), swiglu_of_torch),
    "embedding": (lambda: (IDS, draw(6, 5)), embedding_of_torch),
    "embedding, positions": (lambda: (IDS, draw(6, 5), IDS, draw(7, 5)), embedding_of_torch),
    "cross_entropy": (
        lambda: (strided(3, 9), TARGETS, -100, 0.1),
        lambda x, t, i, s: (
            F.cross_entropy(x, t, ignore_index=i, label_smoothing=s, reduction="none"),
            x.detach().logsumexp(1) * (t != i),
        ),
    ),
}
OTHERS = {
    "add_rms_norm_": lambda: (draw(3, 5, grad=False), draw(3, 5, seed=1, grad=False), draw(5, grad=False), 1e-6),
    "rope_": lambda: (draw(3, 2, 10, grad=False), draw(3, 1, 10, grad=False), POSITIONS, TABLE, True),
    "sample": lambda: (draw(3, 9, grad=False), TEMPERATURE, NOISE, torch.tensor([3, 0, 2], dtype=torch.int32)),
    "w4a16_linear": lambda: (draw(2, 2, 64, dtype=torch.float16, grad=False), *four_bits()),
    "moe": lambda: (*experts(), 2),
}
CASES = {name: make for name, (make, _) in DIFFERENTIABLE.items()} | OTHERS


def operator(name):
    return getattr(operators, name.split(",")[0])


def results(out):
    return [out] if isinstance(out, torch.Tensor) else [each for each in out or () if each.dtype.is_floating_point]


@pytest.mark.parametrize("name", CASES)
def test_schema_fake_and_autograd_agree_with_the_kernel(name):
    whole = {} if name.startswith("add_rms_norm") else {"test_utils": QUICK}  # the whole check traces as well
    torch.library.opcheck(operator(name), CASES[name](), **whole)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_results_and_gradients_are_those_of_torch(name):
    make, of_torch = DIFFERENTIABLE[name]
    ours, theirs = make(), make()
    got, want = results(operator(name)(*ours)), results(of_torch(*theirs))
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=2e-6, atol=2e-6)
    gradients = []
    for arguments, outs in ((ours, got), (theirs, want)):
        leaves = [x for x in arguments if isinstance(x, torch.Tensor) and x.requires_grad]
        total = sum((out * draw(*out.shape, seed=5, grad=False)).sum() for out in outs if out.requires_grad)
        gradients.append(torch.autograd.grad(total, leaves))
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=5e-6)


def test_a_sum_gives_gradients_too():
    """The gradient of a sum is one number seen through strides of 0."""
    for name in DIFFERENTIABLE:
        arguments = CASES[name]()
        leaves = [x for x in arguments if isinstance(x, torch.Tensor) and x.requires_grad]
        grads = torch.autograd.grad(results(operator(name)(*arguments))[0].sum(), leaves, allow_unused=True)
        assert all(grad is None or torch.isfinite(grad).all() for grad in grads)


def test_a_layer_compiles_without_a_graph_break_and_gives_the_same_bits():
    table, weight = draw(6, 8), draw(8)

    def layer(table, weight):
        x = operators.embedding(IDS, table).view(6, 8)
        normed, x = operators.add_rms_norm(operators.rms_norm(x, weight), x, weight)
        q, k = operators.rope(x.view(6, 1, 8), normed.view(6, 1, 8), torch.arange(6) % 4, TABLE)
        x = operators.swiglu((q + k).view(6, 8)) + operators.gelu_tanh(operators.layer_norm(x, weight))[:, :4]
        return operators.cross_entropy(x, torch.arange(6) % 4)[0].sum()

    want, got = layer(table, weight), torch.compile(layer, fullgraph=True, backend="aot_eager")(table, weight)
    assert torch.equal(want, got)
    for a, b in zip(*(torch.autograd.grad(out, (table, weight)) for out in (want, got)), strict=True):
        assert torch.equal(a, b)


def test_what_serves_compiles_and_in_place_order_is_kept():
    x, residual, weight, eps = OTHERS["add_rms_norm_"]()
    packed = OTHERS["w4a16_linear"]()
    mixture = OTHERS["moe"]()

    def step(x, residual):
        before = residual.sum()
        operators.add_rms_norm_(x, residual, weight, eps)
        tokens = operators.sample(x, TEMPERATURE, NOISE)
        return before, residual.sum(), x * 2, tokens, operators.w4a16_linear(*packed), operators.moe(*mixture)

    want = step(x.clone(), residual.clone())
    got = torch.compile(step, fullgraph=True, backend="aot_eager")(x, residual)
    assert all(torch.equal(a, b) for a, b in zip(want, got, strict=True))
    assert torch.equal(2 * x, got[2]) and torch.equal(residual.sum(), got[1]) and not torch.equal(got[0], got[1])


def test_products_are_those_of_the_references():
    x, *weights = OTHERS["w4a16_linear"]()
    want = w4a16_reference.product(x.view(4, 64), *weights).view(2, 2, 6)
    torch.testing.assert_close(operators.w4a16_linear(x, *weights).double(), want, rtol=2e-3, atol=2e-3)
    *tensors, top_k = OTHERS["moe"]()
    want = moe_reference.moe(*tensors, top_k=top_k)
    torch.testing.assert_close(operators.moe(*tensors, top_k).double(), want, rtol=2e-2, atol=5e-3)


def test_errors_stay_sentences():
    with pytest.raises(ShapeError, match="weight is torch.float32"):
        operators.rms_norm(draw(3, 5), draw(4))

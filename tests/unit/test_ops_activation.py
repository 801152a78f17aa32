"""Tanh-GELU and the gated product, forward and backward: both twins, +-100, halves, in place, bytes, sentences."""

import pytest
import torch
from norm_cases import assert_near, rows

from course_lib.device import has_gpu
from course_lib.errors import ShapeError, UnsupportedError
from course_lib.ops import activation as ops
from course_lib.reference import activation as reference

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in exp")  # of the interpreter; exp(100) is meant
LANGUAGES = ("cuda", "triton")
WHERE = "cuda" if has_gpu() else "cpu"  # these tests also run on a GPU
SIZES = [(5, 1), (9, 33), (3, 1000), (2, 4096)]


def inputs(num_rows, num_cols, dtype=torch.float32):
    """(d_out, [gate | up]) with a row of +100 and one of -100 in the gate, where the exponential overflows."""
    both = 3.0 * rows(num_rows, 2 * num_cols, dtype, device=WHERE)
    both[0, :num_cols], both[1, :num_cols] = 100.0, -100.0
    return rows(num_rows, num_cols, dtype, seed=1, device=WHERE), both


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gelu_is_right(size, dtype, language):
    d_out, x = inputs(*size, dtype)
    x = x[:, : size[1]]
    assert_near(ops.gelu_tanh(x, language=language), reference.gelu_tanh(x), dtype)
    got = ops.gelu_tanh_backward(d_out, x, language=language)
    assert_near(got, reference.gelu_tanh_backward(d_out, x), dtype)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("activation", ops.GATES)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_gated_product_is_right(size, dtype, activation, language):
    d_out, both = inputs(*size, dtype)
    gate, up = both.chunk(2, dim=-1)
    options = {"activation": activation, "language": language}
    want = reference.swiglu(gate, up, activation)
    got = ops.swiglu(both, **options)
    assert_near(got, want, dtype)
    assert torch.equal(ops.swiglu(gate.contiguous(), up, **options), got)
    wants = reference.swiglu_backward(d_out, gate, up, activation)
    got = ops.swiglu_backward(d_out, both, **options)
    assert_near(got, torch.cat(wants, dim=-1), dtype)
    apart = ops.swiglu_backward(d_out, gate, up.contiguous(), **options)
    assert torch.equal(torch.cat(apart, dim=-1), got)


def test_tanh_and_erf_differ_where_a_test_can_see_it():
    """At +-2.7 the two GELUs are 3e-4 apart: the kernel is the tanh one."""
    x = torch.tensor([[2.7, -2.7]], device=WHERE)
    erf = torch.nn.functional.gelu(x.double())
    got = ops.gelu_tanh(x).double()
    assert (got - reference.gelu_tanh(x)).abs().max() < 2e-6 and (got - erf).abs().min() > 1e-4


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_slope_is_that_of_the_function(language):
    """Against differences of the float64 reference."""
    x = torch.linspace(-6, 6, 97, device=WHERE)[None]
    one, step = torch.ones_like(x), 1e-5
    got = ops.gelu_tanh_backward(one, x, language=language)
    slope = (reference.gelu_tanh(x.double() + step) - reference.gelu_tanh(x.double() - step)) / (2 * step)
    assert (got - slope).abs().max() < 1e-5
    d_gate, _ = ops.swiglu_backward(one, x, one, language=language)
    slope = (reference.silu(x.double() + step) - reference.silu(x.double() - step)) / (2 * step)
    assert (d_gate - slope).abs().max() < 1e-5


@pytest.mark.parametrize("language", LANGUAGES)
def test_in_place(language):
    d_out, both = inputs(4, 40)
    gate, up = both.chunk(2, dim=-1)
    want, wants = reference.swiglu(gate, up), torch.cat(reference.swiglu_backward(d_out, gate, up), dim=-1)
    own = both.clone()
    assert ops.swiglu(own, out=own[:, 40:], language=language).data_ptr() == own[:, 40:].data_ptr()
    assert_near(own[:, 40:], want, torch.float32)
    assert torch.equal(own[:, :40], gate)
    own = both.clone()
    assert ops.swiglu_backward(d_out, own, out=own, language=language) is own
    assert_near(own, wants, torch.float32)
    x = gate.contiguous()
    want = reference.gelu_tanh(x)
    assert ops.gelu_tanh(x, out=x, language=language) is x
    assert_near(x, want, torch.float32)


@pytest.mark.parametrize("language", LANGUAGES)
def test_traffic_is_each_number_once(language):
    x = rows(6, 1000, torch.float16)
    both, moved = torch.cat((x, x), dim=-1), x.numel() * 2
    for launch, reads, writes in (
        (ops.plan_gelu_tanh(x, language=language), 1, 1),
        (ops.plan_swiglu(both, language=language), 2, 1),
        (ops.plan_gelu_tanh_backward(x, x, language=language), 2, 1),
        (ops.plan_swiglu_backward(x, both, language=language), 3, 2),
    ):
        assert launch.traffic() == (reads * moved, writes * moved)


@pytest.mark.parametrize("schedule", ["forward", "random"])
def test_cuda_kernels_are_free_of_findings(schedule):
    for num_cols in (33, 1000):
        d_out, both = inputs(5, num_cols, torch.bfloat16)
        for launch in (ops.plan_swiglu(both), ops.plan_swiglu_backward(d_out, both), ops.plan_gelu_tanh(d_out)):
            report = launch.profile(schedule)
            assert report.ok, report


def test_what_does_not_fit_is_refused_in_words():
    d_out, both = inputs(3, 8)
    for wrong, sentence in (
        (lambda: ops.swiglu(both[:, :15].contiguous()), "an even number"),
        (lambda: ops.swiglu(both, d_out), r"up is torch.float32 \(3, 8\)"),
        (lambda: ops.swiglu_backward(d_out[:2], both), r"gate is torch.float32 \(3, 8\)"),
        (lambda: ops.gelu_tanh(both.T), "must be contiguous"),
        (lambda: ops.gelu_tanh(both.long()), "float32, float16 or bfloat16"),
    ):
        with pytest.raises(ShapeError, match=sentence):
            wrong()
    with pytest.raises(UnsupportedError, match="silu, gelu_tanh"):
        ops.swiglu(both, activation="relu")

"""Cross-entropy, forward and backward: both twins, any width, ignored rows, smoothing, large logits, bytes."""

import math

import pytest
import torch
import torch.nn.functional as F
from norm_cases import assert_near

from course_lib.device import has_gpu
from course_lib.errors import ShapeError, UnsupportedError
from course_lib.ops import cross_entropy as ops
from course_lib.reference import cross_entropy as reference

LANGUAGES = ("cuda", "triton")
WHERE = "cuda" if has_gpu() else "cpu"  # these tests also run on a GPU
WIDTHS = (1, 7, 33, 1000, 8200)


def inputs(num_cols, dtype=torch.float32, *, num_rows=5, stride=None):
    """(logits, targets): the second row is ignored, the last target is the last class; rows `stride` apart."""
    generator = torch.Generator().manual_seed(num_cols)
    wide = 5.0 * torch.randn(num_rows, stride or num_cols, generator=generator)
    targets = torch.randint(0, num_cols, (num_rows,), generator=generator)
    targets[1], targets[-1] = -100, num_cols - 1
    return wide.to(dtype).to(WHERE)[:, :num_cols], targets.to(WHERE)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("num_cols", WIDTHS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_loss_and_gradient_are_right(num_cols, dtype, smoothing, language):
    logits, targets = inputs(num_cols, dtype, stride=num_cols + 8)
    logits[1] = torch.nan  # of an ignored row nothing is read
    options = {"label_smoothing": smoothing, "language": language}
    loss, lse = ops.cross_entropy(logits, targets, **options)
    logits[1] = 0.0
    want = reference.cross_entropy(logits, targets, label_smoothing=smoothing)
    for got, right in zip((loss, lse), want, strict=True):
        assert_near(got, right, torch.float32)
    assert loss[1] == lse[1] == 0.0
    d_loss = torch.rand(len(targets), generator=torch.Generator().manual_seed(1)).to(WHERE)
    right = reference.cross_entropy_backward(d_loss, logits, targets, label_smoothing=smoothing)
    logits[1] = torch.nan
    out = torch.full_like(logits, torch.nan)
    assert ops.cross_entropy_backward(d_loss, logits, targets, lse, out=out, **options) is out
    assert_near(out, right, dtype)
    assert not out[1].any()
    assert ops.cross_entropy_backward(d_loss, logits, targets, lse, **options) is logits
    assert torch.equal(logits, out)


@pytest.mark.parametrize("language", LANGUAGES)
def test_it_is_what_torch_computes(language):
    logits, targets = inputs(100)
    x = logits.clone().requires_grad_()
    want = F.cross_entropy(x, targets, label_smoothing=0.2)
    want.backward()
    options = {"label_smoothing": 0.2, "language": language}
    loss, lse = ops.cross_entropy(logits, targets, **options)
    count = (targets != -100).sum()
    assert torch.isclose(loss.sum() / count, want, rtol=1e-6)
    got = ops.cross_entropy_backward(1.0 / count.float(), logits, targets, lse, **options)
    assert torch.allclose(got, x.grad, atol=1e-6)


@pytest.mark.parametrize("language", LANGUAGES)
def test_large_rising_and_masked_logits(language):
    logits, targets = inputs(3000)
    targets[:] = 10
    logits[0] = torch.linspace(-100, 100, 3000)  # the maximum grows in every step
    logits[1] = torch.linspace(100, -100, 3000)
    logits[2], logits[3] = -math.inf, 88.0
    logits[2, 10] = 3.0
    logits[4, 2000:] = -math.inf
    loss, lse = ops.cross_entropy(logits, targets, language=language)
    want = reference.cross_entropy(logits, targets)
    assert_near(loss, want[0], torch.float32)
    assert_near(lse, want[1], torch.float32)
    right = reference.cross_entropy_backward(torch.ones(1, device=WHERE), logits, targets)
    got = ops.cross_entropy_backward(torch.ones(1, device=WHERE), logits, targets, lse, language=language)
    assert (got - right).abs().max() < 2e-5  # exp of a difference of numbers near 100, each rounded to 4e-6


@pytest.mark.parametrize("language", LANGUAGES)
def test_traffic_is_one_read_and_then_one_read_and_one_write(language):
    """Beside the logits a row reads its target's logit, target and, backward, lse and d_loss."""
    logits, targets = inputs(1000, torch.float16, num_rows=4)
    targets[1] = 0
    moved = logits.numel() * 2
    launch = ops.plan(logits, targets, language=language)
    read, written = launch.traffic()
    rows = 8 * 4 * (launch.block if language == "cuda" else 1)  # each thread reads the target
    assert (read, written) == (moved + rows + 2 * 4, 2 * 4 * 4)
    lse = torch.logsumexp(logits.float(), dim=-1)
    launch = ops.plan_backward(torch.ones(1), logits, targets, lse, out=torch.empty_like(logits), language=language)
    threads = launch.grid[0] * launch.grid[1] * (launch.block if language == "cuda" else 1)
    assert launch.traffic() == (moved + 16 * threads, moved)


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random", "resident"])
def test_cuda_kernels_are_free_of_findings(schedule):
    for num_cols, dtype in ((33, torch.float32), (500, torch.bfloat16), (5001, torch.float16)):
        logits, targets = inputs(num_cols, dtype, num_rows=3)
        out = torch.empty_like(logits)
        lse = torch.logsumexp(logits.float(), dim=-1)
        back = ops.plan_backward(torch.ones(1), logits, targets, lse, label_smoothing=0.1, out=out)
        for launch in (ops.plan(logits, targets, label_smoothing=0.1), back):
            report = launch.profile(schedule)
            assert report.ok, report


def test_what_does_not_fit_is_refused_in_words():
    logits, targets = inputs(8)
    lse = torch.zeros(5, device=WHERE)
    for wrong, sentence in (
        (lambda: ops.cross_entropy(logits, targets.int()), "targets is torch.int32"),
        (lambda: ops.cross_entropy(logits[:3], targets), r"torch.int64 \(3,\)"),
        (lambda: ops.cross_entropy(logits[None], targets), r"expected \(num_rows, num_cols\)"),
        (lambda: ops.cross_entropy(logits.T, targets), "must be contiguous"),
        (lambda: ops.cross_entropy_backward(lse[:2], logits, targets, lse), "d_loss is torch.float32"),
        (lambda: ops.cross_entropy_backward(lse, logits, targets, lse[:2]), "lse is torch.float32"),
    ):
        with pytest.raises(ShapeError, match=sentence):
            wrong()
    with pytest.raises(UnsupportedError, match="from 0 to 1"):
        ops.cross_entropy(logits, targets, label_smoothing=2.0)
    if WHERE == "cpu":
        with pytest.raises(ShapeError, match="the classes are 0 to 7"):
            ops.cross_entropy(logits, targets + 1)

"""Cross-entropy on the GPU in hand, in both languages: few rows and many, any vocabulary, no such class."""

import pytest
import torch
from norm_cases import assert_near

from course_lib.ops import cross_entropy as ops
from course_lib.reference import cross_entropy as reference


@pytest.mark.parametrize("language", ["cuda", "triton"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [(3, 1), (5000, 10), (700, 1000), (8, 50257), (400, 50304), (40, 128256)], ids=str)
def test_loss_and_gradient(size, dtype, smoothing, language):
    logits = (5.0 * torch.randn(size, device="cuda")).to(dtype)
    targets = torch.randint(0, size[1], size[:1], device="cuda")
    targets[1] = -100
    options = {"label_smoothing": smoothing, "language": language}
    loss, lse = ops.cross_entropy(logits, targets, **options)
    want = reference.cross_entropy(logits, targets, label_smoothing=smoothing)
    assert_near(loss, want[0], torch.float32, units=4)
    assert_near(lse, want[1], torch.float32)
    d_loss, terms = torch.rand(size[0], device="cuda"), logits.abs().max()  # a rounding of lse is a factor of exp
    want = reference.cross_entropy_backward(d_loss, logits, targets, label_smoothing=smoothing)
    got = ops.cross_entropy_backward(d_loss, logits, targets, lse, **options)
    assert got is logits
    assert_near(got, want, dtype, terms=terms)


@pytest.mark.parametrize("language", ["cuda", "triton"])
def test_no_such_class_is_a_loss_of_nan(language):
    logits, targets = torch.randn(4, 100, device="cuda"), torch.tensor([3, 100, -1, 99], device="cuda")
    loss, _ = ops.cross_entropy(logits, targets, language=language)
    assert loss.isnan().tolist() == [False, True, True, False]

"""The launchers of chapter 02: both twins against torch, odd shapes, bytes by formula, errors as sentences."""

import pytest
import torch

from course_lib.device import has_gpu
from course_lib.errors import LaunchError, ShapeError, UnsupportedError
from course_lib.ops import first_kernels as ops

LANGUAGES = ("cuda", "triton")
WHERE = "cuda" if has_gpu() else "cpu"  # these tests also run on a GPU
SHAPES = [(1, 1), (5, 31), (3, 129), (2, 1100)]


def numbers(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(WHERE)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("num_elements", [1, 127, 128, 1000])
def test_add(language, num_elements):
    x, y = numbers(num_elements), numbers(num_elements, seed=1)
    assert torch.equal(ops.add(x, y, language=language), x + y)
    assert ops.plan_add(x, y, language=language).traffic() == (8 * num_elements, 4 * num_elements)


@pytest.mark.parametrize("language", LANGUAGES)
def test_add_without_a_tail_takes_whole_blocks_alone(language):
    x = numbers(256)
    assert torch.equal(ops.add(x, x, variant="01_add", language=language), x + x)
    with pytest.raises(ShapeError, match="multiple of 128"):
        ops.add(x[:100], x[:100], variant="01_add", language=language)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("variant", ["01_shared_tree", "02_warp_shuffle", "03_warp_rows"])
@pytest.mark.parametrize("shape", SHAPES)
def test_row_sum(variant, language, shape):
    x = numbers(*shape)
    assert (ops.row_sum(x, variant=variant, language=language) - x.double().sum(1)).abs().max() <= 1e-4
    assert ops.plan_row_sum(x, variant=variant, language=language).traffic() == (4 * x.numel(), 4 * len(x))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("variant", ["01_unfused", "02_fused"])
@pytest.mark.parametrize("shape", SHAPES)
def test_row_softmax(variant, language, shape):
    x = numbers(*shape) + 100.0
    out = ops.row_softmax(x, variant=variant, language=language)
    assert (out - torch.softmax(x.double(), 1)).abs().max() <= 1e-6


@pytest.mark.parametrize("language", LANGUAGES)
def test_fusing_saves_the_bytes_between(language):
    x = numbers(4, 1024)
    elements = 4 * x.numel()
    assert ops.plan_row_softmax(x, variant="02_fused", language=language).traffic() == (elements, elements)
    read, written = ops.plan_row_softmax(x, variant="01_unfused", language=language).traffic()
    readers = 4 * (ops.BLOCK if language == "cuda" else 1)  # in CUDA every thread reads m and l of its row
    assert (read, written) == (3 * elements + 2 * 4 * readers, 2 * elements + 2 * 4 * 4)


@pytest.mark.parametrize("variant", ["01_shared_tree", "02_warp_shuffle", "03_warp_rows"])
def test_no_finding_under_any_schedule(variant):
    launch = ops.plan_row_sum(numbers(3, 300), variant=variant)
    assert all(launch.profile(schedule).ok for schedule in ("forward", "reverse", "random", "resident"))


def test_errors_are_sentences():
    x = numbers(4, 8)
    with pytest.raises(UnsupportedError, match="01_unfused, 02_fused"):
        ops.row_softmax(x, variant="03_fused")
    with pytest.raises(UnsupportedError, match="language"):
        ops.row_sum(x, language="c")
    with pytest.raises(ShapeError, match="same length"):
        ops.add(x[0], x[0, :3])
    with pytest.raises(ShapeError, match="contiguous"):
        ops.row_sum(x.t())
    with pytest.raises(LaunchError, match="shared_bytes"):
        ops.row_softmax(torch.zeros(1, 10**6, device=WHERE))

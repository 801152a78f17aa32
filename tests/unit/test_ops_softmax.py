"""The launchers of the softmax family: both twins, odd shapes, masked rows, bytes by formula, errors as sentences."""

import math

import pytest
import torch

from course_lib.device import has_gpu
from course_lib.errors import ShapeError, UnsupportedError
from course_lib.ops import softmax as ops

LANGUAGES = ("cuda", "triton")
WHERE = "cuda" if has_gpu() else "cpu"  # these tests also run on a GPU
ROW_VARIANTS = ops.ROW_VARIANTS


def scores(num_rows, num_cols, seed=0):
    """Rows near -100, near 0 and near +100, one climbing, one fully masked when there is room."""
    generator = torch.Generator().manual_seed(seed)
    x = (
        torch.randn(num_rows, num_cols, generator=generator)
        + torch.tensor([-100.0, 0.0, 100.0]).repeat(num_rows)[:num_rows, None]
    )
    if num_rows > 3:
        x[3] = torch.linspace(-100, 100, num_cols)
    if num_rows > 4:
        x[4] = -math.inf
    return x.to(WHERE)


def expected(x):
    return torch.nan_to_num(torch.softmax(x.double(), dim=-1), nan=0.0)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("variant", ROW_VARIANTS)
@pytest.mark.parametrize(("num_rows", "num_cols"), [(1, 1), (5, 31), (6, 33), (7, 129), (3, 1100)])
def test_row_softmax_is_right(variant, language, num_rows, num_cols):
    x = scores(num_rows, num_cols)
    out = ops.softmax(x, variant=variant, language=language)
    assert out.shape == x.shape and out.dtype == x.dtype
    assert (out - expected(x)).abs().max() <= 1e-6


@pytest.mark.parametrize("language", LANGUAGES)
def test_log_sum_exp_is_right(language):
    x = scores(6, 301).half()
    lse = ops.log_sum_exp(x, language=language)
    wanted = torch.logsumexp(x.double(), dim=1)
    assert lse.dtype == torch.float32 and lse[4] == wanted[4] == -math.inf
    finite = wanted.isfinite()
    assert (lse - wanted)[finite].abs().max() <= 1e-4


@pytest.mark.parametrize("language", LANGUAGES)
def test_masked_softmax_is_right(language):
    batch_size, seq_len_q, seq_len_kv = 4, 5, 37
    x = torch.randn(batch_size, seq_len_q, seq_len_kv, generator=torch.Generator().manual_seed(1)).to(WHERE)
    lens = torch.tensor([0, 3, 20, 37], dtype=torch.int32, device=WHERE)
    keys, queries = torch.arange(seq_len_kv, device=WHERE), torch.arange(seq_len_q, device=WHERE)
    visible = keys <= (queries[:, None] + lens[:, None, None] - seq_len_q)
    wanted = x.double().masked_fill(~visible, -math.inf)
    out, lse = ops.masked_softmax(x.masked_fill(~visible, math.nan), lens, language=language)
    assert (out - expected(wanted)).abs().max() <= 1e-6
    wanted_lse = torch.logsumexp(wanted, dim=-1)
    assert torch.equal(lse.isinf(), wanted_lse.isinf())
    assert (lse - wanted_lse)[wanted_lse.isfinite()].abs().max() <= 1e-5


@pytest.mark.parametrize("language", LANGUAGES)
def test_traffic_is_the_formula_of_the_chapter(language):
    x = torch.randn(8, 512, device=WHERE)
    elements = x.numel() * 4
    assert ops.plan(x, variant="01_three_pass", language=language).traffic() == (3 * elements, elements)
    assert ops.plan(x, variant="02_online", language=language).traffic() == (2 * elements, elements)
    assert ops.plan(x, variant="03_online_warp", language=language).traffic() == (2 * elements, elements)
    half = ops.plan(x.half(), variant="04_log_sum_exp", language=language)
    assert half.traffic() == (elements // 2, 4 * 8)


@pytest.mark.parametrize("variant", ROW_VARIANTS)
@pytest.mark.parametrize("schedule", ["forward", "reverse", "random", "resident"])
def test_cuda_kernels_are_free_of_findings(variant, schedule):
    report = ops.plan(scores(5, 140), variant=variant).profile(schedule)
    assert report.ok, report


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        (torch.zeros(3), "x has 1 dimensions"),
        (torch.zeros(0, 4), "at least 1"),
        (torch.zeros(2, 4).half(), "this kernel takes torch.float32"),
        (torch.zeros(4, 2).T, "not contiguous"),
    ],
)
def test_wrong_tensors_are_refused_in_words(x, sentence):
    with pytest.raises(ShapeError, match=sentence):
        ops.softmax(x)


def test_wrong_lengths_are_refused_in_words():
    x = torch.zeros(2, 3, 4)
    with pytest.raises(ShapeError, match="got nothing"):
        ops.masked_softmax(x, None)
    with pytest.raises(ShapeError, match="torch.int64"):
        ops.masked_softmax(x, torch.tensor([1, 2]))
    with pytest.raises(ShapeError, match="0 .. seq_len_kv=4"):
        ops.masked_softmax(x, torch.tensor([1, 5], dtype=torch.int32))


def test_unknown_names_are_refused_in_words():
    with pytest.raises(UnsupportedError, match="02_online"):
        ops.softmax(torch.zeros(1, 1), variant="2")
    with pytest.raises(UnsupportedError, match='"cuda" or "triton"'):
        ops.softmax(torch.zeros(1, 1), language="mojo")

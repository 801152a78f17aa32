"""RMSNorm, LayerNorm, add + RMSNorm: both twins, any width, strides, in place, bytes by formula, sentences."""

from pathlib import Path

import pytest
import torch
from norm_cases import assert_near, rows, vector

from course_lib.cuda import nvrtc
from course_lib.device import has_gpu
from course_lib.errors import ShapeError, UnsupportedError
from course_lib.ops import norm as ops
from course_lib.reference import norm as reference

LANGUAGES = ("cuda", "triton")
WHERE = "cuda" if has_gpu() else "cpu"  # these tests also run on a GPU
SIZES = [(5, 1), (3, 8), (9, 33), (3, 1000), (2, 4096), (2, 8192)]
HALF = torch.bfloat16


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("num_rows", "num_cols"), SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, HALF])
def test_norms_are_right(num_rows, num_cols, dtype, language):
    x, weight, bias = rows(num_rows, num_cols, dtype, device=WHERE), *(
        vector(num_cols, dtype, seed=seed, device=WHERE) for seed in (1, 2)
    )  # fmt: skip
    got = ops.rms_norm(x, weight, language=language)
    assert_near(got, reference.rms_norm(x, weight, 1e-6), dtype)
    assert_near(ops.layer_norm(x, weight, bias, language=language), reference.layer_norm(x, weight, bias, 1e-5), dtype)
    residual = rows(num_rows, num_cols, dtype, seed=3, device=WHERE)
    out, total = reference.add_rms_norm(x, residual, weight, 1e-6)
    assert_near(ops.add_rms_norm(x, residual, weight, language=language)[0], out, dtype)
    assert torch.equal(residual, total)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_wide_row_is_right(language):
    """16,384 numbers; in CUDA 16,385 as well, which are more than the registers of a block hold one by one."""
    for num_cols in (16384, 16385) if language == "cuda" else (16384,):
        x, weight = rows(2, num_cols, torch.float16, device=WHERE), vector(num_cols, torch.float16, device=WHERE)
        assert_near(ops.rms_norm(x, weight, language=language), reference.rms_norm(x, weight, 1e-6), torch.float16)
        got = ops.layer_norm(x, weight, language=language)
        assert_near(got, reference.layer_norm(x, weight, None, 1e-5), torch.float16)
        out, total = reference.add_rms_norm(x, x.flip(1), weight, 1e-6)
        got = ops.add_rms_norm(x, residual := x.flip(1), weight, language=language)
        assert_near(got[0], out, torch.float16)
        assert torch.equal(residual, total)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_large_mean_does_not_cancel(language):
    x, weight = rows(4, 1000, mean=1000.0, device=WHERE), vector(1000, device=WHERE)
    got, want = ops.layer_norm(x, weight, language=language), reference.layer_norm(x, weight, None, 1e-5)
    assert (got - want).abs().max() <= 2e-4 * want.abs().max()  # x itself is rounded to 6e-5
    assert_near(ops.rms_norm(x, weight, language=language), reference.rms_norm(x, weight, 1e-6), torch.float32)


@pytest.mark.parametrize("language", LANGUAGES)
def test_epsilon_is_inside_the_root_and_zero_rows_stay_zero(language):
    x = 1e-3 * rows(3, 64, device=WHERE)
    x[1] = 0.0
    weight = vector(64, device=WHERE)
    got = ops.rms_norm(x, weight, eps=1e-2, language=language)
    assert_near(got, reference.rms_norm(x, weight, 1e-2), torch.float32)
    assert not got[1].any()


@pytest.mark.parametrize("language", LANGUAGES)
def test_strides_of_rows_and_leading_dimensions(language):
    """Rows of a wider tensor, out another part of it; an address that allows accesses of two bytes only."""
    wide = rows(6, 3 * 40 + 1, HALF, device=WHERE)
    weight = vector(40, HALF, device=WHERE)
    for start in (0, 1):
        x, out = wide[:, start : start + 40], torch.full_like(wide, 7.0)
        want = reference.rms_norm(x, weight, 1e-6)
        place = out[:, 41 + start : 81 + start]
        assert ops.rms_norm(x, weight, out=place, language=language) is place
        assert_near(place, want, HALF)
        assert (out[:, : 41 + start] == 7.0).all() and (out[:, 81 + start :] == 7.0).all()
    x = rows(6, 40, HALF, device=WHERE).view(2, 3, 40)
    assert_near(ops.rms_norm(x, weight, language=language), reference.rms_norm(x, weight, 1e-6), HALF)
    alone = x[0, 0]
    assert_near(ops.layer_norm(alone, weight, language=language), reference.layer_norm(alone, weight, None, 1e-5), HALF)


@pytest.mark.parametrize("language", LANGUAGES)
def test_in_place(language):
    x, residual, weight = rows(3, 96, device=WHERE), rows(3, 96, seed=1, device=WHERE), vector(96, device=WHERE)
    want, total = reference.add_rms_norm(x, residual, weight, 1e-6)
    out = torch.empty_like(x)
    assert ops.add_rms_norm(x, residual.clone(), weight, out=out, language=language)[0] is out
    assert_near(out, want, torch.float32)
    got = ops.add_rms_norm(x, residual, weight, language=language)
    assert got[0] is x and got[1] is residual and torch.equal(residual, total)
    assert_near(x, want, torch.float32)
    want = reference.layer_norm(residual, weight, weight, 1e-5)
    ops.layer_norm(residual, weight, weight, out=residual, language=language)
    assert_near(residual, want, torch.float32)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("num_cols", [96, 1000])
def test_traffic_is_one_read_and_one_write(language, num_cols):
    """Of each row; the weight is read once a row in CUDA, once a program in Triton."""
    x, weight = rows(8, num_cols, torch.float16), vector(num_cols, torch.float16)
    moved, vector_bytes = x.numel() * 2, num_cols * 2
    for plan, reads, writes in (
        (ops.plan_rms_norm(x, weight, language=language), 1, 1),
        (ops.plan_layer_norm(x, weight, language=language), 1, 1),
        (ops.plan_add_rms_norm(x, x.clone(), weight, language=language), 2, 2),
    ):
        times = len(x) if language == "cuda" else plan.grid[0]
        assert plan.traffic() == (reads * moved + times * vector_bytes, writes * moved)


def test_wrong_tensors_are_refused_in_words():
    x, weight = rows(3, 8), vector(8)
    for wrong, sentence in (
        (lambda: ops.rms_norm(x.double(), weight), "float32, float16 or bfloat16"),
        (lambda: ops.rms_norm(x[:0], weight), "at least 1"),
        (lambda: ops.rms_norm(rows(8, 3).T, weight[:8]), "must be contiguous"),
        (lambda: ops.rms_norm(torch.zeros(2, 3, 8)[:, :2], weight), "not one stride apart"),
        (lambda: ops.rms_norm(x, weight[:7]), r"weight is torch.float32 \(7,\)"),
        (lambda: ops.rms_norm(x, weight, out=x[:2]), r"expected torch.float32 \(3, 8\)"),
        (lambda: ops.layer_norm(x, weight, weight.half()), "bias is torch.float16"),
        (lambda: ops.add_rms_norm(x, x.half(), weight), "residual is torch.float16"),
    ):
        with pytest.raises(ShapeError, match=sentence):
            wrong()


def test_what_is_not_supported_is_refused_in_words():
    x, weight = rows(3, 8), vector(8)
    with pytest.raises(UnsupportedError, match="needs its own memory"):
        ops.add_rms_norm(x, x, weight)
    with pytest.raises(UnsupportedError, match='"cuda" or "triton"'):
        ops.rms_norm(x, weight, language="mojo")
    with pytest.raises(UnsupportedError, match="at most 65536"):
        ops.rms_norm(torch.zeros(1, 65537), torch.zeros(65537), language="triton")


@pytest.mark.parametrize("step", ["01_rms_norm", "02_layer_norm", "03_add_rms_norm"])
def test_two_blocks_of_a_long_row_share_a_multiprocessor(step):
    """A block alone on its multiprocessor reads nothing while it reduces; 65,536 registers are given in groups of 8."""
    path = Path(__file__).resolve().parents[2] / f"kernels_cu/norm/{step}.cu"
    shape = {"ELEMENT": "__nv_bfloat16", "VEC": 8, "THREADS_PER_ROW": 512, "ROWS_PER_BLOCK": 1, "CHUNKS": 4}
    made = nvrtc.compile_cubin(path.read_text(), arch="sm_90", defines=shape, filename=str(path))
    [resources] = made.resources.values()
    assert 2 * 512 * -(-resources.registers // 8) * 8 <= 65536 and resources.spill_bytes == 0

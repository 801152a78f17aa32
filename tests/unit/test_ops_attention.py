"""The launchers of the attention family: both twins against float64, bytes of the fused steps, errors as sentences."""

import pytest
import torch

from course_lib.device import has_gpu
from course_lib.errors import ShapeError, UnsupportedError
from course_lib.ops import attention as ops
from course_lib.reference import attention as reference

WHERE = "cuda" if has_gpu() else "cpu"  # these tests also run on a GPU
PAIRS = [(name, "cuda") for name in ops.VARIANTS]
PAIRS += [(name, "triton") for name in ops.VARIANTS if name != "03_row_in_block"]
# batch_size, num_heads, num_kv_heads, seq_len_q, seq_len_kv, head_dim
SIZES = [(1, 1, 1, 1, 1, 1), (2, 4, 2, 5, 37, 20), (1, 6, 3, 9, 4, 8), (1, 3, 1, 1, 70, 64)]


def tensors(batch_size, num_heads, num_kv_heads, seq_len_q, seq_len_kv, head_dim, seed=0):
    gen = torch.Generator().manual_seed(seed)
    shapes = [(batch_size, num_heads, seq_len_q, head_dim)] + 2 * [(batch_size, num_kv_heads, seq_len_kv, head_dim)]
    return [torch.randn(shape, generator=gen).to(WHERE) for shape in shapes]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(("variant", "language"), PAIRS)
def test_attention(variant, language, sizes, causal):
    q, k, v = tensors(*sizes)
    if variant == "03_row_in_block" and (causal or sizes[1] != sizes[2]):
        with pytest.raises(UnsupportedError, match="05_grouped_query"):
            ops.attention(q, k, v, causal=causal, variant=variant)
        return
    out = ops.attention(q, k, v, causal=causal, variant=variant, language=language)
    want, lse = reference.attention_lse(q, k, v, causal=causal)
    assert (out - want).abs().max() <= 2e-6
    if variant in ("04_fused_softmax_warp", "05_grouped_query"):
        got = ops.attention_lse(q, k, v, causal=causal, variant=variant, language=language)[1]
        assert torch.equal(torch.isinf(got), torch.isinf(lse))
        assert (got - lse)[torch.isfinite(lse)].abs().max() <= 4e-6


@pytest.mark.parametrize("variant", ops.VARIANTS)
def test_no_finding_under_any_schedule(variant):
    causal = variant != "03_row_in_block"
    q, k, v = tensors(1, 2, 1 if causal else 2, 9, 70, 8)
    for launch in ops.plan(q, k, v, causal=causal, variant=variant).launches:
        for schedule in ("forward", "reverse", "random", "resident"):
            report = launch.profile(schedule)
            assert report.ok, f"{launch.function.name}, {schedule}: {report.findings}"


@pytest.mark.parametrize("language", ["cuda", "triton"])
def test_the_fused_softmax_moves_two_matrices_where_three_kernels_move_six(language):
    q, k, v = tensors(1, 2, 2, 16, 64, 8)
    matrix = 4 * 2 * 16 * 64
    for variant, count in (("01_naive", 3), ("02_fused_softmax", 1)):
        launches = ops.plan(q, k, v, causal=True, variant=variant, language=language)
        traffic = [launch.traffic() for launch in launches.launches]
        assert traffic[1:-1] == count * [(matrix, matrix)]
        assert (launches.outputs[0] - reference.attention(q, k, v, causal=True)).abs().max() <= 2e-6


def test_launches_are_five_three_and_one():
    q, k, v = tensors(1, 2, 2, 4, 8, 8)
    counts = {
        name: len(ops.plan(q, k, v, causal=True, variant=name).launches) for name in ops.VARIANTS if "03" not in name
    }
    assert list(counts.values()) == [5, 3, 3, 1]


def test_errors_are_sentences():
    q, k, v = tensors(1, 4, 2, 3, 5, 8)
    with pytest.raises(ShapeError, match="num_kv_heads=2; num_heads=3"):
        ops.attention(q[:, :3].contiguous(), k, v)
    with pytest.raises(ShapeError, match="head_dim must agree"):
        ops.attention(q[..., :4].contiguous(), k, v)
    with pytest.raises(ShapeError, match="one shape"):
        ops.attention(q, k, v[:, :, :4].contiguous())
    with pytest.raises(ShapeError, match="not contiguous"):
        ops.attention(q, k.transpose(2, 3), v)
    with pytest.raises(UnsupportedError, match="above 0"):
        ops.attention(q, k, v, softmax_scale=0.0)
    with pytest.raises(UnsupportedError, match="01_naive"):
        ops.attention(q, k, v, variant="naive")
    with pytest.raises(UnsupportedError, match="no Triton twin"):
        ops.attention(q, q, q, variant="03_row_in_block", language="triton")
    with pytest.raises(UnsupportedError, match="writes no lse"):
        ops.attention_lse(q, k, v, variant="01_naive")

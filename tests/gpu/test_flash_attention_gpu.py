"""flash_attention on the GPU: right at every kind of size and layout, beyond the limits of a grid and of 32 bits."""

import pytest
import torch
import torch.nn.functional as F
from flash_attention_cases import inputs, losses, require_right, run
from torch.nn.attention import SDPBackend, sdpa_kernel

from course_lib.errors import UnsupportedError
from course_lib.ops.flash_attention_2 import _triton as kernels
from course_lib.ops.flash_attention_2 import flash_attention, flash_attention_lse

HALF, BF16 = torch.float16, torch.bfloat16
# batch, heads, kv heads, queries, keys
SHAPES = [(3, 2, 1, 1, 1), (2, 4, 2, 113, 203), (1, 2, 1, 300, 128), (1, 8, 2, 1, 257), (1, 4, 4, 256, 256)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "head_dim"), [(HALF, 64), (BF16, 128)])
def test_forward_and_gradients_are_right(dtype, head_dim, shape, causal):
    tensors = inputs(shape, head_dim, dtype, "cuda", spread=3.0)
    require_right(run(*tensors, causal=causal), *tensors, causal=causal)


@pytest.mark.parametrize(("dtype", "head_dim"), [(BF16, 64), (HALF, 128)])
def test_rows_that_no_descriptor_can_describe(dtype, head_dim):
    """Rows an odd number of elements apart: the pointers take over, with the tiles of other cards."""
    tensors = inputs((2, 4, 2, 113, 203), head_dim + 1, dtype, "cuda", spread=3.0)
    q, k, v, d_out = (x[..., :head_dim] for x in tensors)
    assert not kernels._describable(q)
    require_right(run(q, k, v, d_out, causal=True), *(x.contiguous() for x in (q, k, v, d_out)), causal=True)


def test_float32_is_not_tensor_float32():
    tensors = inputs((1, 2, 1, 65, 129), 64, torch.float32, "cuda", spread=3.0)
    require_right(run(*tensors, causal=True, backend="triton"), *tensors, causal=True)


def test_strided_views_give_the_same_bits_as_copies():
    """Layout bshd, heads cut out of one projection: strides of batch, head and row are all unusual."""
    wide = torch.randn(2, 300, 3 * 4 * 64, device="cuda").to(BF16)
    q, k, v = (x.unflatten(-1, (4, 64)).transpose(1, 2) for x in wide.chunk(3, dim=-1))
    d_out = torch.randn(2, 4, 300, 64, device="cuda").to(BF16)
    views, copies = run(q, k, v, d_out, causal=True), run(*(x.contiguous() for x in (q, k, v)), d_out, causal=True)
    assert all(torch.equal(a, b) for a, b in zip(views, copies, strict=True))
    q, k, v, d_out = inputs((2, 4, 4, 300, 300), 64, BF16, "cuda")
    expanded = run(q, k[:1].expand_as(k), v, d_out[:1, :1, :1, :1].expand_as(d_out), causal=True)
    whole = run(q, k[:1].expand_as(k).contiguous(), v, d_out[:1, :1, :1, :1].expand_as(d_out).contiguous(), causal=True)
    for a, b in zip(expanded, whole, strict=True):  # other tiles, other order of sums
        assert (a.float() - b.float()).abs().max() <= 2**-6 * max(1.0, b.float().abs().max())


def test_more_heads_than_a_grid_has_blocks_on_its_second_axis():
    q, k, v, d_out = (torch.randn(35_000, 2, 3, 64, device="cuda").to(HALF) for _ in range(4))
    results = run(q, k, v, d_out, causal=True)
    for one in (0, 17_000, 34_999):
        part = slice(one, one + 1)
        require_right([x[part] for x in results], *(x[part] for x in (q, k, v, d_out)), causal=True)


@pytest.mark.parametrize("far_apart", ["heads", "rows"])
def test_offsets_beyond_32_bits(far_apart):
    """K and V whose last element lies more than 2**31 elements behind the first."""
    if torch.cuda.get_device_properties(0).total_memory < 40 * 2**30:
        pytest.fail("this test needs a card with 40 GiB: k and v lie in 9 GiB of their own each")
    strides = (0, 2**31 + 64, 64, 1) if far_apart == "heads" else (0, 64, 2**22 + 64, 1)
    size = 2**31 + 2**20 if far_apart == "heads" else 600 * 2**22 + 2**20
    q, k, v, d_out = inputs((1, 2, 2, 600, 600), 64, HALF, "cuda")
    distant = []
    for near in (k, v):
        far = torch.empty(size, dtype=HALF, device="cuda").as_strided((1, 2, 600, 64), strides)
        distant.append(far.copy_(near))
    results, expected = run(q, *distant, d_out, causal=True), run(q, k, v, d_out, causal=True)
    assert all(torch.equal(a, b) for a, b in zip(results, expected, strict=True))


def test_two_runs_give_the_same_bits():
    tensors = inputs((2, 8, 2, 1000, 1000), 128, BF16, "cuda")
    first, second = (run(*tensors, causal=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_interpreter_and_gpu_agree_on_masked_rows():
    tensors = inputs((1, 4, 2, 90, 40), 64, HALF, "cuda")
    out, lse, dq, dk, dv = run(*tensors, causal=True)
    assert (out[:, :, :50] == 0).all() and lse[:, :, :50].isneginf().all() and (dq[:, :, :50] == 0).all()
    assert dk.isfinite().all() and dv.isfinite().all()


@pytest.mark.parametrize("dtype", [HALF, BF16])
def test_a_model_of_two_layers_trains_like_with_sdpa(dtype):
    """The rule of the grader, for a curve: as close to exact attention as SDPA's flash backend is, times 3."""
    sizes = {"device": "cuda", "width": 256, "num_heads": 4, "num_kv_heads": 4, "seq_len": 512, "dtype": dtype}

    def exact(q, k, v):
        return F.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=True)

    def sdpa(q, k, v):
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def ours(q, k, v):
        return flash_attention(q, k, v, causal=True)

    best, base, got = (losses(attend, 40, **sizes) for attend in (exact, sdpa, ours))
    assert (got - best).abs().max() <= 3 * (base - best).abs().max() + 4 * torch.finfo(torch.float32).eps
    assert got[-1] < 0.5 * got[0]


def test_what_the_kernels_do_not_take_is_said():
    q = torch.zeros(1, 1, 4, 80, device="cuda", dtype=HALF)
    with pytest.raises(UnsupportedError, match="head_dim=80"):
        flash_attention(q, q, q)
    out, lse = flash_attention_lse(q, q, q, backend="torch")
    assert out.shape == q.shape and lse.dtype == torch.float32

"""The reference of e4m3 attention: its rounding, its rotation, and the errors that the chapter shows."""

import math

import pytest
import torch

from course_lib.reference import attention, fp8


@pytest.mark.parametrize("head_dim", [1, 2, 64, 128])
def test_the_rotation_is_orthogonal_and_keeps_dot_products(head_dim):
    matrix = fp8.hadamard(head_dim)
    torch.testing.assert_close(matrix @ matrix.T, torch.eye(head_dim, dtype=torch.float64))
    assert torch.equal(matrix.abs(), torch.full_like(matrix, 1 / math.sqrt(head_dim)))
    if head_dim >= 32:
        bits = fp8.sign_bits(head_dim)
        q, k = (torch.randn(5, head_dim, generator=torch.Generator().manual_seed(i)).double() for i in (0, 1))
        torch.testing.assert_close(fp8.rotated(q, bits) @ fp8.rotated(k, bits).T, q @ k.T)


def test_signs_are_the_bits_of_their_words():
    signs = fp8.signs(torch.tensor([5, -(2**31)], dtype=torch.int32))
    assert signs.shape == (64,) and signs.tolist().count(-1.0) == 3
    assert [i for i, sign in enumerate(signs.tolist()) if sign < 0] == [0, 2, 63]


@pytest.mark.parametrize("block", [None, 64, 100])
def test_every_number_is_within_half_a_step(block):
    x = fp8.inputs_with_outliers(3, 150, 64)
    small, scales = fp8.quantise(x, block)
    assert scales.shape == (3, -(-150 // (block or 150)))
    steps = fp8.of_each_row(scales, 150, block)[..., None].double()
    error = (fp8.restored(small, scales, block) - x.double()).abs()
    assert torch.all(error <= torch.maximum(2**-4 * x.double().abs(), 2**-10 * steps) * (1 + 1e-6))
    largest = small.double().abs().amax(dim=-1).split(block or 150, dim=-1)
    if block:
        assert all(torch.all(rows.amax(dim=-1) == fp8.LARGEST) for rows in largest)


def test_a_block_of_zeros_and_the_largest_number():
    x = torch.zeros(130, 8)
    x[129, 0] = -3.0e38
    small, scales = fp8.quantise(x, 64)
    assert scales[:2].tolist() == [fp8.SMALLEST_SCALE] * 2 and small.double().abs().sum() == fp8.LARGEST
    assert fp8.restored(small, scales, 64)[129, 0] == pytest.approx(-3.0e38, rel=1e-6)


def test_keys_are_in_the_order_of_a_lanes_weights():
    """Lane t of four holds accumulator columns 2t, 2t+1, 8+2t, 9+2t, and gives them as columns 4t to 4t+3."""
    assert fp8.key_order(16).tolist() == [0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15]
    assert fp8.key_order(17)[16:].tolist() == [16 + i for i in fp8.key_order(16).tolist()]
    rows = torch.arange(1, 21, dtype=torch.float32)[:, None].expand(20, 3).to(torch.float8_e4m3fn)
    places = fp8.transposed(rows)
    assert places.shape == (3, 32)
    keys = [0 if key >= 20 else rows[key, 0].item() for key in fp8.key_order(20).tolist()]
    assert places[1].double().tolist() == keys


@pytest.mark.parametrize("causal", [False, True])
def test_numbers_that_e4m3_holds_give_exact_scores_and_nearly_exact_weights(causal):
    """Numbers that times 64 are numbers of e4m3, the largest 448; no rotation: only weights are rounded, by 2^-4."""
    generator = torch.Generator().manual_seed(0)
    exact = torch.tensor([-7.0, -4, -2, -1, 0, 1, 2, 4, 7])
    q, k, v = (exact[torch.randint(9, (2, 4, n, 32), generator=generator)] for n in (20, 300, 300))
    k, v = k[:, :2], v[:, :2]
    options = {"softmax_scale": 0.05, "causal": causal}
    out, lse = fp8.attention_fp8(q, k, v, rotation=False, **options)
    right, right_lse = attention.attention_lse(q, k, v, **options)
    torch.testing.assert_close(lse, right_lse, rtol=1e-6, atol=1e-6)
    bound = attention.attention(q, k, v.abs(), **options)
    assert torch.all((out - right).abs() <= 2**-4 * bound + 300 * 2**-16 * 7)
    assert not torch.equal(out, right)


def test_a_row_without_keys_is_zero():
    q, k, v = (fp8.inputs_with_outliers(1, 1, n, 64, seed=n) for n in (7, 5, 5))
    out, lse = fp8.attention_fp8(q, k, v, causal=True)
    assert torch.all(out[:, :, :2] == 0) and torch.all(lse[:, :, :2] == -math.inf)
    assert out.isfinite().all()


def test_one_key_is_exact_but_for_v():
    """One weight, the largest: a power of two, which e4m3 holds."""
    q, k, v = (fp8.inputs_with_outliers(1, 1, 1, 64, seed=i) for i in range(3))
    out, _ = fp8.attention_fp8(q, k, v)
    torch.testing.assert_close(out, fp8.restored(*fp8.quantise(v, fp8.KV_BLOCK), fp8.KV_BLOCK), rtol=1e-6, atol=0)


def test_the_errors_of_the_chapter():
    """Rotation halves the error of outliers; scales of blocks alone do little, for every block has its outlier."""
    found = fp8.errors(seq_len=512)
    assert list(found) == ["float16", *fp8.VARIANTS]
    worst, blocks, rotation, both = (found[name] for name in fp8.VARIANTS)
    assert found["float16"] < 0.02 * both
    assert both < 0.75 * worst and both < 0.75 * blocks and rotation < 0.75 * worst
    assert blocks < 1.05 * worst and both < 1.1 * rotation
    before, after = fp8.largest_numbers(seq_len=512)
    assert len(before) == len(after) == 8 and max(after) < 0.5 * max(before)
    assert fp8.errors(seq_len=64, seed=1) == fp8.errors(seq_len=64, seed=1) != fp8.errors(seq_len=64, seed=2)


def test_blocks_repay_where_rows_differ_in_size():
    """Half of the rows a millionth of the others: one scale for the tensor rounds them to 0."""
    x = torch.randn(512, 64, generator=torch.Generator().manual_seed(0))
    x[256:] *= 1e-6
    kept, lost = (fp8.restored(*fp8.quantise(x, block), block)[256:] for block in (fp8.KV_BLOCK, None))
    assert torch.all((kept - x[256:]).abs() <= 2**-4 * x[256:].abs() + 1e-10)
    assert torch.all(lost == 0)


def test_a_default_device_of_torch_does_not_reach_the_tables_of_errors():
    torch.set_default_device("meta")  # as a lecture on a GPU sets its own; tensors without memory would crash
    try:
        assert set(fp8.errors(seq_len=64)) == {"float16", *fp8.VARIANTS}
        assert [size for size, _ in fp8.errors_by_outlier_size((1, 4), seq_len=64)["rotation"]] == [1, 4]
        assert [len(rows) for rows in fp8.largest_numbers(256)] == [4, 4]
        assert fp8.key_order(16).device.type == "cpu"
    finally:
        torch.set_default_device(None)

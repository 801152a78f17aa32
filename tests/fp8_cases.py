"""What the tests of FlashAttention-3 in e4m3 on the CPU and on a GPU share: inputs, and the rules of right."""

import torch

from course_lib.ops.flash_attention_3 import _fp8 as ops
from course_lib.reference import attention as reference
from course_lib.reference import fp8


def tensors(batch, heads, kv_heads, num_q, num_kv, head_dim, dtype, device="cpu"):
    """q, k, v with outliers, V's second half three times as large: blocks with scales of their own."""
    sizes = [(heads, num_q), (kv_heads, num_kv), (kv_heads, num_kv)]
    q, k, v = (fp8.inputs_with_outliers(batch, *size, head_dim, seed=num_q + i) for i, size in enumerate(sizes))
    v[:, :, num_kv // 2 :] *= 3.0
    return [x.to(dtype).to(device) for x in (q, k, v)]


def restored(quantised, seq_len_kv):
    """(q, k, v, scale of V for every key): what the bytes denote, float64."""
    z = ops.Quantised(*quantised)
    block = ops.KV_BLOCK[z.q.shape[3]]
    rows = torch.empty_like(z.v_t)
    rows[..., fp8.key_order(seq_len_kv).to(z.v_t.device)] = z.v_t
    small = rows.transpose(-1, -2)[:, :, :seq_len_kv]
    v_scales = fp8.of_each_row(z.v_scales, seq_len_kv, block)
    q, k = fp8.restored(z.q, z.q_scales, ops.Q_BLOCK), fp8.restored(z.k, z.k_scales, block)
    return q, k, small.double() * v_scales[..., None].double(), v_scales


def assert_quantised(q, k, v, quantised):
    """Bytes and scales are those of the reference."""
    z = ops.Quantised(*quantised)
    block = ops.KV_BLOCK[q.shape[3]]
    bits = ops._sign_bits(q.shape[3], q.device)
    for x, small, scales, rows in ((q, z.q, z.q_scales, ops.Q_BLOCK), (k, z.k, z.k_scales, block)):
        right, right_scales = fp8.quantise(fp8.rotated(x, bits), rows)
        torch.testing.assert_close(scales, right_scales, rtol=1e-6, atol=0.0)
        _assert_same_bytes(small, right)
    right, right_scales = fp8.quantise(v, block)
    assert torch.equal(z.v_scales, right_scales)
    assert torch.equal(z.v_t.view(torch.uint8), fp8.transposed(right).view(torch.uint8))


def _assert_same_bytes(small, right):
    """Float32 sums in another order may move a number across a tie: few, and by one step."""
    small, right = small.double(), right.double()
    assert torch.all((small - right).abs() <= 0.125 * right.abs().clamp(min=2**-6))
    assert (small != right).sum() <= 2 + 1e-3 * right.numel()


def assert_attention(quantised, seq_len_kv, out, lse, causal, softmax_scale=None):
    """`out` is what exact attention over the same bytes gives, but for weights of 4 bits and sums of 14; `lse` exactly.

    A weight is rounded by 2^-4 of itself, or by 2^-10 where the largest is 2^6 or more; tensor cores lose 1 % of a sum
    of values, and of a score 2^-12 of |q| |k| for every 32 columns. The SIMT machine loses nothing.
    """
    q, k, v, v_scales = restored(quantised, seq_len_kv)
    options = {"causal": causal, "softmax_scale": softmax_scale}
    right, right_lse = reference.attention_lse(q, k, v, **options)
    by_weight = reference.attention(q, k, v.abs(), **options)
    small = reference.of_each_query_head(v.abs() / v_scales[..., None].double(), q)  # the bytes
    smallest = 2.0**-16 * small.sum(dim=-2, keepdim=True) * v_scales.amax().double()
    allowed = (2**-4 + 2**-8 + 0.01) * by_weight + smallest + 1e-6
    assert torch.all((out.double() - right).abs() <= allowed)
    rounded, _ = fp8.rounded_weights(
        q, k, v / v_scales[..., None].double(), v_scales.double(), softmax_scale=softmax_scale, causal=causal
    )
    assert rmse(out, right) <= 2.0 * rmse(rounded, right) + 0.004 * right.square().mean().sqrt() + 1e-6
    assert torch.equal(lse.isneginf(), right_lse.isneginf())
    lost = q.norm(dim=-1) * k.norm(dim=-1).amax() * (softmax_scale or q.shape[-1] ** -0.5) * q.shape[-1] / 32 * 2**-12
    allowed = 1e-4 + 1e-6 * right_lse.abs() + (lost if q.is_cuda else 0.0)
    seen = right_lse.isfinite()
    assert torch.all(((lse - right_lse).abs() <= allowed)[seen])


def rmse(out, right):
    """Root mean square of the difference, a float."""
    return (out.double() - right.double()).square().mean().sqrt().item()

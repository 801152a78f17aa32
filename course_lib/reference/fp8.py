"""Attention whose q, k and v are rounded to e4m3: scales of blocks, rotation, and the error that each leaves.

May import: torch, reference.attention.
"""

import math

import torch

from . import attention

LARGEST = 448.0  # of e4m3: 1 sign, 4 exponent, 3 fraction bits
SMALLEST_SCALE = 2.0**-40  # keeps the scale of a block of zeros above 0
Q_BLOCK = 64  # rows of Q that share a scale: those of one warpgroup
KV_BLOCK = 128  # keys that share a scale of K, and one of V
WEIGHT_LOG2 = 8.0  # the largest weight of a row is rounded as 2^8
VARIANTS = {  # name -> (scales of blocks, rotation)
    "one scale a tensor": (False, False),
    "block scales": (True, False),
    "rotation": (False, True),
    "rotation and block scales": (True, True),
}


def hadamard(head_dim):
    """The Hadamard matrix over sqrt(head_dim): (head_dim, head_dim), float64, orthogonal, symmetric; head_dim = 2^n."""
    matrix = torch.ones(1, 1, dtype=torch.float64, device="cpu")
    while matrix.shape[0] < head_dim:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return matrix / math.sqrt(head_dim)


def sign_bits(head_dim, seed=0):
    """Random signs as the kernel takes them: (head_dim / 32,), int32, bit d % 32 of word d // 32 is 1 for a minus."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-(2**31), 2**31, (head_dim // 32,), generator=generator, device="cpu").to(torch.int32)


def signs(bits):
    """The same signs as +1 and -1: (32 * len(bits),), float64."""
    shifts = torch.arange(32, dtype=torch.int32, device=bits.device)
    return 1.0 - 2.0 * (bits[:, None] >> shifts & 1).double().flatten()


def rotated(x, bits):
    """x diag(signs) H / sqrt(head_dim), float64: dot products of two rotated rows are those of the rows."""
    return (x.double() * signs(bits)) @ hadamard(x.shape[-1]).to(x.device)


def quantise(x, block=None):
    """Rows rounded to e4m3 with a scale for every `block` of them.

    Parameters
    ----------
    x : tensor, (..., seq_len, head_dim), any float dtype, finite
    block : int, rows that share a scale; None: one scale for the whole tensor

    Returns
    -------
    small : tensor, shape of `x`, float8_e4m3fn
    scales : tensor, (..., ceil(seq_len / block)), or (..., 1), float32: largest |x| of the block / 448.
        ``small * scale`` is within 2^-4 of each number, or within 2^-10 scales of one below 2^-6 scales
    """
    x = x.double()
    if block is None:
        largest = x.abs().amax().expand(*x.shape[:-2], 1)
    else:
        blocks = x.abs().amax(dim=-1).split(block, dim=-1)
        largest = torch.stack([rows.amax(dim=-1) for rows in blocks], dim=-1)
    scales = (largest / LARGEST).clamp(min=SMALLEST_SCALE).float()
    inverses = torch.ones_like(scales) / scales  # float32, as in the kernels: it decides ties
    small = x.float() * of_each_row(inverses, x.shape[-2], block)[..., None]
    return small.clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn), scales


def of_each_row(scales, seq_len, block=None):
    """The scale of every row, (..., seq_len), from those of the blocks."""
    return scales.repeat_interleave(block or seq_len, dim=-1)[..., :seq_len]


def restored(small, scales, block=None):
    """The numbers that `quantise` kept, float64."""
    return small.double() * of_each_row(scales, small.shape[-2], block)[..., None].double()


def key_order(seq_len):
    """Which key is at each place of a transposed row: (seq_len rounded up to a multiple of 16,), int64.

    Place 16 i + 4 t + b holds key 16 i + 2 t + b % 2 + 8 (b // 2): the order in which a lane holds its weights.
    """
    place = torch.arange(-(-seq_len // 16) * 16, device="cpu")
    t, b = place % 16 // 4, place % 4
    return place // 16 * 16 + 2 * t + b % 2 + 8 * (b // 2)


def transposed(v_small):
    """V as the kernel takes it: (..., head_dim, stride), keys in `key_order`, 0 beyond the last; float8_e4m3fn."""
    order = key_order(v_small.shape[-2]).to(v_small.device)
    padded = v_small.new_zeros(*v_small.shape[:-2], len(order), v_small.shape[-1], dtype=torch.float32)
    padded[..., : v_small.shape[-2], :] = v_small.float()
    return padded[..., order, :].transpose(-1, -2).contiguous().to(torch.float8_e4m3fn)


def attention_fp8(
    q, k, v, *, block_scales=True, rotation=True, kv_block=KV_BLOCK, bits=None, softmax_scale=None, causal=False
):
    """Attention over q, k and v rounded to e4m3, weights rounded to e4m3, all sums in float64.

    Parameters
    ----------
    q, k, v, softmax_scale, causal : as in `reference.attention.attention`
    block_scales : bool; False: one scale for each of the three tensors
    kv_block : int, keys that share a scale
    rotation : bool; Q and K are rotated before they are rounded
    bits : tensor, the signs of the rotation; default ``sign_bits(head_dim)``

    Returns
    -------
    out : tensor, shape of q, float64
    lse : tensor, (..., seq_len_q), float64, natural log
    """
    if rotation:
        bits = sign_bits(q.shape[-1]).to(q.device) if bits is None else bits
        q, k = rotated(q, bits), rotated(k, bits)
    q_block, kv_block = (Q_BLOCK, kv_block) if block_scales else (None, None)
    q, k = restored(*quantise(q, q_block), q_block), restored(*quantise(k, kv_block), kv_block)
    small, scales = quantise(v, kv_block)
    return rounded_weights(q, k, small, of_each_row(scales, v.shape[-2], kv_block), softmax_scale, causal)


def rounded_weights(q, k, v_small, v_scales, softmax_scale=None, causal=False):
    """(out, lse) with weights in e4m3: V's scale, one of each key, multiplies the weight before it is rounded.

    A row's largest product of weight and scale becomes 2^8; the denominator is the sum of weights before rounding.
    """
    scores = attention.rounded_scores(q.double(), k.double(), softmax_scale=softmax_scale, causal=causal)
    lse = torch.logsumexp(scores, dim=-1)
    seen = torch.isfinite(lse)
    weights = torch.exp(scores - torch.where(seen, lse, 0.0)[..., None])
    scaled = weights * attention.of_each_query_head(v_scales[..., None].double(), q).transpose(-1, -2)
    unit = scaled.amax(dim=-1, keepdim=True).clamp(min=1e-300) / 2.0**WEIGHT_LOG2
    small = (scaled / unit).float().to(torch.float8_e4m3fn).double()
    return small @ attention.of_each_query_head(v_small.double(), q) * unit, lse


def inputs_with_outliers(*shape, seed=0):
    """float32 numbers as in the FA3 paper's table of errors: N(0, 1), and one in a thousand gets N(0, 100) added."""
    options = {"size": shape, "generator": torch.Generator().manual_seed(seed), "device": "cpu"}
    x, large, where = (draw(**options) for draw in (torch.randn, torch.randn, torch.rand))
    return x + large * 10.0 * (where < 0.001)


def errors(seq_len=2048, head_dim=128, num_heads=2, seed=0):
    """Root mean square errors against float64, inputs with outliers: {"float16": …, name of VARIANTS: …}.

    Source: Shah and others, "FlashAttention-3", 2024, table 3, arXiv:2407.08608
    """
    shape = (1, num_heads, seq_len, head_dim)
    q, k, v = (inputs_with_outliers(*shape, seed=3 * seed + i).half() for i in range(3))
    exact = attention.attention(q, k, v)

    def error(out):
        return (out.double() - exact).square().mean().sqrt().item()

    found = {"float16": error(_float16(q, k, v))}
    for name, (block_scales, rotation) in VARIANTS.items():
        found[name] = error(attention_fp8(q, k, v, block_scales=block_scales, rotation=rotation)[0])
    return found


def errors_by_outlier_size(sizes, seq_len=256, head_dim=128, seed=0):
    """{name of VARIANTS: [(size, root mean square error)]}; one number of 1,000 gets another, size times as large."""
    generator = torch.Generator().manual_seed(seed)
    points = {name: [] for name in VARIANTS}
    for size in sizes:
        options = {"size": (3, 1, 1, seq_len, head_dim), "generator": generator, "device": "cpu"}
        normal, extra, where = (draw(**options) for draw in (torch.randn, torch.randn, torch.rand))
        q, k, v = normal + size * extra * (where < 1e-3)
        exact = attention.attention(q, k, v)
        for name, (block_scales, rotation) in VARIANTS.items():
            out, _ = attention_fp8(q, k, v, block_scales=block_scales, rotation=rotation)
            points[name].append((size, (out - exact).square().mean().sqrt().item()))
    return points


def _float16(q, k, v):
    """Float16 inputs, weights and result; float32 sums, as in the kernels."""
    scores = q.float() @ k.float().transpose(-1, -2) * q.shape[-1] ** -0.5
    weights = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    return (weights.half().float() @ v.float() / weights.sum(dim=-1, keepdim=True)).half()


def largest_numbers(seq_len=2048, head_dim=128, seed=0):
    """Largest |x| of every block of `Q_BLOCK` rows, before and after the rotation: two lists of floats."""
    x = inputs_with_outliers(seq_len, head_dim, seed=seed)
    return tuple([rows.abs().max().item() for rows in y.split(Q_BLOCK)] for y in (x, rotated(x, sign_bits(head_dim))))

"""Launchers of FlashAttention-2 forward, step by step: validate, pick grid, tiles and shared memory, call either twin.

May import: errors, device, ops.softmax (Launch), ops._flash_attention_triton, cuda, torch.
"""

import math

import torch

from .. import device
from ..errors import ShapeError, UnsupportedError
from .softmax import Launch

VARIANTS = ("01_loop_order", "02_mma", "03_swizzled", "04_pipelined", "10_heavy_first")
TWINS = ("01_loop_order", "10_heavy_first")  # the steps that have a Triton twin
HEAD_DIMS = (64, 128)  # of 02 to 05
BLOCK_M = 128  # query rows of a block of 02 to 05
BLOCK_N = {64: 64, 128: 32}  # head_dim -> keys of a tile
BLOCK_N_TUNED = {64: 64, 128: 48}  # 05 has registers left for more; the fastest of 6 widths on an H200
L2_BYTES = 50 << 20  # of an H100, where the device in hand does not say
_ELEMENTS = {torch.float16: "__half", torch.bfloat16: "__nv_bfloat16"}
_NUM_THREADS = 128
_CHUNK = 8  # elements in 16 bytes: every row starts at a multiple of so many
_ENTRY = "flash_attention_2_kernel"


def flash_attention_2(q, k, v, *, causal=False, softmax_scale=None, variant="10_heavy_first", language="cuda"):
    """Exact attention forward, one launch, the Q tile outside.

    A block owns a tile of query rows and walks over the keys; (m, l, acc) stay in registers, so out and lse are written
    once. 01 computes in float32 without tensor cores; 02 to 05 are the ladder to the speed of the official kernel.

    Parameters
    ----------
    q : tensor, (batch_size, num_heads, seq_len_q, head_dim)
        02 to 05: float16 or bfloat16, head_dim 64 or 128, any strides;
            a row is contiguous and starts at a multiple of 16 bytes
        01: contiguous; float32 in CUDA, float32 or half in Triton
    k, v : tensor, (batch_size, num_kv_heads, seq_len_kv, head_dim), dtype of `q`; num_kv_heads divides num_heads
    causal : bool; bottom-right aligned. seq_len_q=2, seq_len_kv=5 keeps
        1 1 1 1 0
        1 1 1 1 1
    softmax_scale : float above 0, dimensionless; default ``head_dim**-0.5``
    variant : one of VARIANTS
    language : "cuda", or "triton" for the steps in TWINS

    Returns
    -------
    out : tensor, shape and dtype of `q`, contiguous in CUDA; zero for a fully masked row
    lse : tensor, (batch_size, num_heads, seq_len_q), float32, natural log; -inf for a fully masked row

    Raises
    ------
    ShapeError        shapes, dtypes or layouts that do not fit the step or each other
    UnsupportedError  no such variant or language; a head_dim, scale or size that the step does not take; an older GPU

    Notes
    -----
    Cost      4 * B * H * Nq * Nkv * D FLOP in the two products, half of it when causal and Nq == Nkv
    Numerics  scores, m, l and acc in float32; 02 to 05 round the weights to the dtype of `q` before the second product
    Launch    02 to 05: grid (ceil(Nq / 128) * H * B), 128 threads, (128 + 2 * block_n) * D * 2 bytes of shared memory

    Source: T. Dao, "FlashAttention-2", 2023, algorithm 1, arXiv:2307.08691
    """
    launch = plan(q, k, v, causal=causal, softmax_scale=softmax_scale, variant=variant, language=language)
    launch.run()
    return launch.outputs


def plan(
    q,
    k,
    v,
    *,
    causal=False,
    softmax_scale=None,
    variant="10_heavy_first",
    language="cuda",
    block_m=None,
    block_n=None,
    heads_together=None,
):
    """The launch that `flash_attention_2` would make, with fresh outputs (out, lse), not yet run.

    Parameters
    ----------
    block_m, block_n : int or None; query rows and keys of a tile, for 01 alone
    heads_together : int or None; heads whose blocks run side by side, for 05 in CUDA alone

    Returns
    -------
    launch : Launch; ``launch.traffic()`` counts its bytes, ``launch.run()`` executes it
    """
    if variant not in VARIANTS:
        raise UnsupportedError(f"variant={variant!r} is unknown; choose one of {', '.join(VARIANTS)}.")
    if language not in ("cuda", "triton"):
        raise UnsupportedError(f'language={language!r} is unknown; choose "cuda" or "triton".')
    if language == "triton" and variant not in TWINS:
        raise UnsupportedError(f"{variant} has no Triton twin; these have one: {', '.join(TWINS)}.")
    _require_shapes(q, k, v)
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else float(softmax_scale)
    if not (math.isfinite(scale) and scale > 0.0):
        raise UnsupportedError(f"softmax_scale={softmax_scale}; these kernels take a finite number above 0.")
    if language == "triton":
        return _plan_triton(q, k, v, causal, scale, variant, block_m, block_n)
    if variant == "01_loop_order":
        return _plan_loop_order(q, k, v, causal, scale, block_m, block_n)
    return _plan_tensor_cores(q, k, v, causal, scale, variant, heads_together)


def _plan_triton(q, k, v, causal, scale, variant, block_m, block_n):
    """One of the two Triton twins."""
    from . import _flash_attention_triton as triton_launches

    if variant == "01_loop_order":
        _require_contiguous(q, k, v, (torch.float32, *_ELEMENTS))
        tiles = {"block_m": block_m, "block_n": block_n}
        return triton_launches.plan_teaching(q, k, v, causal=causal, softmax_scale=scale, **tiles)
    return triton_launches.plan_forward(q, k, v, causal=causal, softmax_scale=scale)


def _plan_loop_order(q, k, v, causal, scale, block_m, block_n):
    """01: float32, a warp a row."""
    from .. import cuda

    _require_contiguous(q, k, v, (torch.float32,))
    head_dim, seq_len_q = q.shape[3], q.shape[2]
    block_m, block_n = block_m or (32 if head_dim <= 64 else 16), block_n or 32
    constants = {"HEAD_DIM": head_dim, "BLOCK_M": block_m, "BLOCK_N": block_n}
    kernel = cuda.load("flash_attention_2/01_loop_order.cu", _ENTRY, defines=constants)
    out, lse = torch.empty_like(q), q.new_empty(q.shape[:3])
    arguments = (q, k, v, out, lse, q.shape[1] // k.shape[1], seq_len_q, k.shape[2], scale, int(causal))
    grid = (-(-seq_len_q // block_m) * q.shape[0] * q.shape[1],)
    return Launch("cuda", kernel, grid, _NUM_THREADS, arguments, {}, (out, lse))


def _plan_tensor_cores(q, k, v, causal, scale, variant, heads_together):
    """02 to 05."""
    from .. import cuda

    _require_rows(q, k, v)
    batch_size, num_heads, seq_len_q, head_dim = q.shape
    tuned = variant == "10_heavy_first"
    block_n = (BLOCK_N_TUNED if tuned else BLOCK_N)[head_dim]
    constants = {"HEAD_DIM": head_dim, "ELEMENT": _ELEMENTS[q.dtype], "BLOCK_N": block_n}
    kernel = cuda.load(f"flash_attention_2/{variant}.cu", _ENTRY, defines=constants)
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    lse = q.new_empty(q.shape[:3], dtype=torch.float32)
    sizes = (num_heads, num_heads // k.shape[1], seq_len_q, k.shape[2])
    strides = [stride for x in (q, k, v) for stride in _strides(x)]
    together = heads_together or _heads_together(q, k, causal)
    last = (together, scale * math.log2(math.e), int(causal)) if tuned else (scale, int(causal))
    grid = (-(-seq_len_q // BLOCK_M) * num_heads * batch_size,)
    shared_bytes = (BLOCK_M + 2 * block_n) * head_dim * q.element_size()
    arguments = (q, k, v, out, lse, *sizes, *strides, *last)
    return Launch("cuda", kernel, grid, _NUM_THREADS, arguments, {}, (out, lse), shared_bytes)


def _heads_together(q, k, causal):
    """Heads whose blocks run side by side. Under a causal mask the heavy blocks should go first, of so many heads that
    L2 holds half of their K and V (1, 2, 4 … 64 heads tried on an H200), and in turns of equal size: a small last turn
    would begin with heavy blocks when the card runs empty. Without a mask all blocks are alike, and those of one head
    share its K and V best."""
    if not causal:
        return 1
    kv_bytes = 2 * k.shape[2] * k.shape[3] * k.element_size()
    fitting = max(1, 2 * (device.current().l2_bytes or L2_BYTES) // kv_bytes) * (q.shape[1] // k.shape[1])
    num_heads = q.shape[0] * q.shape[1]
    num_turns = -(-num_heads // fitting)
    return -(-num_heads // num_turns)


def _strides(x):
    """Elements from one batch entry, head and row to the next; 0 where there is no next."""
    return [stride if size > 1 else 0 for size, stride in zip(x.shape[:3], x.stride()[:3], strict=True)]


def _require_shapes(q, k, v):
    """What every step asks of the shapes, as sentences."""
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.ndim != 4 or tensor.numel() == 0:
            raise ShapeError(f"{name} has the shape {tuple(tensor.shape)}; expected 4 dimensions, each at least 1.")
        if tensor.dtype != q.dtype or tensor.device != q.device:
            raise ShapeError(
                f"{name} is {tensor.dtype} on {tensor.device} and q is {q.dtype} on {q.device}; q, k and v must agree."
            )
    if k.shape != v.shape:
        raise ShapeError(f"k is {tuple(k.shape)} and v is {tuple(v.shape)}; these kernels take one shape for both.")
    if (q.shape[0], q.shape[3]) != (k.shape[0], k.shape[3]):
        raise ShapeError(f"q is {tuple(q.shape)} and k is {tuple(k.shape)}; batch_size and head_dim must agree.")
    if q.shape[1] % k.shape[1]:
        raise ShapeError(f"k has num_kv_heads={k.shape[1]}; num_heads={q.shape[1]} must be a multiple of it.")
    if math.prod(q.shape[:3]) >= 2**31:
        raise UnsupportedError(f"q has {math.prod(q.shape[:3])} rows in all; these kernels number them with 31 bits.")


def _require_contiguous(q, k, v, dtypes):
    """What 01 asks of dtype and layout."""
    names = ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.dtype not in dtypes or not tensor.is_contiguous():
            raise ShapeError(
                f"{name} must be contiguous and {names} for 01_loop_order; "
                f"it is {tensor.dtype}, strides {tensor.stride()}."
            )


def _require_rows(q, k, v):
    """What 02 to 05 ask of dtype, head_dim and layout."""
    if q.dtype not in _ELEMENTS:
        raise ShapeError(f"q is {q.dtype}; the tensor-core steps take float16 and bfloat16.")
    if q.shape[3] not in HEAD_DIMS:
        raise UnsupportedError(f"head_dim={q.shape[3]}; the tensor-core steps take 64 and 128.")
    if q.is_cuda and torch.cuda.get_device_capability(q.device) < (8, 0):
        raise UnsupportedError(
            "mma.m16n8k16 needs compute capability 8.0; this card is older. 01_loop_order runs on it."
        )
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        strides = _strides(tensor)
        if tensor.stride(3) != 1:
            raise ShapeError(f"{name} has the strides {tensor.stride()}; the last dimension must be contiguous.")
        if tensor.data_ptr() % 16 or any(stride % _CHUNK for stride in strides):
            raise ShapeError(
                f"{name} has the strides {tensor.stride()} and starts {tensor.data_ptr() % 16} bytes past a multiple "
                f"of 16; rows are copied 16 bytes at a time, so each must start at such a multiple, {_CHUNK} elements."
            )
        if strides[2] >= 2**31:
            raise ShapeError(f"{name} has rows {strides[2]} elements apart; the kernels take less than 2^31.")

"""What the decode kernels ask of their arguments, as sentences.

May import: errors, ops._foundation, torch.
"""

import torch

from ..errors import ShapeError, UnsupportedError
from ._foundation.checks import require_capability, require_group, require_rows
from ._foundation.sizes import ELEMENTS, HEAD_DIMS

LAYOUTS = ("bhsd", "bshd")


def require(q, k, v, seq_lens, layout):
    """(strides, num_kv_heads, capacity) after every check, each a sentence."""
    if layout not in LAYOUTS:
        raise UnsupportedError(f'layout={layout!r} is unknown; choose "bhsd" or "bshd".')
    if q.ndim != 3 or q.numel() == 0:
        raise ShapeError(
            f"q has the shape {tuple(q.shape)}; expected (batch_size, num_heads, head_dim), each at least 1."
        )
    if q.dtype not in ELEMENTS:
        raise ShapeError(f"q is {q.dtype}; these kernels take float16 and bfloat16.")
    _require_kv(q, k, v)
    require_rows("q", q, q)
    batch_size, num_heads, head_dim = q.shape
    if head_dim not in HEAD_DIMS or k.shape[-1] != head_dim:
        raise UnsupportedError(f"head_dim={head_dim} of q, {k.shape[-1]} of k; both must be 64 or 128.")
    token, head = (2, 1) if layout == "bhsd" else (1, 2)
    num_kv_heads = k.shape[head]
    require_group(num_heads, num_kv_heads)
    if seq_lens.shape != (batch_size,) or seq_lens.dtype != torch.int32 or not seq_lens.is_contiguous():
        raise ShapeError(
            f"seq_lens is {seq_lens.dtype} {tuple(seq_lens.shape)}; expected int32 ({batch_size},), contiguous."
        )
    if seq_lens.device != q.device:
        raise ShapeError(f"seq_lens is on {seq_lens.device}; it must be on {q.device}, as q is.")
    if batch_size > 65535:
        raise UnsupportedError(f"batch_size={batch_size}; a grid has at most 65535 rows.")
    require_capability(q, "the decode kernels need")
    return (*q.stride()[:2], k.stride(0), k.stride(token), k.stride(head)), num_kv_heads, k.shape[token]


def _require_kv(q, k, v):
    """What is asked of k and v alone, and of them beside q."""
    for name, x in (("k", k), ("v", v)):
        if x.ndim != 4 or x.numel() == 0 or x.shape[0] != q.shape[0]:
            raise ShapeError(
                f"{name} has the shape {tuple(x.shape)}; expected 4 dimensions, the first batch_size={q.shape[0]}."
            )
        if x.dtype != q.dtype or x.device != q.device:
            raise ShapeError(f"{name} is {x.dtype} on {x.device} and q {q.dtype} on {q.device}; they must agree.")
        require_rows(name, x, q)
    if k.shape != v.shape or k.stride() != v.stride():
        raise ShapeError(
            f"k is {tuple(k.shape)} with strides {k.stride()}, v {tuple(v.shape)} with {v.stride()}; both must have "
            "one shape and one layout."
        )

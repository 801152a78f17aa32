"""What kernels ask of their arguments, as sentences: what was expected, what came.

May import: errors, cuda.steps inside functions, sizes, torch.
"""

import math

import torch

from ...errors import ShapeError, UnsupportedError
from .sizes import CHUNK, ELEMENTS, HEAD_DIMS, steps_of

MAX_GROUP = 16  # query heads of one key-value head: two tiles of the eight columns of an mma
LANGUAGES = ("cuda", "triton")


def require_step(family, variant, variants, language):
    """A step of the family that there is, in a language that it has."""
    from ...cuda.steps import step

    if variant not in variants:
        raise UnsupportedError(f"variant={variant!r} is unknown; choose one of {', '.join(variants)}.")
    require_language(language)
    if language not in step(f"{family}/{variant}").languages:
        others = [other for other in variants if language in step(f"{family}/{other}").languages]
        instead = f"these have one: {', '.join(others)}" if others else f"no step of {family} has one"
        raise UnsupportedError(f"{variant} has no Triton twin; {instead}.")


def require_language(language):
    if language not in LANGUAGES:
        raise UnsupportedError(f'language={language!r} is unknown; choose "cuda" or "triton".')


def require_half(q, kernels, verb="take"):
    """A type and a head_dim of the kernels on tensor cores; `kernels` and `verb` begin what is said of them."""
    if q.dtype not in ELEMENTS:
        raise ShapeError(f"q is {q.dtype}; {kernels} {verb} float16 and bfloat16.")
    if q.shape[3] not in HEAD_DIMS:
        raise UnsupportedError(f"head_dim={q.shape[3]}; {kernels} take 64 and 128.")


def require_tensor(tensor, name, ndim, dtype):
    """A contiguous tensor of `ndim` dimensions, each at least 1."""
    if tensor.ndim != ndim:
        raise ShapeError(f"{name} has {tensor.ndim} dimensions {tuple(tensor.shape)}; this kernel takes {ndim}.")
    if tensor.numel() == 0:
        raise ShapeError(f"{name} has the shape {tuple(tensor.shape)}; every dimension must be at least 1.")
    if tensor.dtype != dtype:
        raise ShapeError(f"{name} is {tensor.dtype}; this kernel takes {dtype}. Convert it with {name}.to({dtype}).")
    if not tensor.is_contiguous():
        raise ShapeError(f"{name} is not contiguous (strides {tensor.stride()}); pass {name}.contiguous().")


def require_contiguous(named, dtypes):
    """Tensors that are contiguous and of one of `dtypes`; `named` maps name -> tensor."""
    wanted = " or ".join(str(dtype) for dtype in dtypes)
    for name, tensor in named.items():
        if tensor.dtype not in dtypes or not tensor.is_contiguous():
            raise ShapeError(f"{name} must be contiguous {wanted}; it is {tensor.dtype}, strides {tensor.stride()}.")


def require_attention(q, k, v):
    """What every attention over dense tensors asks: 4 dimensions, one float type and device, sizes that fit."""
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.ndim != 4 or tensor.numel() == 0:
            raise ShapeError(f"{name} has the shape {tuple(tensor.shape)}; expected 4 dimensions, each at least 1.")
        if not tensor.is_floating_point() or tensor.dtype != q.dtype or tensor.device != q.device:
            raise ShapeError(
                f"{name} is {tensor.dtype} on {tensor.device} and q is {q.dtype} on {q.device}; "
                "q, k and v must share one float type and one device."
            )
    if k.shape != v.shape:
        raise ShapeError(f"k is {tuple(k.shape)} and v is {tuple(v.shape)}; these kernels take one shape for both.")
    if (q.shape[0], q.shape[3]) != (k.shape[0], k.shape[3]):
        raise ShapeError(f"q is {tuple(q.shape)} and k is {tuple(k.shape)}; batch_size and head_dim must agree.")
    if q.shape[1] % k.shape[1]:
        raise ShapeError(f"k has num_kv_heads={k.shape[1]}; num_heads={q.shape[1]} must be a multiple of it.")


def require_row_tensors(q, out, lse, d_out):
    """What a backward pass in float32 asks of the tensors that belong to the rows of `q`."""
    named = {"out": (out, q.shape), "d_out": (d_out, q.shape), "lse": (lse, q.shape[:3])}
    for name, (tensor, shape) in named.items():
        if tensor.shape != shape:
            raise ShapeError(f"{name} has the shape {tuple(tensor.shape)}; q asks for {tuple(shape)}.")
        require_contiguous({name: tensor}, (torch.float32,))


def positive_scale(q, softmax_scale):
    """The scale as a float, `head_dim**-0.5` for None; these kernels take the largest score before they scale."""
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else float(softmax_scale)
    if not (math.isfinite(scale) and scale > 0.0):
        raise UnsupportedError(f"softmax_scale={softmax_scale}; these kernels take a finite number above 0.")
    return scale


def require_capability(tensor, what, least=(8, 0)):
    """A card that is new enough, where there is one."""
    if tensor.is_cuda and torch.cuda.get_device_capability(tensor.device) < least:
        major, minor = least
        raise UnsupportedError(f"{what} compute capability {major}.{minor}; this card is older.")


def require_hopper(tensor, what):
    """A card of compute capability 9.0, where there is a card: only that has wgmma."""
    if not tensor.is_cuda:
        return
    major, minor = torch.cuda.get_device_capability(tensor.device)
    if (major, minor) != (9, 0):
        raise UnsupportedError(
            f"{what} needs compute capability 9.0 (H100, H200): no other card has wgmma, and this one has "
            f"{major}.{minor}. With tensors on the CPU and COURSE_ENGINE=cpu it runs on the SIMT machine."
        )


def require_rows(name, x, like):
    """Rows contiguous and on 16 bytes; dtype and device of `like`."""
    if x.dtype != like.dtype or x.device != like.device:
        raise ShapeError(
            f"{name} is {x.dtype} on {x.device} and the pool {like.dtype} on {like.device}; they must agree."
        )
    unaligned = any(step % CHUNK for step in steps_of(x))
    if x.stride(-1) != 1 or x.data_ptr() % 16 or unaligned or x.shape[-1] % CHUNK:
        raise ShapeError(
            f"{name} has the shape {tuple(x.shape)}, strides {x.stride()} and starts {x.data_ptr() % 16} bytes past a "
            "multiple of 16; rows are read 16 bytes at a time, so each must be contiguous and start at such a multiple."
        )


def require_group(num_heads, num_kv_heads):
    """Query heads that share key-value heads evenly, and no more of them than a kernel has columns for."""
    if num_heads % num_kv_heads or num_heads // num_kv_heads > MAX_GROUP:
        raise ShapeError(
            f"num_kv_heads={num_kv_heads}; num_heads={num_heads} must be a multiple of it, at most {MAX_GROUP} times."
        )

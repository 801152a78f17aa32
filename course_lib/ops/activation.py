"""Launchers of tanh-GELU and of the gated product of a SwiGLU layer, forward and backward.

May import: errors, ops._foundation, torch. Grid and block are written here and in `_foundation.rows`, nowhere else.
"""

import torch

from ..errors import ShapeError, UnsupportedError
from ._foundation.checks import require_language
from ._foundation.launch import cuda_launch, ran, triton_launch
from ._foundation.plans import planned
from ._foundation.rows import ROW_ELEMENTS, access_width, as_rows, element_grid, element_shape, row_stride
from ._foundation.sizes import ceil_div, power_of_two
from ._foundation.typed import typed

GATES = ("silu", "gelu_tanh")
TILE = 2048  # numbers of a Triton program
CHUNKS = {1: 4, 2: 2, 3: 2}  # tensors that are read -> accesses of a thread to each


def gelu_tanh(x, *, out=None, language="cuda"):
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), one launch of 01_gelu_tanh: one read and one write.

    Parameters
    ----------
    x : tensor, (..., num_cols), float32, float16 or bfloat16; rows contiguous and one stride apart
    out : tensor like `x`, rows of any one stride, or None for a new one; may be `x`
    language : "cuda" or "triton"

    Returns
    -------
    out : tensor, shape and dtype of `x`; computed in float32, rounded once; finite for every finite number to +-1e6

    Raises
    ------
    ShapeError        shapes, dtypes or strides that do not fit
    UnsupportedError  no such language
    """
    return ran(plan_gelu_tanh(x, out=out, language=language))


def swiglu(gate, up=None, *, activation="silu", out=None, language="cuda"):
    """activation(gate) * up, one launch of 02_swiglu: two reads and one write.

    Parameters
    ----------
    gate : tensor, (..., num_cols), as in `gelu_tanh`; without `up` (..., 2 * num_cols): the gate, then up
    up : tensor like `gate`, rows of any one stride, or None
    activation : "silu" (SwiGLU) or "gelu_tanh" (GEGLU)
    out : tensor, (..., num_cols), or None for a new one; may be `gate` or `up`

    Returns
    -------
    out : tensor, (..., num_cols)
    """
    return ran(plan_swiglu(gate, up, activation=activation, out=out, language=language))


def gelu_tanh_backward(d_out, x, *, out=None, language="cuda"):
    """The gradient of `gelu_tanh`, one launch of 03_gelu_tanh_backward; `out` may be `d_out` or `x`."""
    return ran(plan_gelu_tanh_backward(d_out, x, out=out, language=language))


def swiglu_backward(d_out, gate, up=None, *, activation="silu", out=None, language="cuda"):
    """The gradients of `swiglu`, one launch of 04_swiglu_backward: three reads and two writes.

    Parameters
    ----------
    d_out : tensor, (..., num_cols), the gradient of the output
    gate, up, activation : as in `swiglu`
    out : what is returned, or None for new tensors; may be the inputs, which are then replaced

    Returns
    -------
    (d_gate, d_up), or where `up` is None one tensor (..., 2 * num_cols): the gradient of the gate, then of up
    """
    launch = plan_swiglu_backward(d_out, gate, up, activation=activation, out=out, language=language)
    launch.run()
    return launch.outputs if up is not None else launch.outputs[0]


@planned
def plan_gelu_tanh(x, *, out=None, language="cuda"):
    """The launch of 01_gelu_tanh, not yet run."""
    out = _new(x) if out is None else out
    return _launch("01_gelu_tanh", language, {"x": x, "out": out}, 1, (out,))


@planned
def plan_swiglu(gate, up=None, *, activation="silu", out=None, language="cuda"):
    """The launch of 02_swiglu, not yet run."""
    _require_gate(activation)
    gate, up = _halves("gate", gate) if up is None else (gate, up)
    out = _new(gate) if out is None else out
    return _launch("02_swiglu", language, {"gate": gate, "up": up, "out": out}, 2, (out,), {"GATE": activation})


@typed
def plan_gelu_tanh_backward(d_out, x, *, out=None, language="cuda"):
    """The launch of 03_gelu_tanh_backward, not yet run."""
    out = _new(x) if out is None else out
    return _launch("03_gelu_tanh_backward", language, {"d_out": d_out, "x": x, "out": out}, 2, (out,))


@typed
def plan_swiglu_backward(d_out, gate, up=None, *, activation="silu", out=None, language="cuda"):
    """The launch of 04_swiglu_backward, not yet run."""
    _require_gate(activation)
    if up is None:
        out = _new(gate) if out is None else out
        outputs, (gate, up), (d_gate, d_up) = (out,), _halves("gate", gate), _halves("out", out)
    else:
        outputs = d_gate, d_up = (_new(gate), _new(up)) if out is None else out
    tensors = {"d_out": d_out, "gate": gate, "up": up, "d_gate": d_gate, "d_up": d_up}
    return _launch("04_swiglu_backward", language, tensors, 3, outputs, {"GATE": activation})


def _new(x):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _require_gate(activation):
    if activation not in GATES:
        raise UnsupportedError(f"activation={activation!r} is unknown; choose one of {', '.join(GATES)}.")


def _halves(name, x):
    """The two halves of the last dimension, views."""
    if x.ndim == 0 or x.shape[-1] % 2:
        raise ShapeError(f"{name} has the shape {tuple(x.shape)}; without up it holds both halves, an even number.")
    return x.chunk(2, dim=-1)


def _launch(variant, language, named, num_read, outputs, more=None):
    """A launch over equal rows; `named` maps names to tensors, of which the first `num_read` are read."""
    require_language(language)
    first = next(iter(named.values()))
    rows = [as_rows(name, tensor, like=first) for name, tensor in named.items()]
    stem, sizes = f"activation/{variant}", (*rows[0].shape, *(row_stride(tensor) for tensor in rows))
    if language == "triton":
        constants = tile_of(rows[0])
        grid = tuple(
            ceil_div(n, constants[name]) for n, name in zip(rows[0].shape, ("BLOCK_M", "BLOCK_N"), strict=True)
        )
        return triton_launch(stem, grid, (*rows, *sizes), constants | (more or {}), outputs)
    shape = element_shape(rows[0], access_width(rows[0].shape[1], *rows), chunks=CHUNKS[num_read])
    grid, block = element_grid(*rows[0].shape, shape)
    defines = shape | {"ELEMENT": ROW_ELEMENTS[rows[0].dtype]} | (more or {})
    return cuda_launch(stem, grid, block, (*rows, *sizes), outputs, defines=defines)


def tile_of(rows):
    """{"BLOCK_M", "BLOCK_N", "num_warps"} of a Triton program."""
    num_rows, num_cols = rows.shape
    block_n = min(TILE, power_of_two(num_cols))
    return {"BLOCK_M": min(TILE // block_n, power_of_two(num_rows, least=1)), "BLOCK_N": block_n, "num_warps": 4}

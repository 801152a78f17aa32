"""Attention that learns: FlashAttention forward and backward behind one differentiable function.

May import: errors, ops._foundation, ops.flash_attention_3, _triton, _torch, torch.
"""

import torch

from ...errors import UnsupportedError
from .. import flash_attention_3
from .._foundation.checks import require_attention
from .._foundation.plans import planned
from .._foundation.typed import typed
from . import _torch as plain
from . import _triton as kernels

BACKENDS = ("hopper", "triton", "torch")


@typed
def flash_attention(q, k, v, *, causal=False, softmax_scale=None, backend=None):
    """Exact attention, differentiable; memory grows with the length, not with its square.

    The backward pass stores no weights: it computes them again from lse. Each gradient row is the sum of one program,
    so nothing is added by atomics and two runs give the same bits; "hopper" adds dq in no fixed order, unless
    torch.use_deterministic_algorithms(True) asks for the same bits: then it takes the backward pass of "triton".

    Parameters
    ----------
    q : tensor, (batch_size, num_heads, seq_len_q, head_dim), a float type; batch, head and row may have any strides
    k, v : tensor, (batch_size, num_kv_heads, seq_len_kv, head_dim), like `q`; num_kv_heads divides num_heads
    causal : bool; bottom-right aligned. seq_len_q=2, seq_len_kv=5 keeps
        1 1 1 1 0
        1 1 1 1 1
    softmax_scale : float, dimensionless; default ``head_dim**-0.5``
    backend : "hopper" (flash_attention_3: float16 and bfloat16 whose rows TMA takes, on a GPU of 9.0 or the SIMT
        machine), "triton" (float16, bfloat16, float32; head_dim 64 or 128; the interpreter
        where there is no GPU), "torch" (anything, in plain torch) or None: the first of these that is made for the
        tensors and the GPU that they are on; without a GPU "torch"

    Returns
    -------
    out : tensor, shape and dtype of `q`; zero for a fully masked row, which also sends no gradient

    Raises
    ------
    ShapeError        the tensors do not fit together
    UnsupportedError  no such backend, or one that does not take these tensors

    Notes
    -----
    Cost      forward 4*B*H*Nq*Nkv*d FLOP in two products, backward 10*B*H*Nq*Nkv*d in five; the kernels do
              seven there, since dq and (dk, dv) have launches of their own (about half when causal and Nq == Nkv)
    Numerics  scores, m, l, acc and all sums in float32 ("torch": float64 for float64); probs and d_scores rounded to
              the input dtype before their products

    Source: Dao, FlashAttention-2, 2023, algorithms 1 and 2, arXiv:2307.08691
    """
    return flash_attention_lse(q, k, v, causal=causal, softmax_scale=softmax_scale, backend=backend)[0]


def flash_attention_lse(q, k, v, *, causal=False, softmax_scale=None, backend=None):
    """`flash_attention` and the log-sum-exp of each row of scaled scores.

    Returns
    -------
    out : tensor as in `flash_attention`
    lse : tensor, (batch_size, num_heads, seq_len_q), float32 (float64 from float64 inputs), natural log; -inf for a
        fully masked row. No gradient flows through it
    """
    options = {"causal": causal, "softmax_scale": softmax_scale, "backend": backend}
    launch = None if torch.is_grad_enabled() else _plan(q, k, v, **options)
    if launch is None:
        backend, scale = _checked(q, k, v, softmax_scale, backend)
        return _FlashAttention.apply(q, k, v, bool(causal), scale, backend)
    launch.run()
    return launch.outputs


@typed
def _checked(q, k, v, softmax_scale=None, backend=None):
    """(backend, scale) of arguments that fit together."""
    require_attention(q, k, v)
    if backend is None:
        backend = _fastest(q, k, v)
    if backend not in BACKENDS:
        raise UnsupportedError(f'backend={backend!r} is unknown; choose "hopper", "triton", "torch" or None.')
    if backend != "torch":
        kernels.require_kernel(q)
    return backend, q.shape[-1] ** -0.5 if softmax_scale is None else float(softmax_scale)


@planned
def _plan(q, k, v, *, causal=False, softmax_scale=None, backend=None):
    """The forward launch by itself, which is all where no gradient is recorded; None where plain torch runs."""
    backend, scale = _checked(q, k, v, softmax_scale, backend)
    return None if backend == "torch" else _launch(backend, q, k, v, causal=bool(causal), softmax_scale=scale)


def _fastest(q, k, v):
    """The backend made for these tensors where they are."""
    if flash_attention_3.runs_on(q, k, v):
        return "hopper"
    return "triton" if q.is_cuda and q.dtype in kernels.HALF else "torch"


class _FlashAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal, softmax_scale, backend):
        options = {"causal": causal, "softmax_scale": softmax_scale}
        out, lse = _forward(q, k, v, backend, **options)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.options, ctx.backend = options, backend
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_out, _):
        return *_BACKWARD[ctx.backend](*ctx.saved_tensors, d_out, **ctx.options), None, None, None


@typed
def backward(q, k, v, out, lse, d_out, *, causal=False, softmax_scale=None, backend=None):
    """The gradients of `flash_attention`, from `out` and `lse` of its forward pass.

    Parameters
    ----------
    q, k, v, causal, softmax_scale, backend : as in the forward pass
    out, lse : tensors, results of `flash_attention_lse`
    d_out : tensor, shape and dtype of `out`, any strides

    Returns
    -------
    dq, dk, dv : tensors, shapes and dtypes of q, k and v
    """
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else float(softmax_scale)
    gradients = _BACKWARD[backend or _fastest(q, k, v)]
    return gradients(q, k, v, out, lse, d_out, causal=bool(causal), softmax_scale=scale)


def _forward(q, k, v, backend, **options):
    if backend == "torch":
        return plain.forward(q, k, v, **options)
    launch = _launch(backend, q, k, v, **options)
    launch.run()
    return launch.outputs


def _launch(backend, q, k, v, *, causal, softmax_scale):
    plan = {"hopper": flash_attention_3.plan, "triton": kernels.plan_forward}[backend]
    sign, scale = _positive(softmax_scale)
    return plan(q if sign == 1 else q * sign, k, v, causal=causal, softmax_scale=scale)


def _hopper_backward(q, k, v, out, lse, d_out, **options):
    if torch.are_deterministic_algorithms_enabled():
        return _triton_backward(q, k, v, out, lse, d_out, **options)
    d_out = d_out.contiguous()  # the gradient of a sum is expanded, which TMA does not take
    return _run_backward(flash_attention_3.plan_backward, q, k, v, out, lse, d_out, **options)


def _triton_backward(q, k, v, out, lse, d_out, **options):
    return _run_backward(kernels.plan_backward, q, k, v, out, lse, d_out, **options)


_BACKWARD = {"hopper": _hopper_backward, "triton": _triton_backward, "torch": plain.backward}


def _run_backward(plan, q, k, v, out, lse, d_out, *, causal, softmax_scale):
    sign, scale = _positive(softmax_scale)
    launches = plan(q if sign == 1 else q * sign, k, v, out, lse, d_out, causal=causal, softmax_scale=scale)
    launches.run()
    dq, dk, dv = launches.outputs
    return dq if sign == 1 else dq * sign, dk, dv


def _positive(softmax_scale):
    """(sign, scale): the kernels take the largest score before they scale, so their scale must be above 0."""
    if softmax_scale == 0:
        return 0, 1.0
    return (1, softmax_scale) if softmax_scale > 0 else (-1, -softmax_scale)

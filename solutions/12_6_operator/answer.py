from weakref import ref

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

CALLS = []  # shapes of x, of each call of the kernel


def rms_norm_kernel(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """(out, rstd), both contiguous, a call that neither autograd nor a compiler can look into. Given.

    out : shape and dtype of x; x * rstd * weight
    rstd : shape of x without the last dimension, float32, or float64 where x is; 1 / sqrt(mean(x^2) + eps)
    """
    CALLS.append(x.shape)
    if x.is_meta:
        raise RuntimeError("rms_norm_kernel reads memory, and a tensor on the meta device has none")
    with torch.no_grad():
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        rstd = torch.rsqrt(wide.square().mean(-1) + eps).contiguous()
        return (wide * rstd[..., None] * weight).to(x.dtype).contiguous(), rstd


def add_rms_norm_kernel(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> Tensor:
    """residual += x, x = its RMSNorm, both in place; returns rstd of the new residual. Given."""
    residual.add_(x)
    out, rstd = rms_norm_kernel(residual, weight, eps)
    x.copy_(out)
    return rstd


def fake_rms_norm(x, weight, eps):
    """Empty tensors like the results of rms_norm_kernel."""
    ### BEGIN SOLUTION
    return x.new_empty(x.shape), x.new_empty(x.shape[:-1], dtype=torch.promote_types(x.dtype, torch.float32))
    ### END SOLUTION


def fake_add_rms_norm(x, residual, weight, eps):
    """An empty tensor like the result of add_rms_norm_kernel."""
    ### BEGIN SOLUTION unmarked
    return x.new_empty(x.shape[:-1], dtype=torch.promote_types(x.dtype, torch.float32))
    ### END SOLUTION


def changed_by_add_rms_norm():
    """Names of the arguments that add_rms_norm_kernel changes, a tuple: what mutates_args gets."""
    ### BEGIN SOLUTION unmarked
    return ("x", "residual")
    ### END SOLUTION


def save(ctx, inputs, output):
    """Keep what `gradients` needs. inputs: (x, weight, eps), output: (out, rstd)."""
    ### BEGIN SOLUTION unmarked
    x, weight, _ = inputs
    _, rstd = output
    ctx.save_for_backward(x, weight, rstd)
    ctx.mark_non_differentiable(rstd)
    ### END SOLUTION


def gradients(ctx, d_out, _):
    """Gradients of x, weight and eps from that of out; the one of rstd is not used."""
    ### BEGIN SOLUTION unmarked
    x, weight, rstd = ctx.saved_tensors
    normed = x * rstd[..., None]
    d_normed = d_out * weight
    along = (d_normed * normed).mean(-1, keepdim=True)  # what changes the length of x alone has no effect on out
    dx = rstd[..., None] * (d_normed - normed * along)
    d_weight = (d_out * normed).reshape(-1, x.shape[-1]).sum(0)
    return dx, d_weight, None
    ### END SOLUTION


class _RmsNorm(torch.autograd.Function):
    """The kernel with `save`, as register_autograd calls it; its backward is `gradients`. Given."""

    @staticmethod
    def forward(x, weight, eps):
        return rms_norm_kernel(x, weight, eps)

    @staticmethod
    def setup_context(ctx, inputs, output):
        save(ctx, inputs, output)
        ctx.loose = [leaf for leaf in tree_leaves(dict(vars(ctx))) if isinstance(leaf, Tensor)]


def _strided(x, layout):
    """The same numbers in other strides: "transposed", "apart" (rows), "repeated" (one row for all), else as it is."""
    if layout == "transposed":
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "repeated":
        return x[:1].expand(x.shape)
    return torch.nn.functional.pad(x, (0, 3))[..., : x.shape[-1]] if layout == "apart" else x


def examine_fakes(x, residual, weight, eps, layout):
    """What the fakes and the names say, as numbers. Given: the judge reads it."""
    x, residual, weight = (_strided(x, layout).to("meta"), residual.to("meta"), weight.to("meta"))
    dtypes, log = (torch.float16, torch.bfloat16, torch.float32, torch.float64), []
    CALLS.clear()
    for fake, arguments in ((fake_rms_norm, (x, weight, eps)), (fake_add_rms_norm, (x, residual, weight, eps))):
        made = fake(*arguments)
        made = [out for out in (made if isinstance(made, tuple | list) else (made,)) if isinstance(out, Tensor)]
        log.append(len(made))
        for out in made:
            dtype = dtypes.index(out.dtype) if out.dtype in dtypes else -1
            is_input = any(out is each or out._base is each for each in arguments[:-1])
            log += [int(out.is_meta), int(is_input), dtype, out.ndim, *out.shape, *out.stride()]
    names = changed_by_add_rms_norm()
    names = (names,) if isinstance(names, str) else names or ()
    log += [int(name in names) for name in ("x", "residual", "weight")] + [len(names), len(CALLS)]
    return torch.tensor(log, dtype=torch.int64)


def examine_gradients(x, weight, d_out, eps, layout, d_layout):
    """(dx, d_weight, numbers about what is kept). Given: the judge reads it."""
    kept = []
    x, weight = _strided(x, layout).detach().requires_grad_(), weight.requires_grad_()

    def pack(each):
        kept.append(each.numel())
        return each.detach()  # another tensor on its memory

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda each: each):
        out, rstd = _RmsNorm.apply(x, weight, eps)
    differentiable, no_gradient, alive = rstd.requires_grad, torch.zeros_like(rstd), ref(rstd)
    del rstd
    held = alive() is not None
    dx, d_weight, d_eps = gradients(out.grad_fn, _strided(d_out, d_layout), no_gradient)
    facts = torch.tensor([sum(kept), len(out.grad_fn.loose), int(differentiable), int(d_eps is not None), int(held)])
    return dx.double(), d_weight.double(), facts


def examine(part, *arguments):
    """One of the two, by its number. Given."""
    return (examine_fakes if part == 0 else examine_gradients)(*arguments)

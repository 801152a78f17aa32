"""Right answers to 12.6 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

FORMULA = """\
    x, weight, rstd = ctx.saved_tensors
    normed = x * rstd[..., None]
    d_normed = d_out * weight
    along = (d_normed * normed).mean(-1, keepdim=True)  # what changes the length of x alone has no effect on out
    dx = rstd[..., None] * (d_normed - normed * along)
    d_weight = (d_out * normed).reshape(-1, x.shape[-1]).sum(0)
    return dx, d_weight, None
"""

BY_AUTOGRAD = """\
    x, weight, rstd = ctx.saved_tensors
    with torch.enable_grad():
        x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
        scale = (x.square().mean(-1) + ctx.eps).rsqrt()
        dx, d_weight = torch.autograd.grad(x * scale[..., None] * weight, (x, weight), d_out)
    return dx, d_weight, None
"""

SLOPE = """\
    x, weight, rstd = ctx.saved_tensors
    rstd = rstd.unsqueeze(-1)
    both = d_out * x
    slope = rstd**3 * (both * weight).sum(-1, keepdim=True) / x.shape[-1]
    return rstd * weight * d_out - x * slope, torch.einsum("...j,...j->j", both, rstd.expand(x.shape)), None
"""

AGAIN = """\
    x, weight = ctx.saved_tensors
    rstd = torch.rsqrt(x.square().mean(-1) + ctx.eps)
    normed = x * rstd[..., None]
    d_normed = d_out * weight
    along = torch.linalg.vecdot(d_normed, normed)[..., None] / x.shape[-1]
    return rstd[..., None] * (d_normed - normed * along), (d_out * normed).reshape(-1, len(weight)).sum(0), None
"""

FAKE = """\
    return x.new_empty(x.shape), x.new_empty(x.shape[:-1], dtype=torch.promote_types(x.dtype, torch.float32))
"""

ANSWERS = [
    Right(
        "torch's own gradient of the formula",
        ((FORMULA, BY_AUTOGRAD), ("    x, weight, _ = inputs\n", "    x, weight, ctx.eps = inputs\n")),
    ),
    Right("slope of rstd, and an einsum", ((FORMULA, SLOPE),)),
    Right(
        "rstd made again in the backward pass",
        (
            (FORMULA, AGAIN),
            ("    x, weight, _ = inputs\n", "    x, weight, ctx.eps = inputs\n"),
            ("ctx.save_for_backward(x, weight, rstd)", "ctx.save_for_backward(x, weight)"),
        ),
    ),
    Right(
        "d_weight as a product",
        (("(d_out * normed).reshape(-1, x.shape[-1]).sum(0)", "(normed * d_out).sum_to_size(weight.shape)"),),
    ),
    Right(
        "empty_like, and the dtype by a condition",
        (
            (
                FAKE,
                "    wide = torch.float64 if x.dtype == torch.float64 else torch.float32\n"
                "    out = torch.empty_like(x, memory_format=torch.contiguous_format)\n"
                "    return [out, torch.empty(out.shape[:-1], dtype=wide, device=x.device)]\n",
            ),
            ('return ("x", "residual")', 'return ["residual", "x"]'),
        ),
    ),
    Right(
        "zeros, and a set of names",
        (
            ("x.new_empty(x.shape), x.new_empty(", "torch.zeros_like(x).contiguous(), x.new_zeros("),
            ('return ("x", "residual")', 'return {"x", "residual"}'),
        ),
    ),
]

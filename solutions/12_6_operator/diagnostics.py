"""12.6: what the fakes and the gradients must be, and what wrong ones look like."""

import torch

from course_lib.grading.report.verdict import Diagnosis

FAKES, GRADIENTS = 0, 1
DTYPES = ("float16", "bfloat16", "float32", "float64")
CLOSE = 1e-9  # of the largest gradient; the answer computes in float64


def first_mistake(case, tensors, outputs):
    """Diagnosis of a case, or None."""
    if case.options["part"] == FAKES:
        return _fakes(case, outputs["log"].tolist())
    return _gradients(case, tensors, outputs)


def _read(log):
    """([[fake, …] of each of the two], [is changed of x, residual, weight, number of names, calls]) from the log."""
    position, found = 0, []
    for _ in range(2):
        count, made = log[position], []
        position += 1
        for _ in range(count):
            is_meta, is_input, dtype, ndim = log[position : position + 4]
            numbers = log[position + 4 : position + 4 + 2 * ndim]
            name = DTYPES[dtype] if dtype >= 0 else "another dtype"
            made.append((is_meta, is_input, name, tuple(numbers[:ndim]), tuple(numbers[ndim:])))
            position += 4 + 2 * ndim
        found.append(made)
    return found, log[position:]


def _strides(shape):
    """Strides of a contiguous tensor, as torch gives them."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _fakes(case, log):
    shape = case.options["shape"]
    wide = "float64" if case.dtype == "float64" else "float32"
    rstd = ("rstd", wide, shape[:-1])
    found, (*changed, calls) = _read(log)
    if calls:
        text = "A fake gives shapes, dtypes and strides, and no kernel runs for them, on other tensors either"
        return Diagnosis("kernel_called", f"Case {case.name!r}: the fakes called the kernel {calls} times. {text}.")
    wanted = (("fake_rms_norm", (("out", case.dtype, shape), rstd)), ("fake_add_rms_norm", (rstd,)))
    for (function, wants), made in zip(wanted, found, strict=True):
        start = f"Case {case.name!r}, {function}"
        if len(made) != len(wants):
            names = " and ".join(name for name, *_ in wants)
            return Diagnosis("fake_count", f"{start}: tensors returned: {len(made)}; the kernel returns {names}.")
        for want, got in zip(wants, made, strict=True):
            if wrong := _result(start, want, got):
                return wrong
    return _changed(changed)


def _result(start, want, got):
    """Diagnosis of one result of a fake, or None."""
    name, dtype, shape = want
    is_meta, is_input, got_dtype, got_shape, got_strides = got
    if is_input:
        text = "is an argument, or a view of one; the kernel returns new memory, and a compiler would join the two"
        return Diagnosis("fake_alias", f"{start}: {name} {text}.")
    if not is_meta:
        text = "is on the CPU while x is on the meta device: make it from x, as x.new_empty does"
        return Diagnosis("fake_device", f"{start}: {name} {text}.")
    if got_shape != shape:
        return Diagnosis("fake_shape", f"{start}: {name} has the shape {got_shape}; the kernel's has {shape}.")
    if got_dtype != dtype:
        return Diagnosis("fake_dtype", f"{start}: {name} is {got_dtype}; the kernel's is {dtype}.")
    sizes = [(got, want) for got, want, size in zip(got_strides, _strides(shape), shape, strict=True) if size > 1]
    if any(got != want for got, want in sizes):
        return Diagnosis(
            "fake_strides",
            f"{start}: {name} has the strides {got_strides}; the kernel's is contiguous, {_strides(shape)}, whatever "
            "the strides of x. Code that is compiled for other strides reads the wrong numbers.",
        )
    return None


def _changed(numbers):
    *flags, count = numbers
    names = [name for name, flag in zip(("x", "residual", "weight"), flags, strict=True) if flag]
    said = ", ".join(names) or "none of its arguments"
    if not flags[0] or not flags[1]:
        missing = " and ".join(name for name, flag in zip(("x", "residual"), flags, strict=False) if not flag)
        return Diagnosis(
            "change_not_declared",
            f"changed_by_add_rms_norm names {said}; the kernel changes {missing} too. A compiler that does not know "
            "may read the old value after the call, or drop the call.",
        )
    if flags[2] or count != 2:
        return Diagnosis(
            "change_declared_in_vain",
            f"changed_by_add_rms_norm gives {count} names, of arguments {said}; the kernel changes x and residual "
            "alone. Each name too many keeps a compiler from moving what reads that tensor.",
        )
    return None


def _formed(
    x, weight, d_out, eps, *, projected=1.0, power=1, over=None, rstd_eps=None, weight_of_dx=True, x_of_weight=None
):
    """(dx, d_weight) in the dtype of x; the keywords make mistakes."""
    rstd = torch.rsqrt(x.square().mean(-1, keepdim=True) + (eps if rstd_eps is None else rstd_eps))
    normed = x * rstd
    d_normed = d_out * weight if weight_of_dx else d_out
    along = (d_normed * normed).mean(-1, keepdim=True) if over is None else over(d_normed * normed)
    dx = rstd**power * (d_normed - projected * normed * along)
    return dx, (d_out * (normed if x_of_weight is None else x_of_weight)).reshape(-1, x.shape[-1]).sum(0)


# code, words, mistake (x, weight, d_out, eps) -> (dx, d_weight)
_TABLE = (
    ("not_times_incoming", "the gradient of out is not used: a chain rule multiplies by d_out",
     lambda x, w, d, e: _formed(x, w, torch.ones_like(d), e)),
    ("weight_not_times_incoming", "d_weight does not have the gradient of out in it",
     lambda x, w, d, e: (_formed(x, w, d, e)[0], _formed(x, w, torch.ones_like(d), e)[1])),
    ("x_not_times_incoming", "dx does not have the gradient of out in it",
     lambda x, w, d, e: (_formed(x, w, torch.ones_like(d), e)[0], _formed(x, w, d, e)[1])),
    ("rstd_constant", "dx treats rstd as a constant; it depends on every x of the row, which takes "
     "normed * mean(d_normed * normed) away",
     lambda x, w, d, e: _formed(x, w, d, e, projected=0.0)),
    ("projection_sign", "the part of rstd in dx is added; it is subtracted",
     lambda x, w, d, e: _formed(x, w, d, e, projected=-1.0)),
    ("sum_for_mean", "the part of rstd in dx has a sum over the row in place of a mean",
     lambda x, w, d, e: _formed(x, w, d, e, over=lambda terms: terms.sum(-1, keepdim=True))),
    ("mean_of_all", "the part of rstd in dx has the mean of the whole tensor; each row has its own",
     lambda x, w, d, e: _formed(x, w, d, e, over=lambda terms: terms.mean())),
    ("weight_missing", "dx lacks the weight: the gradient of x * rstd is d_out * weight",
     lambda x, w, d, e: _formed(x, w, d, e, weight_of_dx=False)),
    ("rstd_missing", "dx lacks the factor rstd in front", lambda x, w, d, e: _formed(x, w, d, e, power=0)),
    ("rstd_twice", "dx has the factor rstd twice", lambda x, w, d, e: _formed(x, w, d, e, power=2)),
    ("eps_missing", "rstd was made again without eps", lambda x, w, d, e: _formed(x, w, d, e, rstd_eps=0.0)),
    *(("eps_constant", f"rstd was made again with eps {eps:g}, whatever the argument says",
       lambda x, w, d, e, eps=eps: _formed(x, w, d, e, rstd_eps=eps)) for eps in (1e-5, 1e-6, 1e-8)),
    ("x_not_normed", "d_weight is the sum of d_out * x: what the weight multiplies is x * rstd",
     lambda x, w, d, e: _formed(x, w, d, e, x_of_weight=x)),
    ("weight_mean", "d_weight is a mean over the rows; each row adds its part",
     lambda x, w, d, e: (_formed(x, w, d, e)[0], _formed(x, w, d, e)[1] / (x.numel() // x.shape[-1]))),
)  # fmt: skip


def _gradients(case, tensors, outputs):
    kept, loose, differentiable, of_eps, held = outputs["facts"].tolist()
    x, weight, d_out = (tensors[name] for name in ("x", "weight", "other"))
    wanted = _formed(x, weight, d_out, case.options["eps"])
    got = outputs["dx"], outputs["d_weight"]
    if not _same(got, wanted):
        return _wrong_gradient(case, tensors, got, wanted)
    start, most = f"The gradients are right (case {case.name!r}), but", x.numel() + weight.numel() + x[..., 0].numel()
    if of_eps:
        return Diagnosis("gradient_of_eps", f"{start} the third is not None: eps is a number, and has no gradient.")
    if differentiable:
        return Diagnosis(
            "rstd_differentiable",
            f"{start} rstd asks for a gradient, and gradients does not use it: a loss of rstd would have a gradient of "
            "0 without a word. ctx.mark_non_differentiable says that it has none.",
        )
    if loose:
        return Diagnosis(
            "kept_loose",
            f"{start} ctx holds {loose} tensors as attributes, or in lists of them. save_for_backward keeps them "
            "without a cycle, checks that they are not changed in between, and lets a compiler see them.",
        )
    if held:
        return Diagnosis(
            "kept_loose",
            f"{start} something other than save_for_backward holds rstd after the forward pass: a function, an object "
            "or a list outside of ctx. save_for_backward checks that it is not changed, and lets a compiler see it.",
        )
    if kept > most:
        return Diagnosis(
            "kept_too_much",
            f"{start} {kept} numbers are kept for the backward pass; x, weight and rstd are {most}. The rest can be "
            "made from these again.",
        )
    return None


def _same(got, wanted, close=CLOSE):
    return all(
        bool(((a - b).abs() <= close * (b.abs().amax() + 1e-30)).all()) for a, b in zip(got, wanted, strict=True)
    )


def _wrong_gradient(case, tensors, got, wanted):
    x, weight, d_out = (tensors[name] for name in ("x", "weight", "other"))
    names = [name for name, a, b in zip(("dx", "d_weight"), got, wanted, strict=True) if not _same((a,), (b,))]
    place = 0 if names[0] == "dx" else 1
    wrong = ~((got[place] - wanted[place]).abs() <= CLOSE * wanted[place].abs().amax())
    index = wrong.nonzero()[0].tolist() if bool(wrong.any()) else [0] * wrong.ndim
    numbers = f"{got[place][tuple(index)].item():.9g}, expected {wanted[place][tuple(index)].item():.9g}"
    start = f"Case {case.name!r}: {names[0]}{index} is {numbers}"
    for code, words, mistake in _TABLE:
        if _same(got, mistake(x, weight, d_out, case.options["eps"])):
            return Diagnosis(code, f"{start}. It is what comes when {words}.")
    if bool((weight == 0).any()) and torch.equal(~torch.isfinite(got[1]), weight == 0):
        text = "weight is 0 there, and nothing may be divided by it: x * rstd cannot be had from out"
        return Diagnosis("divided_by_weight", f"{start}; {text}.")
    if _same(got, wanted, 1e-4):
        text = "x is float64 here, and the result has the digits of float32 or less: compute in the dtype of x"
        return Diagnosis("gradient_rounded", f"{start}; {text}.")
    return Diagnosis("wrong_gradient", f"{start}; wrong: {' and '.join(names)}.")

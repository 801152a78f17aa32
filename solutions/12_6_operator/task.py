"""12.6 An operator: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Ref, Run

from . import diagnostics
from .diagnostics import FAKES, GRADIENTS


def _fakes(name, shape, dtype="float32", layout="", weight=None):
    """A case of the fakes: shape, dtype and layout of x, dtype of weight if it is another one."""
    options = {"part": FAKES, "shape": shape, "layout": layout, "eps": 1e-6, "weight": weight or dtype}
    return Case(name, {"num_cols": shape[-1]}, "normal", dtype, options)


def _gradients(name, shape, layout="", d_layout="", *, eps=1e-6, scale=1.0, level=0.0):
    """A case of the gradients, in float64; x is scale * normal + level."""
    options = {"part": GRADIENTS, "shape": shape, "layout": layout, "d_layout": d_layout, "eps": eps}
    return Case(name, {"num_cols": shape[-1]}, "normal", "float64", options | {"scale": scale, "level": level})


def _inputs(case, gen):
    """{"x", "weight"} and "residual" or "d_out", of the dtype of the case."""
    options, dtype = case.options, getattr(torch, case.dtype)
    x = options.get("scale", 1.0) * torch.randn(options["shape"], generator=gen, dtype=torch.float64)
    weight = 1.5 + 0.5 * torch.randn(options["shape"][-1], generator=gen, dtype=torch.float64)
    if options["part"] == GRADIENTS and len(weight) == 5:
        weight[1] = 0.0  # out / weight is no way back to x * rstd
    other = torch.randn(options["shape"], generator=gen, dtype=torch.float64)
    other = other[:1].expand(other.shape).contiguous() if options.get("d_layout") == "repeated" else other
    tensors = {"x": x + options.get("level", 0.0), "weight": weight, "other": other}
    dtypes = {"weight": getattr(torch, options.get("weight", case.dtype))}
    return {name: tensor.to(dtypes.get(name, dtype)) for name, tensor in tensors.items()}


def _run(case, tensors):
    part, shape, eps = case.options["part"], case.options["shape"], case.options["eps"]
    if part == FAKES:
        arguments = (part, Ref("x"), Ref("other"), Ref("weight"), eps, case.options["layout"])
        return Run(case.name, tensors, {"log": ((-1,), "int64")}, arguments)
    layouts = case.options["layout"], case.options["d_layout"]
    outputs = {"dx": (shape, "float64"), "d_weight": (shape[-1:], "float64"), "facts": ((5,), "int64")}
    return Run(case.name, tensors, outputs, (part, Ref("x"), Ref("weight"), Ref("other"), eps, *layouts))


EXERCISE = exercise(
    __file__,
    cases=(
        _fakes("fakes: 3 x 5", (3, 5)),
        _fakes("fakes: one number", (1, 1)),
        _fakes("fakes: 2 x 3 x 4, transposed", (2, 3, 4), layout="transposed"),
        _fakes("fakes: rows apart, bfloat16", (4, 6), "bfloat16", "apart"),
        _fakes("fakes: float16, weight float32", (2, 2, 2, 7), "float16", weight="float32"),
        _fakes("fakes: float64", (5, 8), "float64"),
        _fakes("fakes: 4 x 4, transposed, float16", (4, 4), "float16", "transposed"),
        _fakes("fakes: one row", (9,)),
        _gradients("gradients: 3 x 5", (3, 5)),
        _gradients("gradients: 2 x 3 x 4, transposed", (2, 3, 4), "transposed", eps=0.3),
        _gradients("gradients: one number", (1, 1), eps=0.5),
        _gradients("gradients: of a sum, rows apart", (6, 7), "apart", "repeated", eps=0.1),
        _gradients("gradients: 4 x 4, strided gradient", (4, 4), "", "transposed"),
        _gradients("gradients: 2 x 3 x 4, strided gradient", (2, 3, 4), "apart", "transposed", eps=0.02),
        _gradients("gradients: one row", (7,), eps=0.2),
        _gradients("gradients: small x, seven rows of three", (7, 3), scale=1e-3, eps=1e-5),
        _gradients("gradients: mean of 100", (2, 9), level=100.0),
        _gradients("gradients: 5 x 4 x 3 x 11", (5, 4, 3, 11), eps=1e-2),
    ),
    make_inputs=_inputs,
    make_run=_run,
    accept=diagnostics.first_mistake,
    meta=True,
)

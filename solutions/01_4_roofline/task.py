"""01.4 The roofline: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Ref, Run

from .diagnostics import diagnose_roofline


def _kernels(case, gen):
    """Tensors of whole numbers in float32: given ones, or on both sides of the ridge, a decade to either side."""
    if "flops" in case.options:
        return {"flops": torch.tensor(case.options["flops"]), "num_bytes": torch.tensor(case.options["num_bytes"])}
    shape = tuple(case.sizes.values())
    exponents = torch.rand(shape, generator=gen) * 2
    num_bytes = (case.options.get("fewest_bytes", 1e8) * (1 + 9 * torch.rand(shape, generator=gen))).round()
    ridge = case.options["peak_tflops"] * 1000 / case.options["memory_gbps"]
    kernels = {"flops": (num_bytes * ridge * 10 ** (exponents - 1)).round(), "num_bytes": num_bytes}
    return {name: tensor.T for name, tensor in kernels.items()} if case.options.get("transposed") else kernels


def _roofline_run(case, tensors):
    shape = tuple(tensors["flops"].shape)
    arguments = (Ref("flops"), Ref("num_bytes"), case.options["peak_tflops"], case.options["memory_gbps"])
    outputs = {name: (shape, "float32") for name in ("intensity", "tflops", "least_us")}
    return Run(case.name, tensors, outputs, arguments)


def _roofline(case, flops, num_bytes):
    peak, bandwidth = case.options["peak_tflops"] * 1e12, case.options["memory_gbps"] * 1e9
    intensity = flops / num_bytes
    return {
        "intensity": intensity,
        "tflops": torch.clamp(intensity * bandwidth, max=peak) / 1e12,
        "least_us": torch.maximum(flops / peak, num_bytes / bandwidth) * 1e6,
    }


def _machine_case(name, shape, peak_tflops, memory_gbps, **options):
    options |= {"peak_tflops": peak_tflops, "memory_gbps": memory_gbps}
    return Case(name, dict(zip(("num_kernels", "num_sizes", "num_types"), shape, strict=False)), name, options=options)


EXERCISE = exercise(
    __file__,
    cases=(
        _machine_case("memory limits", (1,), 989.4, 4800.0, flops=[1e9], num_bytes=[1e8]),
        _machine_case("arithmetic limits", (1,), 989.4, 4800.0, flops=[1e12], num_bytes=[1e8]),
        _machine_case("a copy", (2,), 989.4, 4800.0, flops=[0.0, 1e10], num_bytes=[1e9, 1e9]),
        _machine_case("copies of one byte", (3,), 989.4, 4800.0, flops=[0.0, 0.0, 0.0], num_bytes=[1.0, 2.0, 3.0]),
        _machine_case("on an A100", (40,), 312.0, 2039.0),
        _machine_case("on an H200", (40,), 989.4, 4800.0),
        _machine_case("on a T4", (40,), 65.0, 320.0),
        _machine_case("a few bytes on a small processor", (40,), 0.0001, 0.01, fewest_bytes=4.0),
        _machine_case("whole numbers for the machine", (9,), 1000, 2000),
        _machine_case("weeks of work", (40,), 67.0, 3352.0, fewest_bytes=4e18),
        _machine_case("several sizes and types of each kernel", (2, 3, 4), 989.4, 4800.0),
        _machine_case("one size of each kernel", (5, 1), 989.4, 4800.0),
        _machine_case("several sizes of one kernel", (1, 6), 989.4, 4800.0),
        _machine_case("transposed tensors", (3, 4), 312.0, 2039.0, transposed=True),
        _machine_case("tensors without a dimension", (), 989.4, 4800.0, flops=1e9, num_bytes=1e8),
    ),
    make_inputs=_kernels,
    make_run=_roofline_run,
    oracle=lambda case, tensors: _roofline(case, *(tensor.double() for tensor in tensors.values())),
    baseline=lambda case, tensors: _roofline(case, *tensors.values()),
    rules={"intensity": "forward", "tflops": "forward", "least_us": "forward"},
    diagnose=diagnose_roofline,
)

"""01.4 The roofline: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Ref, Run

from .diagnostics import diagnose_roofline


def _kernels(case, gen):
    """{"flops", "num_bytes"}, (num_kernels,) float32: from a copy (no FLOP) to kernels that hardly touch memory."""
    count = case.sizes["num_kernels"]
    if "flops" in case.options:
        return {"flops": torch.tensor(case.options["flops"]), "num_bytes": torch.tensor(case.options["num_bytes"])}
    exponents = torch.rand(count, generator=gen) * 2
    num_bytes = 1e8 * (1 + 9 * torch.rand(count, generator=gen))
    ridge = case.options["peak_tflops"] * 1000 / case.options["memory_gbps"]
    return {"flops": num_bytes * ridge * 10 ** (exponents - 1), "num_bytes": num_bytes}


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


def _machine_case(name, num_kernels, peak_tflops, memory_gbps, **options):
    options |= {"peak_tflops": peak_tflops, "memory_gbps": memory_gbps}
    return Case(name, {"num_kernels": num_kernels}, name, options=options)


EXERCISE = exercise(
    __file__,
    cases=(
        _machine_case("memory limits", 1, 989.4, 4800.0, flops=[1e9], num_bytes=[1e8]),
        _machine_case("arithmetic limits", 1, 989.4, 4800.0, flops=[1e12], num_bytes=[1e8]),
        _machine_case("a copy", 2, 989.4, 4800.0, flops=[0.0, 1e10], num_bytes=[1e9, 1e9]),
        _machine_case("on an A100", 40, 312.0, 2039.0),
        _machine_case("on an H200", 40, 989.4, 4800.0),
        _machine_case("on a T4", 40, 65.0, 320.0),
    ),
    make_inputs=_kernels,
    make_run=_roofline_run,
    oracle=lambda case, tensors: _roofline(case, *(tensor.double() for tensor in tensors.values())),
    baseline=lambda case, tensors: _roofline(case, *tensors.values()),
    rules={"intensity": "forward", "tflops": "forward", "least_us": "forward"},
    diagnose=diagnose_roofline,
)

"""The exercises of chapter 01 in Python: counting sectors by hand, and the roofline.

May import: spec, protocol, the shared readings.
"""

import torch

from ..exercise.spec import Case, Exercise
from ..processes.protocol import Ref, Run
from . import roofline_readings, sector_readings
from .sector_readings import PATTERNS

SECTORS = Exercise(
    id="01.1",
    title="Count the sectors of a warp load",
    language="python",
    entry="sectors_per_request",
    signature="sectors_per_request() -> (one_further, every_third, backwards, vectors, repeated)",
    contract=(
        "Returns five whole numbers: how many sectors of 32 bytes one load of a warp touches, for x[lane + 1], "
        "x[3 * lane], x[31 - lane], x4[lane] and x[lane / 8]; lane is 0 to 31, x holds floats of 4 bytes, x4 float4 of "
        "16 bytes, and both start at a multiple of 128 bytes."
    ),
    size_lines=5,
    minutes=10,
    solution="solutions/answers/01_1.py",
    cases=tuple(Case(pattern.load, {}, name, "whole number") for name, pattern in PATTERNS.items()),
    make_inputs=lambda case, gen: {},
    make_run=lambda case, tensors: Run(case.name, tensors, {name: ((), "float32") for name in PATTERNS}, ()),
    oracle=lambda case, tensors: {},
    baseline=lambda case, tensors: {},
    rules={},
    hints=(
        "Write down the first and the last byte that the warp reads. In which sectors do they lie? Are all sectors in "
        "between touched?",
        "Sector number = byte address // 32. A sector counts once, however many lanes touch it and however few of its "
        "bytes are wanted.",
        "len({(address + byte) // 32 for address in addresses for byte in range(size)}) counts them; addresses holds "
        "the 32 byte addresses of the lanes, size is 4 or 16.",
    ),
    explanation=(
        "Three things decide, and only these: which bytes the warp wants in all, whether they begin at a sector's "
        "border, and how many of them share a sector. Which lane wants which byte is of no account, and a byte that "
        "several lanes want travels once."
    ),
    accept=sector_readings.accept_count,
)


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


ROOFLINE = Exercise(
    id="01.4",
    title="The roofline",
    language="python",
    entry="roofline",
    signature="roofline(flops, num_bytes, peak_tflops, memory_gbps) -> (intensity, tflops, least_us)",
    contract=(
        "flops and num_bytes are float32 tensors of one shape, a kernel's operations and bytes of memory traffic; "
        "peak_tflops (10^12 FLOP/s) and memory_gbps (10^9 bytes/s) are numbers. Returns, element by element: FLOP per "
        "byte; the rate in TFLOP/s that the roofline allows; the least time in microseconds. A kernel without FLOP (a "
        "copy) still takes time."
    ),
    size_lines=3,
    minutes=10,
    solution="solutions/answers/01_4.py",
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
    hints=(
        "Two times: what the arithmetic units need for the FLOP, and what the memory needs for the bytes. If both work "
        "at once, how long does the kernel take?",
        "intensity * memory_gbps has the unit 10^9 FLOP/s. And flops / tflops divides 0 by 0 for a copy: start from "
        "the two times instead.",
        "tflops = torch.clamp(intensity * memory_gbps / 1000, max=peak_tflops); least_us = torch.maximum(flops / "
        "peak_tflops / 1e6, num_bytes / memory_gbps / 1e3)",
    ),
    explanation=(
        "The same statement twice: the smaller of two rates, the larger of two times. The second form needs no "
        "division by the intensity, so it also holds for a copy. The roof is an upper bound on the rate and a lower "
        "bound on the time; a measurement beyond it is a mistake in the measurement or in the count of bytes."
    ),
    diagnose=roofline_readings.diagnose_roofline,
)

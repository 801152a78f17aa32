"""Right answers to 01.4 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

TFLOPS = "tflops = torch.clamp(intensity * memory_gbps / 1000, max=peak_tflops)"
LEAST = "least_us = torch.maximum(flops / peak_tflops / 1e6, num_bytes / memory_gbps / 1e3)"

BY_RIDGE = """import torch


def roofline(flops, num_bytes, peak_tflops, memory_gbps):
    ridge = peak_tflops * 1e12 / (memory_gbps * 1e9)
    intensity = flops / num_bytes
    left = intensity < ridge
    tflops = torch.where(left, peak_tflops * intensity / ridge, torch.tensor(peak_tflops))
    least_us = torch.where(left, num_bytes / (memory_gbps * 1e3), flops / (peak_tflops * 1e6))
    return intensity, tflops, least_us
"""

BY_TIMES = """import torch


def roofline(flops, num_bytes, peak_tflops, memory_gbps):
    memory_us, compute_us = num_bytes * (1e-3 / memory_gbps), flops * (1e-6 / peak_tflops)
    least_us = torch.where(memory_us > compute_us, memory_us, compute_us)
    return [torch.div(flops, num_bytes), flops / least_us / 1e6, least_us]
"""

ANSWERS = [
    Right("the rate from the times", text=BY_TIMES),
    Right("by the ridge", text=BY_RIDGE),
    Right(
        "where",
        (
            (
                TFLOPS,
                "bound = intensity * memory_gbps / 1000\n"
                "    tflops = torch.where(bound < peak_tflops, bound, torch.full_like(bound, peak_tflops))",
            ),
        ),
    ),
    Right(
        "in double precision",
        (
            (
                LEAST,
                "least_us = torch.maximum(flops.double() / (peak_tflops * 1e12), num_bytes.double() / (memory_gbps * "
                "1e9)).mul(1e6).float()",
            ),
        ),
    ),
]

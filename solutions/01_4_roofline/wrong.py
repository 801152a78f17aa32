"""Wrong answers to 01.4, each an edit of answer.py."""

from course_lib.grading.exercise.submissions import Wrong

INTENSITY = "intensity = flops / num_bytes"
TFLOPS = "tflops = torch.clamp(intensity * memory_gbps / 1000, max=peak_tflops)"
LEAST = "least_us = torch.maximum(flops / peak_tflops / 1e6, num_bytes / memory_gbps / 1e3)"
RETURN = "return intensity, tflops, least_us"


def least(text):
    """The solution with another time."""
    return ((LEAST, f"least_us = {text}"),)


ANSWERS = [
    Wrong("gigabytes as terabytes", ((TFLOPS, TFLOPS.replace(" / 1000", "")),), "unit", "not TFLOP/s"),
    Wrong("bytes per FLOP", ((RETURN, "return 1 / intensity, tflops, least_us"),), "inverse_intensity", "per FLOP"),
    Wrong("no roof", ((TFLOPS, "tflops = intensity * memory_gbps / 1000"),), "above_the_roof", "no kernel exceeds"),
    Wrong("always the peak", ((TFLOPS, "tflops = torch.full_like(intensity, peak_tflops)"),), "peak_alone"),
    Wrong("the larger rate", ((TFLOPS, TFLOPS.replace("max=", "min=")),), "maximum_for_minimum", "the smaller limits"),
    Wrong("time from the rate", least("flops / tflops / 1e6"), "zero_by_zero", "by a division by it"),
    Wrong("the sum of the times", least("flops / peak_tflops / 1e6 + num_bytes / memory_gbps / 1e3"), "sum_of_times"),
    Wrong(
        "the smaller time",
        least("torch.minimum(flops / peak_tflops / 1e6, num_bytes / memory_gbps / 1e3)"),
        "bytes_take_no_time",
        "208 microseconds",
    ),
    Wrong("the bytes alone", least("num_bytes / memory_gbps / 1e3"), "memory_time_alone", "arithmetic may take longer"),
    Wrong("the arithmetic alone", least("flops / peak_tflops / 1e6"), "bytes_take_no_time"),
    Wrong(
        "milliseconds",
        least("torch.maximum(flops / peak_tflops / 1e9, num_bytes / memory_gbps / 1e6)"),
        "unit",
        "10^-3",
    ),
    Wrong(
        "seconds", least("torch.maximum(flops / peak_tflops / 1e12, num_bytes / memory_gbps / 1e9)"), "unit", "10^-6"
    ),
    Wrong("FLOP/s", ((RETURN, "return intensity, tflops * 1e12, least_us"),), "unit", "10^12"),
    Wrong(
        "changed places", ((RETURN, "return tflops, intensity, least_us"),), "swapped_results", "intensity and tflops"
    ),
    Wrong(
        "half precision",
        ((TFLOPS, "tflops = torch.clamp(intensity * memory_gbps / 1000, max=peak_tflops).half().float()"),),
        "low_precision",
    ),
    Wrong("one result", ((RETURN, "return tflops"),), "wrong_return"),
]

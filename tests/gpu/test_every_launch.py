"""Every step of the course, launched small and ragged: a GPU and the CPU engines give the same numbers."""

import pytest
import torch

from benchmarks.launches import launches

NAMES = [stem for stem, language in launches("cpu") if language == "cuda"]
# relative to the largest number: float32 differs by the order of sums, halves by their own rounding as well
TOLERANCE = {
    torch.float32: 2e-5,
    torch.float16: 2e-3,
    torch.bfloat16: 1.6e-2,
    torch.int8: 0.0,
    torch.int16: 0.0,
    torch.int32: 0.0,
    torch.int64: 0.0,
}
CLOCKS = "bandwidth/02_pointer_chase"  # its first output is a time


@pytest.mark.parametrize("stem", NAMES)
def test_engines_agree(stem, monkeypatch):
    mine = launches("cuda")[stem, "cuda"]()
    mine.run()
    monkeypatch.setenv("COURSE_ENGINE", "cpu")
    other = launches("cpu")[stem, "cuda"]()
    other.run()
    for on_gpu, on_cpu in zip(mine.outputs, other.outputs, strict=True):
        if stem == CLOCKS:
            on_gpu, on_cpu = on_gpu[1:], on_cpu[1:]
        scale = max(1.0, on_cpu.double().nan_to_num(posinf=0.0, neginf=0.0).abs().max().item())
        limit = TOLERANCE[on_cpu.dtype] * scale
        torch.testing.assert_close(on_gpu.cpu(), on_cpu, rtol=0, atol=limit, equal_nan=True)


def test_every_triton_twin_runs():
    """One process holds either Triton's interpreter or its compiler: the numbers are compared in test_triton.py."""
    for (_, language), make in launches("cuda").items():
        if language == "triton":
            make().run()
    torch.cuda.synchronize()

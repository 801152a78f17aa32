"""Every step of the course, launched small and ragged: a GPU and the CPU engines give the same numbers."""

import pytest
import torch

from course_lib.ops.examples import examples

NAMES = [example.name for example in examples("cpu") if example.language == "cuda"]
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


def planned(device, name):
    """The launch of one example, not yet run."""
    [example] = [example for example in examples(device) if example.name == name]
    return example.plan()


@pytest.mark.parametrize("name", NAMES)
def test_engines_agree(name, monkeypatch):
    mine = planned("cuda", name)
    mine.run()
    monkeypatch.setenv("COURSE_ENGINE", "cpu")
    other = planned("cpu", name)
    other.run()
    for on_gpu, on_cpu in zip(mine.outputs, other.outputs, strict=True):
        if name.startswith(CLOCKS):
            on_gpu, on_cpu = on_gpu[1:], on_cpu[1:]
        scale = max(1.0, on_cpu.double().nan_to_num(posinf=0.0, neginf=0.0).abs().max().item())
        limit = TOLERANCE[on_cpu.dtype] * scale
        torch.testing.assert_close(on_gpu.cpu(), on_cpu, rtol=0, atol=limit, equal_nan=True)


def test_every_triton_twin_runs():
    """One process holds either Triton's interpreter or its compiler: the numbers are compared in test_triton.py."""
    for example in examples("cuda"):
        if example.language == "triton":
            example.plan().run()
    torch.cuda.synchronize()

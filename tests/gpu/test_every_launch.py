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
    torch.float8_e4m3fn: 0.0,
    torch.int8: 0.0,
    torch.int16: 0.0,
    torch.int32: 0.0,
    torch.int64: 0.0,
}
CLOCKS = "bandwidth/02_pointer_chase"  # its first output is a time
FP8 = (
    "flash_attention_3/08_fp8"  # the tensor cores keep 14 bits of its sums, and a weight of 4 bits may round otherwise
)
FP8_TOLERANCE = {torch.float16: 2e-2, torch.bfloat16: 3e-2, torch.float32: 1e-3}


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
        limits = FP8_TOLERANCE if name.startswith(FP8) else TOLERANCE
        mine, other, limit = on_gpu.cpu().double(), on_cpu.double(), limits[on_cpu.dtype]
        scale = max(1.0, other.nan_to_num(posinf=0.0, neginf=0.0).abs().max().item())
        torch.testing.assert_close(mine, other, rtol=0, atol=limit * scale, equal_nan=True)


def test_every_triton_twin_runs():
    """One process holds either Triton's interpreter or its compiler: the numbers are compared in test_triton.py."""
    for example in examples("cuda"):
        if example.language == "triton":
            example.plan().run()
    torch.cuda.synchronize()

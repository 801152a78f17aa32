"""Tensor maps on the card: boxes of 2 to 4 dimensions, all swizzles, edges, permuted views, and the store back."""

import gc

import pytest
import torch
from tensor_map_cases import CASES, require_right, run

from course_lib import cuda, device
from course_lib.errors import ArgumentError

if device.current().capability < (9, 0):
    pytest.skip("TMA needs compute capability 9.0", allow_module_level=True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_box_arrives_and_leaves(case):
    seen, stored, _ = run(case, "cuda")
    require_right(case, seen, stored)


def test_profile_of_maps_on_the_gpu_writes_back():
    case = CASES[0]
    seen, stored, report = run(case, "cuda", schedule="forward")
    require_right(case, seen, stored)
    assert not report.findings


def test_the_map_keeps_its_tensor_alive():
    source = "struct alignas(64) TensorMap { unsigned long long words[16]; };\n" + (
        'extern "C" __global__ void k(const __grid_constant__ TensorMap map, unsigned long long* out) '
        "{ out[threadIdx.x] = map.words[threadIdx.x]; }"
    )
    made = cuda.tensor_map(torch.full((64, 64), 3.0, device="cuda"), (8, 32), "128B")
    gc.collect()
    assert torch.full((64, 64), -1.0, device="cuda").data_ptr() != made.tensor.data_ptr()
    out = torch.zeros(16, dtype=torch.int64, device="cuda")
    cuda.compile(source)(1, 16, made, out)
    assert out.cpu().view(torch.uint8).numpy().tobytes() == made.driver_bytes()


def test_a_map_of_a_tensor_on_the_cpu_is_refused():
    source = "struct alignas(64) TensorMap { unsigned long long words[16]; };\n" + (
        'extern "C" __global__ void k(const __grid_constant__ TensorMap map, float* out) { out[0] = map.words[0]; }'
    )
    with pytest.raises(ArgumentError, match="parameter map .* on the GPU"):
        cuda.compile(source)(1, 1, cuda.tensor_map(torch.zeros(8, 8), (8, 8)), torch.zeros(1, device="cuda"))

"""Tensor maps on the SIMT machine: the layout against the C++ struct, addresses in the machine's copy, lifetime."""

import ctypes
import gc

import pytest
import torch

from course_lib import cuda
from course_lib.cuda.simt.memory import value_buffers

TYPES = """#include <simt/tensor_map.h>
struct alignas(64) TensorMap { unsigned long long words[16]; };
"""
# The fields of a map, in order, as the kernel sees them
FIELDS = f"""{TYPES}
extern "C" __global__ void fields_kernel(const __grid_constant__ TensorMap map, long long* out) {{
    const SimtTensorMap& seen = *reinterpret_cast<const SimtTensorMap*>(&map);
    for (int i = 0; i < 4; ++i) out[i] = seen.strides[i];
    for (int i = 0; i < 5; ++i) out[4 + i] = seen.sizes[i];
    for (int i = 0; i < 5; ++i) out[9 + i] = seen.box[i];
    out[14] = seen.rank;
    out[15] = seen.element_bytes;
    out[16] = seen.swizzle;
    out[17] = seen.magic;
    out[18] = reinterpret_cast<unsigned long long>(&map) % 64;
}}
"""
# Every element through the map, innermost first; a write through another map
WALK = f"""{TYPES}
__device__ float* element(const TensorMap& map, int d, int s, int h, int b) {{
    const SimtTensorMap& seen = *reinterpret_cast<const SimtTensorMap*>(&map);
    const uint64_t* strides = seen.strides;
    return reinterpret_cast<float*>(seen.address + d * 4 + s * strides[0] + h * strides[1] + b * strides[2]);
}}
extern "C" __global__ void walk_kernel(const __grid_constant__ TensorMap from, const __grid_constant__ TensorMap to) {{
    const SimtTensorMap& seen = *reinterpret_cast<const SimtTensorMap*>(&from);
    const int s = blockIdx.x, h = blockIdx.y, b = blockIdx.z;
    if (threadIdx.x < seen.sizes[0]) *element(to, threadIdx.x, s, h, b) = 2.0f * *element(from, threadIdx.x, s, h, b);
}}
"""
SHARED = f"""{TYPES}
extern "C" __global__ void shared_kernel(const __grid_constant__ TensorMap map, float* x, unsigned long long* out) {{
    const SimtTensorMap& seen = *reinterpret_cast<const SimtTensorMap*>(&map);
    out[0] = seen.address - reinterpret_cast<unsigned long long>(x);
    reinterpret_cast<float*>(seen.address)[0] = 7.0f;
    out[1] = static_cast<unsigned long long>(x[32]);
}}
"""
OUTSIDE = f"""{TYPES}
extern "C" __global__ void outside_kernel(const __grid_constant__ TensorMap map, float* out) {{
    out[0] = reinterpret_cast<const float*>(reinterpret_cast<const SimtTensorMap*>(&map)->address)[64];
}}
"""


@pytest.fixture(autouse=True)
def cpu(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")


@pytest.mark.parametrize("swizzle", [None, "32B", "64B", "128B"])
def test_the_fields_are_where_the_machine_reads_them(swizzle):
    width, number = {None: (48, 0), "128B": (128, 1), "64B": (64, 2), "32B": (32, 3)}[swizzle]
    made = cuda.tensor_map(torch.zeros(2, 3, 5, 7, 32, dtype=torch.int8), (1, 2, 3, 4, width), swizzle)
    out = torch.zeros(19, dtype=torch.int64)
    cuda.compile(FIELDS)(1, 1, made, out)
    assert out.tolist() == [32, 224, 1120, 3360, 32, 7, 5, 3, 2, width, 4, 3, 2, 1, 5, 1, number, 0x5A, 0]


def test_a_map_is_aligned_as_its_type_asks():
    made = cuda.tensor_map(torch.zeros(64), (64,))
    parameters = cuda.compile(OUTSIDE).parameters
    addresses = [ctypes.addressof(value_buffers(parameters[:1], [made])[0]) for _ in range(8)]
    kept = [value_buffers(parameters[:1], [made])[0] for _ in range(64)]  # other places in memory
    assert not any(address % 64 for address in [*addresses, *map(ctypes.addressof, kept)])


def test_the_fields_of_one_dimension():
    out = torch.zeros(19, dtype=torch.int64)
    cuda.compile(FIELDS)(1, 1, cuda.tensor_map(torch.zeros(640, dtype=torch.float64), (256,)), out)
    assert out.tolist() == [0, 0, 0, 0, 640, 1, 1, 1, 1, 256, 1, 1, 1, 1, 1, 8, 0, 0x5A, 0]


def views(batch_size=2, num_heads=3, seq_len=5, head_dim=8):
    """The layouts of attention, as (B, H, S, D): contiguous, permuted from (B, S, H, D), part of a projection."""
    x = torch.randn(batch_size, num_heads, seq_len, head_dim)
    fused = torch.randn(batch_size, seq_len, 3, num_heads, head_dim)
    return {
        "bhsd": x,
        "bshd": torch.randn(batch_size, seq_len, num_heads, head_dim).permute(0, 2, 1, 3),
        "qkv": fused[:, :, 1].permute(0, 2, 1, 3),
        "tail": x[:, 1:, 2:],
        "one": torch.randn(batch_size, seq_len, 1, head_dim).permute(0, 2, 1, 3),
    }


@pytest.mark.parametrize("name", list(views()))
@pytest.mark.parametrize("checked", [False, True])
def test_strides_of_the_views_of_attention(name, checked):
    x, out = views()[name], views()[name].zero_()
    kernel = cuda.compile(WALK)
    run = kernel.profile if checked else kernel
    sizes = x.shape[2], x.shape[1], x.shape[0]
    report = run(sizes, 32, cuda.tensor_map(x, (1, 1, 4, 8)), cuda.tensor_map(out, (1, 1, 4, 8)))
    assert torch.equal(out, 2 * x)
    assert not checked or not report.findings


def test_a_map_and_a_pointer_into_one_storage_share_a_placement():
    x, out = torch.zeros(128), torch.zeros(2, dtype=torch.int64)
    made = cuda.tensor_map(x[64:], (64,))
    kernel = cuda.compile(SHARED)
    kernel(1, 1, made, x[32:], out)
    assert out.tolist() == [128, 7] and x[64] == 7 and x.sum() == 7
    x.zero_()
    report = kernel.profile(1, 1, made, x[32:], out)
    assert out.tolist() == [128, 7] and x[64] == 7 and not report.findings


def test_bounds_are_those_of_the_mapped_tensor():
    report = cuda.compile(OUTSIDE).profile(1, 1, cuda.tensor_map(torch.zeros(64), (64,)), torch.zeros(1))
    [finding] = report.findings
    assert finding.kind == "out_of_bounds" and "map" in finding.message


def test_an_output_counts_as_uninitialised():
    source = OUTSIDE.replace("[64]", "[3]")
    x = torch.zeros(64)
    made = cuda.tensor_map(x, (64,))
    assert not cuda.compile(source).profile(1, 1, made, torch.zeros(1)).findings
    [finding] = cuda.compile(source).profile(1, 1, made, torch.zeros(1), outputs=(x,)).findings
    assert finding.kind == "uninitialised_read"


def test_the_map_keeps_its_tensor_alive():
    made = cuda.tensor_map(torch.full((2, 3, 5, 8), 21.0), (1, 1, 4, 8))
    gc.collect()
    rubbish = [torch.full((2, 3, 5, 8), -1.0) for _ in range(16)]  # takes the memory if it is free
    out = torch.zeros(2, 3, 5, 8)
    cuda.compile(WALK)((5, 3, 2), 32, made, cuda.tensor_map(out, (1, 1, 4, 8)))
    assert (out == 42).all() and len(rubbish) == 16

"""Indices outside local arrays, numbers at misaligned addresses that the compiler knows, writes to const tensors."""

import pytest
import torch

from course_lib.cuda.simt.indices import index_text
from course_lib.cuda.simt.source import AUTHOR

SOURCE = r"""
#include <cuda_fp16.h>
struct State { float m, acc[4]; };
struct Pair { short a, b; };
__device__ __forceinline__ float last_of(const float (&acc)[8], int n) { return acc[n]; }
extern "C" {
__global__ void reads(const float* x, float* out, int n) {
    float acc[8];
    for (int k = 0; k < 8; ++k) acc[k] = x[k];
    float sum = 0.f;
    for (int k = 0; k < n; ++k) sum += acc[k];
    out[threadIdx.x] = sum;
}
__global__ void writes(const float* x, float* out, int n) {
    float sum = 0.f;
    float acc[8], rest[8];
    for (int k = 0; k < 8; ++k) rest[k] = x[k];
    for (int k = 0; k < n; ++k) acc[k] = x[k];
    for (int k = 0; k < 8; ++k) sum += acc[k] + rest[k];
    out[threadIdx.x] = sum;
}
__global__ void two_dimensions(const float* x, float* out, int n) {
    float acc[2][4] = {};
    acc[0][n - 5] = x[0];
    out[threadIdx.x] = acc[n - 7][3];
}
__global__ void in_a_structure(const float* x, float* out, int n) {
    State state;
    for (int k = 0; k < n - 4; ++k) state.acc[k] = x[k];
    out[threadIdx.x] = state.acc[0];
}
__global__ void by_reference(const float* x, float* out, int n) {
    float acc[8];
    for (int k = 0; k < 8; ++k) acc[k] = x[k];
    out[threadIdx.x] = last_of(acc, n - 1);
}
__global__ void negative(const float* x, float* out, int n) {
    float acc[8] = {};
    for (int k = 7; k >= 8 - n; --k) acc[k] += x[0];
    out[threadIdx.x] = acc[0];
}
__global__ void far_away(const float* x, float* out, int n) {
    float acc[8] = {};
    acc[(n - 8) * 1000000000] = x[0];
    out[threadIdx.x] = acc[0];
}
// A row of a shared array runs on into the next one; only past the end of the whole array it is an error.
__global__ void shared_rows(const float* x, float* out, int n) {
    __shared__ float tile[4][16];
    for (int i = threadIdx.x; i < 64; i += blockDim.x) tile[0][i] = x[0];
    __syncthreads();
    out[threadIdx.x] = tile[1][threadIdx.x];
}
__global__ void int_in_shorts(const float* x, float* out, int n) {
    __shared__ __align__(16) short s[32];
    if (threadIdx.x == 0) *reinterpret_cast<int*>(&s[1]) = 3;
    __syncthreads();
    out[threadIdx.x] = *reinterpret_cast<int*>(&s[1]);
}
__global__ void int_in_bytes(const float* x, float* out, int n) {
    extern __shared__ char raw[];
    if (threadIdx.x == 0) *reinterpret_cast<int*>(raw + 2) = 3;
    __syncthreads();
    out[threadIdx.x] = *reinterpret_cast<int*>(raw + 2);
}
__global__ void double_in_carve_up(const float* x, float* out, int n) {
    extern __shared__ char raw[];
    float* first = reinterpret_cast<float*>(raw);
    double* second = reinterpret_cast<double*>(raw + 33 * 4);
    if (threadIdx.x == 0) second[0] = 1.0;
    first[threadIdx.x] = x[0];
    __syncthreads();
    out[threadIdx.x] = first[threadIdx.x] + static_cast<float>(second[0]);
}
__global__ void half2_at_odd_index(const float* x, float* out, int n) {
    __shared__ __half s[32];
    if (threadIdx.x == 0) *reinterpret_cast<__half2*>(&s[1]) = __floats2half2_rn(1.f, 2.f);
    __syncthreads();
    out[threadIdx.x] = __low2float(*reinterpret_cast<const __half2*>(&s[1]));
}
__global__ void pair_at_odd_index(const float* x, float* out, int n) {  // two 16-bit accesses, both aligned
    __shared__ __align__(16) short s[32];
    if (threadIdx.x == 0) *reinterpret_cast<Pair*>(&s[1]) = Pair{1, 2};
    __syncthreads();
    Pair pair = *reinterpret_cast<Pair*>(&s[1]);
    out[threadIdx.x] = pair.a + pair.b;
}
__global__ void writes_its_input(const float* x, float* out, int n) {
    const_cast<float*>(x)[threadIdx.x] = 2.f;
    out[threadIdx.x] = x[threadIdx.x];
}
__global__ void adds_to_its_input(const float* x, float* out, int n) {
    atomicAdd((float*)x + 3, 1.f);
    out[threadIdx.x] = 0.f;
}
}
"""
SHARED_BYTES = 33 * 4 + 8


def _line(text, name):
    lines = SOURCE.splitlines()
    start = next(i for i, line in enumerate(lines) if f" {name}(" in line)
    return next(i for i in range(start, len(lines)) if text in lines[i]) + 1


def _profile(profile, name, n=8, **options):
    x, out = torch.ones(64), torch.zeros(32)
    return profile(SOURCE, name, 1, 32, x, out, n, shared_bytes=SHARED_BYTES, **options)


OUTSIDE = [
    ("reads", 9, "sum += acc[k]", "uses index 8 of acc, which has 8 elements"),
    ("writes", 9, "acc[k] = x[k]; // w", "uses index 8 of acc, which has 8 elements"),
    ("two_dimensions", 9, "acc[0][n - 5]", "uses index 4 of acc[0], which has 4 elements"),
    ("two_dimensions", 9, "acc[n - 7]", "uses index 2 of acc, which has 2 elements"),
    ("in_a_structure", 9, "state.acc[k] =", "uses index 4 of acc, which has 4 elements"),
    ("by_reference", 9, "last_of(acc", "uses index 8 of acc, which has 8 elements"),
    ("negative", 9, "acc[k] +=", "uses index -1 of acc, which has 8 elements"),
    ("far_away", 9, "acc[(n - 8)", "uses index 1000000000 of acc, which has 8 elements"),
]
SOURCE = SOURCE.replace("k < n; ++k) acc[k] = x[k];", "k < n; ++k) acc[k] = x[k]; // w")


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random", "resident"])
@pytest.mark.parametrize(("name", "n", "text", "sentence"), OUTSIDE)
def test_an_index_outside_a_local_array_is_found(profile, name, n, text, sentence, schedule):
    assert _profile(profile, name, schedule=schedule).ok
    found = _profile(profile, name, n, schedule=schedule).out_of_bounds
    line = _line("last_of(const" if name == "by_reference" else text, "last_of" if name == "by_reference" else name)
    assert any(one.line == line and sentence in one.message for one in found), found


@pytest.mark.parametrize(
    ("text", "array", "named"),
    [
        ("probs[k]", "'float[24]'", "probs"),
        ("acc[1][f[k]]", "'float[8]'", "acc[1]"),
        ("acc[k][1]", "'float[2][8]'", "acc"),
        ("state.acc[k]", "'float[4]'", "acc"),
        ("tile->row[k]", "'float[4]'", "row"),
        ("(*rows)[k]", "'float[4]'", "an array"),
    ],
)
def test_the_array_is_named_wherever_the_compiler_points(text, array, named):
    """clang++ gives the column of the first letter, g++ that of the last bracket."""
    source = f"float y = {text} + z[0];"
    first, last = source.index(text) + 1, source.index(text) + len(text)
    columns = [first] if named == "an array" or "][" in text and named == "acc" else [first, last]
    for column in columns:
        raw = {"detail": f"index|24|{array}|5|{column}|{AUTHOR}"}
        assert index_text(raw, source, 5).startswith(f"uses index 24 of {named}, which has "), column


def test_a_row_of_a_shared_array_may_run_on_into_the_next(profile):
    assert _profile(profile, "shared_rows").ok
    report = profile(SOURCE, "shared_rows", 1, 64, torch.ones(64), torch.zeros(64), 8, shared_bytes=SHARED_BYTES)
    (finding,) = report.findings
    assert finding.kind == "out_of_bounds" and finding.space == "shared" and "tile" in finding.message


@pytest.mark.parametrize(
    ("name", "num_bytes"),
    [("int_in_shorts", 4), ("int_in_bytes", 4), ("double_in_carve_up", 8), ("half2_at_odd_index", 4)],
)
@pytest.mark.parametrize("schedule", ["forward", "random"])
def test_a_misaligned_number_at_a_fixed_place_of_shared_memory_is_found(profile, name, num_bytes, schedule):
    """The compiler knows the address, and reports such an access as a range of bytes."""
    report = _profile(profile, name, schedule=schedule)
    assert {(one.kind, one.space) for one in report.findings} == {("misaligned", "shared")}
    assert {one.message.split("thread")[1].split()[1] for one in report.findings} == {"reads", "writes"}
    assert all(f"an address that is not a multiple of {num_bytes}" in one.message for one in report.findings)


def test_a_structure_of_smaller_numbers_is_aligned_as_they_are(profile):
    assert _profile(profile, "pair_at_odd_index").ok


@pytest.mark.parametrize(("name", "what"), [("writes_its_input", "x[0]"), ("adds_to_its_input", "x[3]")])
def test_a_write_to_a_const_tensor_names_the_parameter(profile, name, what):
    report = _profile(profile, name)
    written = report.of_kind("const_write")
    (finding,) = written
    assert f"writes {what}, but x is a const parameter, an input; write to an output instead." in finding.message
    assert finding.line == _line("x)[threadIdx" if name == "writes_its_input" else "atomicAdd", name)


def test_a_tensor_that_another_parameter_may_write_is_no_constant(profile):
    source = 'extern "C" __global__ void f(const float* x, float* out) { out[threadIdx.x] = x[threadIdx.x] + 1.f; }'
    both = torch.zeros(32)
    assert profile(source, "f", 1, 32, both, both).ok

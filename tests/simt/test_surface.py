"""The words of CUDA that the machine gives a meaning: each kernel computes what only the right meaning gives."""

import pytest
import torch

from course_lib.errors import CompileError

SOURCE = r"""
#define FULL 0xffffffffu
__device__ int device_counter;
__device__ float device_table[4] = {1.f, 2.f, 3.f, 4.f};
__constant__ float constant_table[4] = {10.f, 20.f, 30.f, 40.f};
static __constant__ const int lookup[2] = {5, 6};
template <typename T, int N>
__device__ T sum_of(const T* values) {
    T total = 0;
    for (int i = 0; i < N; i++) total += values[i];
    return total;
}
template <int N>
__global__ void __launch_bounds__(64) scaled(const float* in, float* out, int n) {
    __shared__ float tile[N];
    int t = threadIdx.x;
    if (t < N) tile[t] = in[t] * N;
    __syncthreads();
    out[t] = tile[t % N];
}
extern "C" {
__global__ void indices(const float* in, int* out, int n) {
    int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    out[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 1000 + thread;
}
__global__ void tables(const float* in, float* out, int n) {
    int t = threadIdx.x;
    out[t] = sum_of<float, 4>(device_table) + constant_table[t % 4] + lookup[t % 2];
    if (t == 0) atomicAdd(&device_counter, 1);
}
__global__ void read_counter(const float* in, int* out, int n) { out[0] = device_counter; }
__global__ void dynamic_shared(const float* in, float* out, int n) {
    extern __shared__ __align__(16) unsigned char raw[];
    float* a = reinterpret_cast<float*>(raw);
    int* b = reinterpret_cast<int*>(a + n);
    int t = threadIdx.x;
    a[t] = in[t];
    b[t] = t;
    __syncthreads();
    out[t] = a[n - 1 - t] + b[n - 1 - t];
}
__global__ void dynamic_rows(const float* in, float* out, int n) {
    extern __shared__ float rows[][32];
    int t = threadIdx.x;
    rows[t / 32][t % 32] = in[t];
    __syncthreads();
    out[t] = rows[1 - t / 32][t % 32];
}
__global__ void barriers(const float* in, int* out, int n) {
    int t = threadIdx.x;
    out[t] = __syncthreads_count(t % 3 == 0);
    out[64 + t] = __syncthreads_and(t < 64) + 2 * __syncthreads_and(t < 63);
    out[128 + t] = __syncthreads_or(t == 63) + 2 * __syncthreads_or(t == 64);
}
__global__ void votes(const float* in, int* out, int n) {
    int t = threadIdx.x, lane = t % 32;
    unsigned odd = __ballot_sync(FULL, lane & 1);
    int any = __any_sync(FULL, lane == 31), none = __any_sync(FULL, lane == 32);
    int all = __all_sync(FULL, lane < 32), some = __all_sync(FULL, lane < 31);
    unsigned sum = __reduce_add_sync(FULL, (unsigned)lane), most = __reduce_max_sync(FULL, (unsigned)lane);
    int least = __reduce_min_sync(FULL, lane - 16);
    unsigned same = __match_any_sync(FULL, lane / 8);
    int uniform;
    unsigned everyone = __match_all_sync(FULL, 7, &uniform);
    bool right = odd == 0xaaaaaaaau && any && !none && all && !some && sum == 496 && most == 31 && least == -16 &&
                 same == 0xffu << (lane / 8 * 8) && everyone == FULL && uniform;
    out[t] = right;
}
__global__ void active_lanes(const float* in, int* out, int n) {
    int t = threadIdx.x;
    out[t] = 0;
    if (t % 32 < n) out[t] = __popc(__activemask());
}
__global__ void shuffles(const float* in, int* out, int n) {
    int t = threadIdx.x, lane = t % 32;
    out[t] = __shfl_sync(FULL, lane, 5) + 100 * __shfl_sync(FULL, lane, 3, 8);
    out[64 + t] = __shfl_up_sync(FULL, lane, 1) + 100 * __shfl_up_sync(FULL, lane, 2, 16);
    out[128 + t] = __shfl_down_sync(FULL, lane, 1) + 100 * __shfl_down_sync(FULL, lane, 2, 16);
    double d = lane;
    out[192 + t] = __shfl_xor_sync(FULL, lane, 4) + 100 * (int)__shfl_xor_sync(FULL, d, 3, 4);
}
__global__ void atomics(const float* in, int* out, int n) {
    int t = threadIdx.x;
    atomicAdd(&out[0], t);
    atomicSub(&out[1], t);
    atomicMin(&out[2], -t);
    atomicMax(&out[3], t);
    atomicAnd((unsigned*)&out[4], ~(1u << t % 32));
    atomicOr(&out[5], 1 << t % 8);
    atomicXor(&out[6], 1 << t % 3);
    atomicInc((unsigned*)&out[7], 9u);
    atomicAdd((float*)&out[8], 0.5f);
    atomicAdd((double*)&out[10], 0.25);
    atomicAdd((unsigned long long*)&out[12], 1ull << 33);
    int old = out[14] * 0, expected;
    do {
        expected = old;
        old = atomicCAS(&out[15], expected, expected + 2);
    } while (old != expected);
}
__global__ void prints(const float* in, float* out, int n) {
    if (threadIdx.x < 2) printf("thread %d of %s: %.2f\n", (int)threadIdx.x, "warp", in[threadIdx.x]);
}
__global__ void clocks(const float* in, long long* out, int n) {
    long long start = clock64();
    float s = 0;
    for (int i = 0; i < n; i++) s += in[i % 64];
    out[threadIdx.x] = clock64() - start + (s < 0);
}
__global__ void by_value(const __grid_constant__ double a, const bool flag, unsigned char c, long long big,
                         float* out) {
    out[0] = a; out[1] = flag; out[2] = c; out[3] = big == (1ll << 40);
}
}
"""


def _both(profile, launch, name, grid, block, *arguments, **options):
    """Fast, then checked under every schedule; the last tensor argument must come out the same. Gives it."""
    out = next(value for value in reversed(arguments) if isinstance(value, torch.Tensor))
    start = out.clone()
    launch(SOURCE, name, grid, block, *arguments, **options)
    fast = out.clone()
    for schedule in ("forward", "reverse", "random", "resident"):
        out.copy_(start)
        report = profile(SOURCE, name, grid, block, *arguments, schedule=schedule, **options)
        assert report.ok, str(report)
        assert torch.equal(out, fast), schedule
    return fast


def _ints(n):
    return torch.zeros(n, dtype=torch.int32)


def test_indices_in_three_dimensions(profile, launch):
    out = _both(profile, launch, "indices", (2, 3, 2), (4, 2, 3), torch.zeros(1), _ints(12 * 24), 0)
    assert out.tolist() == [block * 1000 + thread for block in range(12) for thread in range(24)]


def test_device_and_constant_memory(profile, launch):
    out = _both(profile, launch, "tables", 1, 8, torch.zeros(1), torch.zeros(8), 0)
    assert out.tolist() == [10 + 10 * (t % 4 + 1) + 5 + t % 2 for t in range(8)]


def test_constant_memory_is_not_global_traffic(profile):
    report = profile(SOURCE, "tables", 1, 8, torch.zeros(1), torch.zeros(8), 0)
    assert report.global_load.requests == 4  # the four words of device_table
    assert report.atomics == 1


@pytest.mark.parametrize("size", [8, 64])
def test_templates_are_named_as_in_cpp(size, profile):
    from course_lib.cuda import simt
    from course_lib.cuda.signature import parse

    parameters = parse(SOURCE, "indices")
    x, out = torch.arange(64.0), torch.zeros(64)
    simt.build(SOURCE, f"scaled<{size}>", parameters).launch(1, 64, [x, out, 0])
    assert out.tolist() == [float(t % size * size) for t in range(64)]


def test_dynamic_shared_memory(profile, launch):
    out = _both(profile, launch, "dynamic_shared", 3, 64, torch.arange(64.0), torch.zeros(64), 64, shared_bytes=512)
    assert out.tolist() == [2.0 * (63 - t) for t in range(64)]
    out = _both(profile, launch, "dynamic_rows", 1, 64, torch.arange(64.0), torch.zeros(64), 64, shared_bytes=256)
    assert out.tolist() == [float((t + 32) % 64) for t in range(64)]


def test_barriers_that_reduce(profile, launch):
    out = _both(profile, launch, "barriers", 1, 64, torch.zeros(1), _ints(192), 0)
    assert out.tolist() == [22] * 64 + [1] * 64 + [1] * 64


@pytest.mark.parametrize("name", ["votes"])
def test_votes_reductions_and_matches(profile, launch, name):
    assert _both(profile, launch, name, 2, 64, torch.zeros(1), _ints(64), 0).tolist() == [1] * 64


def test_the_active_mask_is_the_lanes_that_are_here(profile, launch):
    out = _both(profile, launch, "active_lanes", 1, 64, torch.zeros(1), _ints(64), 20)
    assert out.tolist() == ([20] * 20 + [0] * 12) * 2


def test_shuffles(profile, launch):
    out = _both(profile, launch, "shuffles", 1, 64, torch.zeros(1), _ints(256), 0).reshape(4, 64)[:, :32].tolist()
    lanes = range(32)
    assert out[0] == [5 + 100 * (lane // 8 * 8 + 3) for lane in lanes]
    assert out[1] == [max(lane - 1, 0) + 100 * (lane - 2 if lane % 16 >= 2 else lane) for lane in lanes]
    assert out[2] == [min(lane + 1, 31) + 100 * (lane + 2 if lane % 16 < 14 else lane) for lane in lanes]
    assert out[3] == [(lane ^ 4) + 100 * (lane ^ 3) for lane in lanes]


def test_atomics(profile, launch):
    start = _ints(16)
    start[4] = -1
    launch(SOURCE, "atomics", 4, 64, torch.zeros(1), start, 0)
    out = _ints(16)
    out[4] = -1
    for schedule in ("forward", "resident"):
        out.zero_()
        out[4] = -1
        profile(SOURCE, "atomics", 4, 64, torch.zeros(1), out, 0, schedule=schedule)
        assert torch.equal(out, start)
    threads = range(64)
    assert out[:7].tolist() == [4 * sum(threads), -4 * sum(threads), -63, 63, 0, 255, 0]
    assert out[7] == 256 % 10 and out[8:9].view(torch.float32) == 128 and out[10:12].view(torch.float64) == 64
    assert out[12:14].view(torch.int64) == 256 << 33 and out[15] == 512


def test_printf_goes_through_python(launch, capsys):
    launch(SOURCE, "prints", 1, 32, torch.tensor([1.5, 2.25] + [0.0] * 30), torch.zeros(1), 0)
    assert capsys.readouterr().out == "thread 0 of warp: 1.50\nthread 1 of warp: 2.25\n"


def test_clocks_count_work(profile, launch):
    for run in (launch, profile):
        few, many = torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
        run(SOURCE, "clocks", 1, 1, torch.rand(64), few, 10)
        run(SOURCE, "clocks", 1, 1, torch.rand(64), many, 10000)
        assert 0 < few.item() < many.item()


def test_scalars_by_value(profile, launch):
    out = torch.zeros(4)
    launch(SOURCE, "by_value", 1, 1, 0.5, True, 200, 1 << 40, out)
    assert out.tolist() == [0.5, 1.0, 200.0, 1.0]


def test_views_of_one_storage_stay_one_memory(profile):
    source = 'extern "C" __global__ void shift(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x] + 1.f; }'
    storage = torch.zeros(64)
    report = profile(source, "shift", 1, 32, storage[:32], storage[32:])
    assert report.ok and storage[32:].tolist() == [1.0] * 32 and storage[:32].sum() == 0


def test_a_strided_view_is_addressed_as_it_lies(launch):
    source = 'extern "C" __global__ void every_other(float* x) { x[2 * threadIdx.x] = 1.f; }'
    base = torch.zeros(64)
    launch(source, "every_other", 1, 32, base[::2])
    assert base.tolist() == [1.0, 0.0] * 32


def test_compile_errors_have_the_authors_lines():
    from course_lib.cuda import simt

    source = '#define LENGTH 4\nextern "C" __global__ void broken(float* x) {\n    x[0] = undefined_name;\n}\n'
    with pytest.raises(CompileError) as error:
        simt.build(source, "broken", [], filename="<cell>", first_line=10)
    assert error.value.line == 12 and error.value.filename == "<cell>"
    assert "undefined_name" in str(error.value)
    assert "<cell>:12" in error.value.log


def test_findings_have_the_authors_lines():
    from course_lib.cuda import simt
    from course_lib.cuda.signature import parse

    source = 'extern "C" __global__ void f(float* x) {\n    x[5] = 1.f;\n}\n'
    module = simt.build(source, "f", parse(source, "f"), filename="<cell>", first_line=100, mode="checked")
    assert [finding.line for finding in module.profile(1, 1, [torch.zeros(5)]).findings] == [101]


def test_no_compiler_is_one_clear_sentence(monkeypatch):
    import sys

    from course_lib.errors import ToolchainError

    builder = sys.modules["course_lib.cuda.simt.build"]
    monkeypatch.setenv("COURSE_CXX", "/nowhere/c++")
    builder.compiler.cache_clear()
    try:
        with pytest.raises(ToolchainError, match="apt-get install g\\+\\+.*conda"):
            builder.compiler()
    finally:
        builder.compiler.cache_clear()

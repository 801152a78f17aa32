"""Everything else that the machine finds: bounds, alignment, initialisation, barriers, shuffles, loops, traps."""

import pytest
import torch

SCHEDULES = ["forward", "reverse", "random", "resident"]

SOURCE = r"""
extern "C" {
__global__ void past_the_end(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) out[i] = x[i];
}
__global__ void before_the_guard(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float value = x[i];
    if (i < n) out[i] = value;
}
__global__ void before_the_start(const float* x, float* out, int n) { out[threadIdx.x] = x[(int)threadIdx.x - 1]; }
__global__ void far_away(const float* x, float* out, int n) { out[threadIdx.x] = x[threadIdx.x + (1ll << 40)]; }
__global__ void null_pointer(const float* x, float* out, int n) { *(float*)nullptr = x[0]; }
__global__ void static_shared_bounds(const float* x, float* out, int n) {
    __shared__ float first[64];
    __shared__ float second[64];
    int t = threadIdx.x;
    first[t] = x[t];
    second[t] = x[t];
    __syncthreads();
    out[t] = first[t + n] + second[t];
}
__global__ void dynamic_shared_bounds(const float* x, float* out, int n) {
    extern __shared__ float tile[];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
}
__global__ void unwritten_shared(const float* x, float* out, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    if (t < 63) s[t] = x[t];
    __syncthreads();
    out[t] = s[t];
}
__global__ void unwritten_dynamic(const float* x, float* out, int n) {
    extern __shared__ float s[];
    int t = threadIdx.x;
    if (t != 7) s[t] = x[t];
    __syncthreads();
    out[t] = s[t];
}
__global__ void unwritten_output(const float* x, float* out, int n) { out[threadIdx.x] += x[threadIdx.x]; }
__global__ void misaligned_vector(const float* x, float* out, int n) {
    float4 v = *reinterpret_cast<const float4*>(x + n);
    out[threadIdx.x] = v.x + v.w;
}
__global__ void misaligned_shared(const float* x, float* out, int n) {
    __shared__ float s[68];
    for (int i = threadIdx.x; i < 68; i += blockDim.x) s[i] = 1.f;
    __syncthreads();
    float2 v = *reinterpret_cast<float2*>(&s[n]);
    out[threadIdx.x] = v.x + v.y;
}
__global__ void returned_early(const float* x, float* out, int n) {
    int t = threadIdx.x;
    if (t >= n) return;
    __syncthreads();
    out[t] = x[t];
}
__global__ void two_barriers(const float* x, float* out, int n) {
    int t = threadIdx.x;
    if (t < n)
        __syncthreads();
    else
        __syncthreads();
    out[t] = x[t];
}
__global__ void two_barriers_on_a_line(const float* x, float* out, int n) {
    int t = threadIdx.x;
    if (t < n) { out[t] = 1.f; __syncthreads(); } else { out[t] = 2.f; __syncthreads(); }
    out[t] = x[t];
}
__global__ void one_barrier_in_a_loop(const float* x, float* out, int n) {
    int t = threadIdx.x;
    for (int k = 0; k < (t < n ? 4 : 4); ++k) { if (k % 2) out[t] = x[t]; __syncthreads(); }
}
__global__ void barrier_in_branch(const float* x, float* out, int n) {
    int t = threadIdx.x;
    if (t < n) __syncthreads();
    __syncwarp();
    out[t] = x[t];
}
__global__ void shuffle_in_branch(const float* x, float* out, int n) {
    int t = threadIdx.x;
    float v = x[t];
    if (t % 32 < n) v += __shfl_down_sync(0xffffffffu, v, 1);
    __syncthreads();
    out[t] = v;
}
__global__ void shuffle_from_returned(const float* x, float* out, int n) {
    int t = threadIdx.x;
    if (t % 32 >= n) return;
    out[t] = __shfl_xor_sync(0xffffffffu, x[t], 16);
}
__global__ void shuffle_partial_warp(const float* x, float* out, int n) {  // launched with 48 threads
    out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, x[threadIdx.x], 16);
}
__global__ void scan_partial_warp(const float* x, float* out, int n) {  // launched with 48 threads
    int t = threadIdx.x, lane = t % 32, lanes = min(32, (int)blockDim.x - (t - lane));
    float v = x[t];
    for (int d = 1; d < 32; d *= 2) {
        float w = __shfl_down_sync(0xffffffffu, v, d);
        if (lane + d < lanes) v += w;
    }
    out[t] = v;
}
__global__ void max_partial_warp(const float* x, float* out, int n) {  // launched with 48 threads
    float v = x[threadIdx.x];
    for (int d = 1; d < 32; d *= 2) v = fmaxf(v, __shfl_down_sync(0xffffffffu, v, d));
    out[threadIdx.x] = v;
}
__global__ void branch_on_inactive(const float* x, float* out, int n) {  // launched with 48 threads
    float w = __shfl_xor_sync(0xffffffffu, x[threadIdx.x], 16);
    if (threadIdx.x >= 32) w = w > 0.0f ? x[0] : x[0] + 0.0f * x[1];
    out[threadIdx.x] = w;
}
__global__ void not_in_its_mask(const float* x, float* out, int n) {
    out[threadIdx.x] = __shfl_sync(0x0000ffffu, x[threadIdx.x], 0);
}
__global__ void endless_loop(const float* x, float* out, int n) {
    int i = 0;
    while (n >= 0) {
        out[threadIdx.x] = x[i];
        i = (i + 1) % 32;
    }
}
__global__ void endless_empty_loop(const float* x, float* out, int n) {
    unsigned i = threadIdx.x;
    while (i != 1000u) i = (i * 2u) | 1u;
    out[0] = i;
}
__global__ void endless_spin(const float* x, float* out, int n) {
    while (atomicAdd(out, 0.f) >= 0.f) { }
}
__device__ int deeper(int n, volatile int* p) { return p[0] + deeper(n + 1, p) + p[1]; }
__global__ void endless_recursion(const float* x, float* out, int n) {
    int local[2] = {n, n};
    out[0] = deeper(n, local);
}
void abort();  // what the C library calls where it finds a stack or its own memory overwritten
__global__ void aborted(const float* x, float* out, int n) {
    out[0] = x[0];
    if (n > 1) abort();
}
__global__ void large_frame(const float* x, float* out, int n) {
    float local[1 << 16];
    for (int i = 0; i < 1 << 16; i++) local[(i * 7) % (1 << 16)] = x[i % 64];
    out[0] = local[n];
}
__global__ void failed_assertion(const float* x, float* out, int n) { assert(threadIdx.x < n); }
__global__ void trap(const float* x, float* out, int n) { if (threadIdx.x == 3) __trap(); }
__global__ void divide(const float* x, float* out, int n) { out[0] = 7 / (n - 16); }
}
"""


def _line_of(fragment, after):
    """Number of the first line with `fragment` at or after the kernel `after`."""
    lines = SOURCE.splitlines()
    start = next(i for i, line in enumerate(lines) if f" {after}(" in line)
    return next(i + 1 for i in range(start, len(lines)) if fragment in lines[i])


def _profile(profile, name, *, blocks=1, threads=64, n=64, size=64, out_size=64, **options):
    x, out = torch.ones(size), torch.zeros(out_size)
    options = {"shared_bytes": 0} | options
    if options.pop("fresh", False):
        options["outputs"] = [out]
    return profile(SOURCE, name, blocks, threads, x, out, n, **options)


def _only(report, kind, line):
    """The one finding, which must be of this kind and at this line."""
    assert [(one.kind, one.line) for one in report.findings] == [(kind, line)], str(report)
    return report.findings[0]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_one_past_the_end(profile, schedule):
    report = _profile(profile, "past_the_end", blocks=2, size=64, out_size=64, n=64, schedule=schedule)
    line = _line_of("if (i <= n)", "past_the_end")
    assert {(one.kind, one.line) for one in report.findings} == {("out_of_bounds", line)}
    messages = " ".join(one.message for one in report.out_of_bounds)
    assert "x[64], but x has 64 elements" in messages
    assert "thread (0,0,0) of block (1,0,0)" in messages


def test_a_read_before_the_guard_stays_where_it_is_written(profile):
    """An optimiser would move the read to its only use, after the guard, and hide it."""
    report = _profile(profile, "before_the_guard", blocks=2, size=64, out_size=64, n=64)
    assert "x[64]" in _only(report, "out_of_bounds", _line_of("value = x[i]", "before_the_guard")).message


def test_before_the_start(profile):
    finding = _only(_profile(profile, "before_the_start"), "out_of_bounds", _line_of("- 1]", "before_the_start"))
    assert "x[-1]" in finding.message


@pytest.mark.parametrize("name", ["far_away", "null_pointer"])
def test_wild_addresses_end_the_launch_not_the_process(profile, launch, name):
    from course_lib.errors import KernelFault

    finding = _only(_profile(profile, name), "out_of_bounds", _line_of(name, name))
    assert "no tensor" in finding.message
    with pytest.raises(KernelFault) as fault:
        launch(SOURCE, name, 1, 64, torch.ones(64), torch.zeros(64), 1)
    assert fault.value.findings[0].kind == "out_of_bounds"
    assert fault.value.findings[0].line == _line_of(name, name)


def test_past_the_end_faults_in_the_fast_build(launch):
    from course_lib.errors import KernelFault

    with pytest.raises(KernelFault, match=r"past_the_end: line \d+: .*64"):
        launch(SOURCE, "past_the_end", 2, 64, torch.ones(64), torch.zeros(64), 64)


def test_static_shared_arrays_have_borders(profile):
    assert _profile(profile, "static_shared_bounds", n=0).ok
    finding = _only(
        _profile(profile, "static_shared_bounds", n=1), "out_of_bounds", _line_of("t + n", "static_shared_bounds")
    )
    assert finding.space == "shared"
    assert "first" in finding.message


def test_dynamic_shared_memory_ends_where_the_launch_said(profile):
    assert _profile(profile, "dynamic_shared_bounds", shared_bytes=256).ok
    report = _profile(profile, "dynamic_shared_bounds", shared_bytes=252)
    assert {one.kind for one in report.findings} == {"out_of_bounds"}
    assert all(one.space == "shared" and one.line for one in report.findings)


@pytest.mark.parametrize(("name", "what"), [("unwritten_shared", "s[63]"), ("unwritten_dynamic", "[7]")])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_unwritten_shared_memory(profile, name, what, schedule):
    finding = _only(
        _profile(profile, name, shared_bytes=256, schedule=schedule),
        "uninitialised_read",
        _line_of("out[t] = s[t]", name),
    )
    assert what in finding.message and finding.space == "shared"


def test_outputs_count_as_unwritten_only_when_said(profile):
    assert _profile(profile, "unwritten_output").ok
    report = _profile(profile, "unwritten_output", fresh=True)
    finding = _only(report, "uninitialised_read", _line_of("+=", "unwritten_output"))
    assert "out[0]" in finding.message and finding.count == 64


def test_misaligned_vectors(profile):
    assert _profile(profile, "misaligned_vector", n=4).ok
    finding = _only(
        _profile(profile, "misaligned_vector", n=1), "misaligned", _line_of("float4 v", "misaligned_vector")
    )
    assert "16 bytes" in finding.message and finding.space == "global"
    finding = _only(
        _profile(profile, "misaligned_shared", n=1), "misaligned", _line_of("float2 v", "misaligned_shared")
    )
    assert finding.space == "shared"


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_threads_that_returned_before_a_barrier(profile, schedule):
    assert _profile(profile, "returned_early", threads=128, size=128, out_size=128, n=128, schedule=schedule).ok
    report = _profile(profile, "returned_early", threads=128, size=128, out_size=128, n=112, schedule=schedule)
    finding = _only(report, "divergent_barrier", _line_of("__syncthreads", "returned_early"))
    assert "16 threads of block (0,0,0) returned, 112 wait" in finding.message
    assert report.divergent_barriers == [finding]


def test_two_barriers_in_two_branches(profile):
    assert _profile(profile, "two_barriers", n=64).ok
    finding = _only(
        _profile(profile, "two_barriers", n=32), "divergent_barrier", _line_of("__syncthreads", "two_barriers")
    )
    assert finding.other_line == finding.line + 2


def test_two_barriers_on_one_line(profile):
    """Not one barrier: each branch has its own."""
    assert _profile(profile, "two_barriers_on_a_line", n=64).ok
    assert _profile(profile, "one_barrier_in_a_loop", n=32).ok
    line = _line_of("__syncthreads", "two_barriers_on_a_line")
    finding = _only(_profile(profile, "two_barriers_on_a_line", n=32), "divergent_barrier", line)
    assert finding.other_line == line and f"at another barrier of line {line}" in finding.message


def test_barrier_in_a_branch(profile):
    assert _profile(profile, "barrier_in_branch", n=64).ok
    report = _profile(profile, "barrier_in_branch", threads=32, n=16)
    assert {one.kind for one in report.findings} == {"deadlock"}
    assert report.findings[0].line == _line_of("__syncwarp", "barrier_in_branch")
    assert report.findings[0].other_line == _line_of("if (t < n) __syncthreads", "barrier_in_branch")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_shuffle_that_names_lanes_that_never_come(profile, schedule):
    assert _profile(profile, "shuffle_in_branch", threads=32, n=32, schedule=schedule).ok
    report = _profile(profile, "shuffle_in_branch", threads=32, n=16, schedule=schedule)
    finding = _only(report, "bad_shuffle", _line_of("__shfl_down", "shuffle_in_branch"))
    assert finding.other_line == _line_of("__syncthreads", "shuffle_in_branch")
    assert "lanes 0-15" in finding.message and "names lanes 16-31" in finding.message


def test_shuffle_from_lanes_that_are_not_there(profile):
    line = _line_of("__shfl_xor", "shuffle_from_returned")
    finding = _only(_profile(profile, "shuffle_from_returned", threads=32, n=16), "bad_shuffle", line)
    assert "has returned" in finding.message
    line = _line_of("__shfl_xor", "shuffle_partial_warp")
    finding = _only(_profile(profile, "shuffle_partial_warp", threads=48), "bad_shuffle", line)
    assert "does not exist" in finding.message and finding.count == 16
    assert not _profile(profile, "max_partial_warp", threads=48).ok  # fmaxf passes over a NaN, not over a large number
    assert not _profile(profile, "branch_on_inactive", threads=48).ok  # the same bytes, by another way
    report = _profile(profile, "not_in_its_mask", threads=32)
    assert {one.kind for one in report.findings} == {"bad_shuffle"}


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random"])
def test_a_value_from_an_inactive_lane_may_be_discarded(profile, schedule):
    x, out = torch.arange(48.0), torch.full((48,), -1.0)
    assert profile(SOURCE, "scan_partial_warp", 1, 48, x, out, 48, schedule=schedule).ok
    wanted = [x[t : 32 if t < 32 else 48].sum() for t in range(48)]
    assert out.tolist() == torch.stack(wanted).tolist()


@pytest.mark.parametrize("name", ["endless_loop", "endless_empty_loop"])
def test_the_step_limit_names_the_loop(profile, name):
    report = _profile(profile, name, n=1, step_limit=20000)
    line = _only(report, "step_limit", report.findings[0].line).line
    first = _line_of(name, name)
    assert first < line <= first + 4


def test_spinning_for_ever_is_stopped(profile):
    report = _profile(profile, "endless_spin", threads=2, step_limit=2000)
    _only(report, "step_limit", _line_of("while (atomicAdd", "endless_spin"))


CRASHES = {  # kernel -> kind of its finding: without the machine's care they would end the process
    "endless_recursion": "stack_overflow",
    "large_frame": "stack_overflow",
    "aborted": "out_of_bounds",
    "failed_assertion": "trap",
    "trap": "trap",
    "divide": "trap",
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("endless_loop", "step_limit"),
        ("endless_empty_loop", "step_limit"),
        ("endless_spin", "step_limit"),
        *CRASHES.items(),
        ("barrier_in_branch", "deadlock"),
        ("shuffle_in_branch", "bad_shuffle"),
    ],
)
def test_the_process_survives_a_fault_of_the_fast_build(launch, monkeypatch, name, kind):
    from course_lib.errors import KernelFault

    monkeypatch.setenv("COURSE_TIME_LIMIT_S", "0.3")
    with pytest.raises(KernelFault) as fault:
        launch(SOURCE, name, 3, 32, torch.ones(64), torch.zeros(64), 16)
    assert fault.value.findings[0].kind == kind, str(fault.value)


@pytest.mark.parametrize(("name", "kind"), CRASHES.items())
def test_faults_of_the_checked_build(profile, name, kind):
    report = _profile(profile, name, n=16)
    assert {one.kind for one in report.findings} == {kind}, str(report)
    assert report.findings[0].line

"""What clang++'s kernels need to count as g++'s do (simt/clang.py, runtime/hooks.cpp).

The tests of kernels hold under both compilers; COURSE_CXX says which.
"""

import pytest
import torch

from course_lib.cuda.simt import clang

SOURCE = r"""
extern "C" {
__global__ void indices(const float* x, float* out, int n) {  // a write, a read, then what the reads took in steps
    float acc[8] = {};
    acc[n] = x[0];
    long long before = clock64();
    acc[n + 1] = acc[n] + x[n];
    acc[n + 2] = acc[n + 1] + x[n + 1];
    acc[n + 3] = acc[n + 2] + x[n + 2];
    long long after = clock64();
    out[threadIdx.x] = after - before + 0.f * acc[n + 3];
}
__global__ void none(const float* x, float* out, int n) {
    long long before = clock64();
    long long after = clock64();
    out[threadIdx.x] = after - before;
}
__global__ void written_and_read(const float* x, float* out, int n) {
    __shared__ float s[32];
    int t = threadIdx.x;
    s[t] = x[t];
    out[t] = s[t] + 1.f;
    out[t] += x[t];
}
__global__ void read_after_a_barrier(const float* x, float* out, int n) {
    __shared__ float s[32];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    out[t] = s[t];
    __threadfence();
    out[t] += 1.f;
}
__global__ void read_by_a_neighbour(const float* x, float* out, int n) {
    __shared__ float s[32];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncwarp();
    out[t] = s[31 - t];
}
}
"""


def _run(profile, name, n=0):
    out = torch.zeros(32)
    return profile(SOURCE, name, 1, 32, torch.ones(64), out, n), out


def test_a_checked_index_is_no_step(profile):
    assert _run(profile, "indices")[1].tolist() == _run(profile, "none")[1].tolist()


@pytest.mark.parametrize(
    ("name", "loads", "shared_loads"),
    [("written_and_read", 2, 0), ("read_after_a_barrier", 2, 1), ("read_by_a_neighbour", 1, 1)],
)
def test_a_number_just_written_is_not_read_again(profile, name, loads, shared_loads):
    ledger = _run(profile, name)[0].ledger()
    assert ledger["global_load"]["bytes"] == 32 * 4 * loads
    assert ledger["shared_load"]["bytes"] == 32 * 4 * shared_loads


CHECK = """\
\t.loc\t1 4 52
\tcallq\t__sanitizer_cov_trace_pc@PLT
\tcmpq\t$8, %rax
\tjae\t.LBB0_3
# %bb.2:
\tcallq\t__sanitizer_cov_trace_pc@PLT
\t.loc\t1 0 52
\tleaq\t.L__unnamed_6(%rip), %rdi
\tcallq\t__ubsan_handle_out_of_bounds@PLT
.LBB0_3:
\tcallq\t__sanitizer_cov_trace_pc@PLT
\tmovq\t-320(%rbp), %rdi
\tcallq\t__tsan_unaligned_write4@PLT
\tjmp\t.LBB0_4
.LBB0_4:
\tcallq\t__sanitizer_cov_trace_pc@PLT
"""


def test_blocks_of_a_check_are_taken_out_of_the_assembly():
    """The block before the check and the one that another branch reaches stay."""
    calls = [line.split()[1] for line in clang.without_check_blocks(CHECK).splitlines() if "callq" in line]
    block = "__sanitizer_cov_trace_pc@PLT"
    assert calls == [block, "__ubsan_handle_out_of_bounds@PLT", "__tsan_unaligned_write4@PLT", block]


def test_no_instruction_is_left_without_a_line():
    lines = [line.split()[1:3] for line in clang.with_lines(CHECK).splitlines() if ".loc" in line]
    assert lines == [["1", "4"]]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("*reinterpret_cast<int*>(&s[1]) = 3;", "__tsan_write4"),
        ("// packed as halves\n*reinterpret_cast<int*>(&s[1]) = 3;", "__tsan_write4"),
        ("struct __attribute__((packed)) P { char a; int b; };", "__tsan_unaligned_write4"),
        ("struct __attribute__((aligned(2), __packed__)) P { char a; int b; };", "__tsan_unaligned_write4"),
        ("struct [[gnu::packed]] P { char a; int b; };", "__tsan_unaligned_write4"),
        ("#pragma pack(push, 1)", "__tsan_unaligned_write4"),
    ],
)
def test_only_members_of_packed_structures_are_unaligned_by_right(source, name):
    assert f"\t{name}@PLT" in clang.with_whole_accesses(CHECK, source)

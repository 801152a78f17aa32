"""Mutants as text: what is a call or a shared index, what is a declaration, and what each mistake replaces."""

import pytest

from course_lib.cuda.mutations import KINDS, mutations, with_headers

TEXT = """\
// __syncthreads(); in a comment, as "row_smem[0]" in a text
__device__ __forceinline__ void cp_async_wait_all() { asm volatile("cp.async.wait_all;"); }
void __syncthreads();
extern "C" __global__ void example_kernel(const float* x, float* out, unsigned* count, int n) {
    extern __shared__ float buffer[];
    __shared__ float tile[64], row_smem[8];
    tile[threadIdx.x] = 2.0f * row_smem[threadIdx.x % 8] * __ldcg(x + n);
    float sum = 0.0f, own[4];
    cp_async_wait_group<NUM - 1>();
    if (n > 1) __syncthreads();
    else __syncwarp(0xffu);
    wgmma_commit_group();
    __threadfence();
    const bool last = atomicAdd(&count[f(n, 1)], 1u) == gridDim.x - 1;
    atomicCAS(count, 0u, 1u);
    while (!mbarrier_try_wait(b, 0)) { }
    out[0] = tile[own[0] > 0 ? 1 : 2] + buffer[0];
}
"""


def _lines(kind):
    return [(one.line, one.what) for one in mutations(TEXT, (kind,))]


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("barrier", [(10, "`__syncthreads()` deleted")]),
        ("skipped barrier", [(10, "thread 0 skips `__syncthreads()`")]),
        ("fence", [(13, "`__threadfence()` deleted")]),
        ("wait", [(9, "`cp_async_wait_group<NUM - 1>()` deleted")]),
        ("commit", [(12, "`wgmma_commit_group()` deleted")]),
        ("syncwarp", [(11, "`__syncwarp(0xffu)` deleted")]),
        ("ldcg", [(7, "`__ldcg(x + n)` made plain")]),
        (
            "atomic",
            [(14, "`atomicAdd(&count[f(n, 1)], 1u)` made plain"), (15, "`atomicCAS(count, 0u, 1u)` made plain")],
        ),
        (
            "index",
            [
                (7, "`tile[threadIdx.x]` with 1 more"),
                (7, "`row_smem[threadIdx.x % 8]` with 1 more"),
                (17, "`tile[own[0] > 0 ? 1 : 2]` with 1 more"),
                (17, "`buffer[0]` with 1 more"),
            ],
        ),
    ],
)
def test_each_kind_finds_its_places_and_nothing_else(kind, found):
    assert _lines(kind) == found


def test_the_cases_above_are_all_kinds():
    assert {one.kind for one in mutations(TEXT)} == set(KINDS)


def test_a_mutant_differs_in_one_line_and_keeps_the_others_where_they_are():
    for one in mutations(TEXT):
        before, after = TEXT.splitlines(), one.of(TEXT).splitlines()
        assert len(before) == len(after)
        assert [i for i, pair in enumerate(zip(before, after, strict=True), 1) if len(set(pair)) == 2] == [one.line]


@pytest.mark.parametrize(
    ("kind", "line", "text"),
    [
        ("barrier", 10, "    if (n > 1) ;"),
        ("skipped barrier", 10, "    if (n > 1) (threadIdx.x != 0 ? __syncthreads() : void());"),
        ("syncwarp", 11, "    else ;"),
        ("index", 7, "    tile[(threadIdx.x) + 1] = 2.0f * row_smem[threadIdx.x % 8] * __ldcg(x + n);"),
        ("ldcg", 7, "    tile[threadIdx.x] = 2.0f * row_smem[threadIdx.x % 8] * (*(x + n));"),
        (
            "atomic",
            14,
            "    const bool last = [&] { auto* word = &count[f(n, 1)]; const auto old = *word; *word = old + (1u); "
            "return old; }() == gridDim.x - 1;",
        ),
    ],
)
def test_what_a_mistake_looks_like(kind, line, text):
    assert mutations(TEXT, (kind,))[0].of(TEXT).splitlines()[line - 1] == text


def test_headers_are_written_out_once_with_their_own_lines():
    text = '#include "common/warp_reduce.cuh"\nint a;\n#include "common/warp_reduce.cuh"\nint b;\n'
    whole, origin = with_headers(text)
    lines = whole.splitlines()
    assert origin(lines.index("int a;") + 1) == ("", 2) and origin(lines.index("int b;") + 1) == ("", 4)
    assert origin(1) == ("common/warp_reduce.cuh", 1) and "#include" not in whole and "#pragma once" not in whole
    assert lines.index("int b;") == lines.index("int a;") + 1

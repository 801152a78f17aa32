"""The timeline of wgmma_wait_group: when a warpgroup arrives at it, and which products it covers."""

import torch

from course_lib import cuda

SOURCE = """#include "common/tma.cuh"
#include "common/wgmma.cuh"

extern "C" __global__ void __launch_bounds__(128) two_kernel(float* out) {
    __shared__ __align__(1024) unsigned short tile_smem[64 * 64];
    for (int i = threadIdx.x; i < 64 * 64; i += 128) tile_smem[i] = 0;
    fence_proxy_async();
    __syncthreads();
    const unsigned long long desc = wgmma_descriptor(tile_smem, 16, 1024);
    float first[32], second[32], sum = 0.0f;
    wgmma_fence();
    wgmma_m64k16_f32_f16_ss(first, desc, desc, 0);
    wgmma_commit_group();
    wgmma_m64k16_f32_f16_ss(second, desc, desc, 0);
    wgmma_commit_group();
    wgmma_wait_group<1>();
    for (int i = 0; i < 32; ++i) sum += first[i];
    wgmma_wait_group<0>();
    for (int i = 0; i < 32; ++i) sum += second[i];
    out[threadIdx.x] = sum;
}
"""


def test_each_wait_precedes_the_products_that_it_covers():
    out = torch.empty(128)
    kernel = cuda.compile(SOURCE, "two_kernel", checked=True)
    report = kernel.profile(1, 128, out, timeline=True)
    assert report.ok, str(report)
    rows = [one for one in report.timeline if one.kind.startswith("wgmma")]
    assert [one.kind for one in rows] == ["wgmma_wait", "wgmma", "wgmma_wait", "wgmma"]
    one, first, zero, second = rows
    assert one.end >= first.end and zero.end >= second.end  # a wait ends no earlier than its product
    assert second.start < one.end and zero.start - one.end >= 32  # the first sum, while the second product is in flight
    assert [SOURCE.splitlines()[row.line - 1].strip() for row in (one, zero)] == [
        "wgmma_wait_group<1>();",
        "wgmma_wait_group<0>();",
    ]

"""soft_cap of common/score_mods.cuh, score by score."""

import torch

from course_lib import cuda

SOURCE = """
#include "common/score_mods.cuh"
extern "C" __global__ void capped_kernel(const float* scores, float* out, float cap, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = soft_cap(scores[i], cap);
}
"""


def largest_error(cap, device):
    """The largest error of soft_cap from -1e6 to 1e6, relative to the cap."""
    scores = torch.cat([torch.linspace(-4 * cap, 4 * cap, 4001), torch.tensor([-1e6, -1e-20, 0.0, 1e-20, 1e6])]).to(
        device
    )
    out = torch.full_like(scores, torch.nan)
    cuda.compile(SOURCE, "capped_kernel")((len(scores) + 127) // 128, 128, scores, out, cap, len(scores))
    return ((out.double() - cap * torch.tanh(scores.double() / cap)).abs().max() / cap).item()

"""Inputs of decoding over pages, and what limits it: reading the same bytes, and SDPA on dense keys and values.

Shared by decode, decode_splits, decode_graphs and page_sizes. May import: torch, course_lib, harness.
"""

from types import SimpleNamespace

import torch
import torch.nn.functional as F

from benchmarks.harness import largest_error
from benchmarks.harness.sdpa import BACKENDS, sdpa
from course_lib import cuda

HEAD_DIM = 128
TOLERANCE = 4e-3  # outputs are near 0.02 to 0.1, in bfloat16
DRY_TOLERANCE = 4e-2  # outputs over the few keys of a dry run are ten times as large
SIZES = ("batch_size", "num_heads", "num_kv_heads", "seq_len")
READ = """
extern "C" __global__ void __launch_bounds__(512) read_only_kernel(const int* x, int* out, long long num_words) {
    const uint4* words = reinterpret_cast<const uint4*>(x);
    const long long step = gridDim.x * 512ll;
    unsigned seen = 0;
    long long i = blockIdx.x * 512ll + threadIdx.x;
    for (; i + 7 * step < num_words; i += 8 * step) {
        uint4 part[8];
#pragma unroll
        for (int j = 0; j < 8; ++j) part[j] = words[i + j * step];
#pragma unroll
        for (int j = 0; j < 8; ++j) seen ^= part[j].x ^ part[j].y ^ part[j].z ^ part[j].w;
    }
    for (; i < num_words; i += step) seen ^= words[i].x ^ words[i].y ^ words[i].z ^ words[i].w;
    if (seen == 0x12345678u) out[0] = 1;
}
"""


def sizes_of(load):
    """(batch_size, num_heads, num_kv_heads, seq_len) of a load."""
    return tuple(load[name] for name in SIZES)


def paged_inputs(size, page_size, device, dtype=torch.bfloat16):
    """Inputs of one load: pools with just enough pages, assigned to the sequences in random order."""
    batch_size, num_heads, num_kv_heads, seq_len = size
    num_pages = batch_size * -(-seq_len // page_size)
    pools = torch.randn(2, num_pages, page_size, num_kv_heads, HEAD_DIM, device=device, dtype=dtype)
    return SimpleNamespace(
        q=torch.randn(batch_size, num_heads, HEAD_DIM, device=device, dtype=dtype),
        pools=pools, k_pages=pools[0], v_pages=pools[1], page_size=page_size, lengths=[seq_len] * batch_size,
        block_table=torch.randperm(num_pages, device=device).int().view(batch_size, -1),
        seq_lens=torch.full((batch_size,), seq_len, dtype=torch.int32, device=device),
    )  # fmt: skip


def tolerance(options):
    """The largest allowed error of a decoded row."""
    return DRY_TOLERANCE if options.dry else TOLERANCE


def error_of(outputs, want):
    """Error of the last sequence of the first output; infinity when any sequence has a number that is not finite."""
    out = outputs[0]
    return largest_error((out,), [(out[-1:], want)])


def read_only(inputs):
    """The function that reads every byte of both pools once, from one end to the other."""
    kernel, out = cuda.compile(READ, "read_only_kernel"), torch.zeros(1, dtype=torch.int32, device="cuda")
    words = inputs.pools.view(-1).view(torch.int32)
    return lambda: kernel((132 * 4,), 512, words, out, words.numel() // 4)


def _dense_pools(inputs):
    """Keys and values as (batch_size, num_kv_heads, seq_len, head_dim), in the order of the pools."""
    shape = (len(inputs.lengths), inputs.lengths[0], inputs.k_pages.shape[2], HEAD_DIM)
    return [pages.view(shape).transpose(1, 2) for pages in (inputs.k_pages, inputs.v_pages)]


def dense(inputs):
    """SDPA's flash backend over the same bytes as contiguous keys and values: no table, no pages."""
    k, v = _dense_pools(inputs)
    q, attention = inputs.q[:, :, None], sdpa(BACKENDS["sdpa_flash"])
    return lambda: (attention(q, k, v)[:, :, 0],)


def dense_reference(inputs):
    """What `dense` must give for the last sequence, in float64: the pages in the order of the pools."""
    k, v = (x[-1:].double() for x in _dense_pools(inputs))
    return F.scaled_dot_product_attention(inputs.q[-1:, :, None].double(), k, v, enable_gqa=True)[:, :, 0]

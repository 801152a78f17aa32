"""The launches whose memory counters are compared: SIMT machine against Nsight Compute.

One list for both sides, so that they cannot drift: benchmarks/read_counters.py launches these on a GPU under ncu,
tests/simt/test_counters_h200.py profiles the same on the SIMT machine.
"""

from dataclasses import dataclass, field

import torch


@dataclass(frozen=True)
class Case:
    """One launch.

    Attributes
    ----------
    name : str, the row's key in tests/simt/data
    path, kernel : str, under kernels_cu
    grid, block : int or tuple
    make : callable giving the arguments as CPU tensors and numbers, outputs included
    defines : dict
    micro : bool; True where the compiler keeps every access as written, so that counters must be equal
    why : str, for the others: what the compiler changes
    """

    name: str
    path: str
    kernel: str
    grid: object
    block: object
    make: object
    defines: dict = field(default_factory=dict)
    micro: bool = True
    why: str = ""


def _copy(n, factor=1, extra=0, width=1):
    """Arguments (x, out, n) of a global copy."""
    return lambda: (torch.arange((n * factor + extra) * width, dtype=torch.float32), torch.zeros(n * width), n)


def _tile(blocks, width=1):
    """Arguments (x, out) of a copy through shared memory."""
    n = 32 * blocks * width
    return lambda: (torch.arange(n, dtype=torch.float32), torch.zeros(n))


def _rows(num_rows, num_cols, dtype=torch.float32, lse=False):
    """Arguments (x, out, num_rows, num_cols) of a softmax."""

    def make():
        x = torch.randn(num_rows, num_cols, generator=torch.Generator().manual_seed(3)).to(dtype)
        return x, torch.zeros(num_rows) if lse else torch.zeros_like(x), num_rows, num_cols

    return make


def _masked(batch_size, seq_len_q, seq_len_kv, lengths):
    """Arguments of the masked softmax."""

    def make():
        scores = torch.randn(batch_size, seq_len_q, seq_len_kv, generator=torch.Generator().manual_seed(3))
        return (
            scores,
            torch.tensor(lengths, dtype=torch.int32),
            torch.zeros_like(scores),
            torch.zeros(batch_size, seq_len_q),
            seq_len_q,
            seq_len_kv,
        )

    return make


N = 1024  # 8 blocks of 128 threads, or 32 blocks of one warp
_STRIDES = [
    Case(
        f"global_stride_{stride}",
        "access/01_global_stride.cu",
        "global_stride_kernel",
        8,
        128,
        _copy(N, factor=stride),
        {"STRIDE": stride},
    )
    for stride in (1, 2, 4, 8, 32)
]
_SHARED = [
    Case(
        f"shared_stride_{stride}",
        "access/04_shared_stride.cu",
        "shared_stride_kernel",
        32,
        32,
        _tile(32),
        {"STRIDE": stride},
    )
    for stride in (1, 2, 4, 32, 33)
]
_MERGED = "the compiler reads the warps' states with 128-bit loads; as written they are scalar"
CASES = [
    *_STRIDES,
    Case(
        "global_stride_1_tail",
        "access/01_global_stride.cu",
        "global_stride_kernel",
        8,
        128,
        _copy(N - 21),
        {"STRIDE": 1},
    ),
    Case(
        "global_offset_1",
        "access/02_global_offset.cu",
        "global_offset_kernel",
        8,
        128,
        _copy(N, extra=1),
        {"OFFSET": 1},
    ),
    Case("global_float4", "access/03_global_vector.cu", "global_vector_kernel", 8, 128, _copy(N, width=4)),
    *_SHARED,
    Case("shared_broadcast", "access/05_shared_broadcast.cu", "shared_broadcast_kernel", 32, 32, _tile(32)),
    Case("shared_float2", "access/06_shared_vector.cu", "shared_float2_kernel", 32, 32, _tile(32, width=2)),
    Case("shared_float4", "access/06_shared_vector.cu", "shared_float4_kernel", 32, 32, _tile(32, width=4)),
    Case(
        "divergent_rows",
        "access/07_divergent_rows.cu",
        "divergent_rows_kernel",
        4,
        32,
        lambda: (torch.arange(128 * 40, dtype=torch.float32), torch.zeros(128), 40),
    ),
    Case(
        "01_three_pass",
        "softmax/01_three_pass.cu",
        "three_pass_softmax_kernel",
        8,
        128,
        _rows(8, 1000),
        {"BLOCK": 128},
        micro=False,
    ),
    Case(
        "02_online",
        "softmax/02_online.cu",
        "online_softmax_kernel",
        8,
        128,
        _rows(8, 1000),
        {"BLOCK": 128},
        micro=False,
        why=_MERGED,
    ),
    Case(
        "03_online_warp", "softmax/03_online_warp.cu", "online_softmax_warp_kernel", 2, 128, _rows(8, 1000), micro=False
    ),
    Case(
        "04_log_sum_exp",
        "softmax/04_log_sum_exp.cu",
        "log_sum_exp_kernel",
        8,
        128,
        _rows(8, 1000, torch.float16, lse=True),
        {"BLOCK": 128},
        micro=False,
    ),
    Case(
        "05_masked",
        "softmax/05_masked.cu",
        "masked_softmax_kernel",
        (19, 2),
        32,
        _masked(2, 19, 100, [100, 37]),
        micro=False,
    ),
]

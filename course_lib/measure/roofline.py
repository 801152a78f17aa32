"""The roofline: the rate that a kernel of a given arithmetic intensity can reach at best.

Model: S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model for multicore
architectures", Communications of the ACM 52(4), 2009, doi:10.1145/1498765.1498785.

For one tile of attention the same comparison is between the tensor cores and the unit for exponentials, in cycles.

May import: nothing.
"""

TENSOR_FLOP_PER_CYCLE = {"bf16": 4096, "fp16": 4096, "fp8": 8192}  # of an SM, compute capability 9.0, dense; NVIDIA
# H100 architecture whitepaper: 989.4 and 1978.9 TFLOP/s of 132 SMs at 1.83 GHz
EXP2_PER_CYCLE = 16  # of an SM, compute capability 9.0; CUDA C++ Programming Guide, "Arithmetic Instructions"


def attainable_tflops(intensity, *, peak_tflops, memory_gbps):
    """min(peak, intensity * bandwidth), in 10^12 FLOP per second.

    Parameters
    ----------
    intensity : FLOP per byte of memory traffic, > 0
    peak_tflops : 10^12 FLOP per second
    memory_gbps : 10^9 bytes per second
    """
    return min(peak_tflops, intensity * memory_gbps / 1000)


def ridge_intensity(*, peak_tflops, memory_gbps):
    """FLOP per byte at which arithmetic, not memory bandwidth, becomes the limit."""
    return peak_tflops * 1000 / memory_gbps


def limiting_resource(intensity, *, peak_tflops, memory_gbps):
    """The limit of a kernel: "memory bandwidth" left of the ridge, "arithmetic" at it or right of it."""
    left = intensity < ridge_intensity(peak_tflops=peak_tflops, memory_gbps=memory_gbps)
    return "memory bandwidth" if left else "arithmetic"


def tile_cycles(block_m, block_n, head_dim, dtype="bf16"):
    """Least cycles of a Hopper SM for one tile of scores: (both products, exponentials).

    Parameters
    ----------
    block_m, block_n : int, queries and keys of the tile
    head_dim : int
    dtype : str, of the products, a key of TENSOR_FLOP_PER_CYCLE

    Source: J. Shah et al., "FlashAttention-3", 2024, arXiv:2407.08608, section 3.1, which compares the two rates
    """
    if dtype not in TENSOR_FLOP_PER_CYCLE:
        raise ValueError(f"dtype={dtype!r} is unknown; choose one of {', '.join(TENSOR_FLOP_PER_CYCLE)}.")
    scores = block_m * block_n
    return 4 * scores * head_dim / TENSOR_FLOP_PER_CYCLE[dtype], scores / EXP2_PER_CYCLE

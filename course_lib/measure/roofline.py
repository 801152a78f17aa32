"""The roofline: the rate that a kernel of a given arithmetic intensity can reach at best.

Model: S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model for multicore
architectures", Communications of the ACM 52(4), 2009, doi:10.1145/1498765.1498785.

May import: nothing.
"""


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

"""Time a function: warm-up, many runs, median and spread, L2 flushed between runs on a GPU.

May import: torch.
"""

import time
from dataclasses import dataclass
from statistics import quantiles

FLUSH_BYTES = 256 << 20  # larger than the L2 of every GPU in device.KNOWN_GPUS


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one call: median, and the range that holds the middle half of the runs."""

    median_ms: float
    low_ms: float
    high_ms: float
    num_runs: int
    where: str  # "gpu" (CUDA events) or "cpu" (host clock)

    def __str__(self):
        spread = f"middle half {self.low_ms:.3g} to {self.high_ms:.3g}"
        return f"{self.median_ms:.3g} ms ({spread}, {self.num_runs} runs, {self.where})"


def median_time(function, *, num_runs=25, num_warmup=5, on_gpu=False, flush=True):
    """Run ``function()`` and time each call by itself.

    Parameters
    ----------
    function : callable without arguments; on a GPU it enqueues work on the current stream
    num_runs, num_warmup : int, num_runs at least 2
    on_gpu : bool; True times with CUDA events
    flush : bool; on a GPU, write FLUSH_BYTES between runs, so that every run starts with a cold L2

    Returns
    -------
    timing : Timing, milliseconds
    """
    if num_runs < 2:
        raise ValueError(f"num_runs={num_runs}: a median with a spread needs at least 2 runs.")
    for _ in range(num_warmup):
        function()
    samples = _gpu_samples(function, num_runs, flush) if on_gpu else _cpu_samples(function, num_runs)
    low, median, high = quantiles(samples, n=4, method="inclusive")
    return Timing(median, low, high, num_runs, "gpu" if on_gpu else "cpu")


def _cpu_samples(function, num_runs):
    samples = []
    for _ in range(num_runs):
        start = time.perf_counter()
        function()
        samples.append((time.perf_counter() - start) * 1e3)
    return samples


def _gpu_samples(function, num_runs, flush):
    import torch

    flushed = torch.empty(FLUSH_BYTES if flush else 0, dtype=torch.int8, device="cuda")
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(num_runs)]
    for start, end in events:
        flushed.zero_()
        start.record()
        function()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) for start, end in events]

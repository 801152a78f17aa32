"""Time several functions in turns, so that a change of the clock affects all of them alike.

May import: the standard library, torch, course_lib.measure.
"""

import statistics

import torch

from course_lib.measure.timing import FLUSH_BYTES, Timing

BUSY_CYCLES = 600_000  # about 0.3 ms: longer than it takes to queue a launch
NUM_WARMUP = 3
SLOW_RUNS = 4  # timed runs of a function that takes longer than `slow_ms`


def timed_in_turns(calls, num_runs, *, slow_ms=None):
    """Median and middle half of each function's time on the GPU.

    L2 is flushed before each run, and the GPU is kept busy while the launch is being queued: no host time is counted.

    Parameters
    ----------
    calls : dict, name -> function without arguments that enqueues work on the current stream
    num_runs : int, at least 2
    slow_ms : float or None; a function whose first run takes longer is timed SLOW_RUNS times, after one warm-up

    Returns
    -------
    dict, name -> Timing
    """
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    events, remaining = {name: [] for name in calls}, dict.fromkeys(calls, num_runs + NUM_WARMUP)
    slow = set()
    for turn in range(num_runs + NUM_WARMUP):
        for name in [name for name in calls if remaining[name]]:
            events[name].append(_once(calls[name], flush))
            remaining[name] -= 1
        torch.cuda.synchronize()
        if turn == 0 and slow_ms is not None:
            slow = {name for name, ((start, end),) in events.items() if start.elapsed_time(end) > slow_ms}
            remaining |= {name: min(remaining[name], SLOW_RUNS) for name in slow}
    return {name: _timing(pairs[1 if name in slow else NUM_WARMUP :]) for name, pairs in events.items()}


def _once(call, flush):
    """The events before and after one call."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    flush.zero_()
    torch.cuda._sleep(BUSY_CYCLES)
    start.record()
    call()
    end.record()
    return start, end


def _timing(pairs):
    low, median, high = statistics.quantiles([a.elapsed_time(b) for a, b in pairs], n=4, method="inclusive")
    return Timing(median, low, high, len(pairs), "gpu")


def graphed(call, on_gpu):
    """`call` as the replay of a CUDA graph where there is a GPU, and `call` itself elsewhere."""
    if not on_gpu:
        return call
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()

    def replay():
        graph.replay()

    replay.call = call  # the graph holds no reference to the kernels and tensors that it launches
    return replay

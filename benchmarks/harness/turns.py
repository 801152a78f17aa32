"""Time several functions in turns, so that a change of the clock meets all of them alike.

    from benchmarks.harness.turns import timed_in_turns

May import: the standard library, torch, course_lib.measure.
"""

import statistics

import torch

from course_lib.measure.timing import FLUSH_BYTES

BUSY_CYCLES = 600_000  # about 0.3 ms: longer than it takes to queue a launch
NUM_WARMUP = 3


def timed_in_turns(calls, num_runs):
    """Median and middle half of each function's time on the GPU.

    L2 is flushed before each run, and the GPU is kept busy while the launch is being queued: no host time is counted.

    Parameters
    ----------
    calls : dict, name -> function without arguments that enqueues work on the current stream
    num_runs : int, at least 2

    Returns
    -------
    dict, name -> (median, low, high) in ms
    """
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    events = {name: [] for name in calls}
    for turn in range(num_runs + NUM_WARMUP):
        for name, call in calls.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flush.zero_()
            torch.cuda._sleep(BUSY_CYCLES)
            start.record()
            call()
            end.record()
            if turn >= NUM_WARMUP:
                events[name].append((start, end))
        torch.cuda.synchronize()
    found = {}
    for name, pairs in events.items():
        low, median, high = statistics.quantiles([a.elapsed_time(b) for a, b in pairs], n=4, method="inclusive")
        found[name] = (median, low, high)
    return found

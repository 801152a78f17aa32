from collections import Counter
from typing import NamedTuple

import torch


class TimedKernel(NamedTuple):
    name: str  # as the profiler writes it, perhaps with template arguments
    launched: int  # nanoseconds: when the host launched it
    start: int  # when it began on the device
    duration: int  # how long it ran there
    num_bytes: int  # that it must read and write
    num_flop: int  # that it must do


def bottleneck(kernels, read_gbps, peak_tflops):
    """(step, percents of it, verdict, family, gain) of the profile of a step."""

    ### BEGIN SOLUTION
    begin = end = min(kernel.launched for kernel in kernels)
    idle = host = memory = compute = 0
    gains = Counter()
    for kernel in sorted(kernels, key=lambda kernel: (kernel.start, kernel.launched)):
        idle += max(kernel.start - end, 0)
        host += max(kernel.launched - end, 0)
        end = max(end, kernel.start + kernel.duration)
        by_bytes = -(-kernel.num_bytes // read_gbps)  # 1 GB/s is 1 byte a nanosecond
        by_flop = -(-kernel.num_flop // (1000 * peak_tflops))
        memory += by_bytes if by_bytes >= by_flop else 0
        compute += by_flop if by_bytes < by_flop else 0
        gains[kernel.name.split("<")[0].split("(")[0].strip()] += max(kernel.duration - max(by_bytes, by_flop), 0)
    step = end - begin
    if 2 * host >= step:
        verdict = "host"
    elif 2 * (memory + compute) < step:
        verdict = "latency"
    else:
        verdict = "memory" if memory >= compute else "compute"
    family = min(gains, key=lambda name: (-gains[name], name))
    percents = tuple(100 * part // step for part in (idle, host, memory, compute))
    return step, percents, verdict, family, gains[family]
    ### END SOLUTION


def bottlenecks(calls):
    """The result of each call, as text. Given: the judge reads it."""
    found = []
    for kernels, read_gbps, peak_tflops in calls:
        found.append(bottleneck(tuple(TimedKernel(*kernel) for kernel in kernels), read_gbps, peak_tflops))
    return torch.tensor(list(repr(found).encode()), dtype=torch.uint8)

"""Right answers to 13.6 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

BY_EVENTS = '''import math
from typing import NamedTuple

import torch


class TimedKernel(NamedTuple):
    name: str
    launched: int
    start: int
    duration: int
    num_bytes: int
    num_flop: int


def family_of(name):
    for mark in "<(":
        name = name.partition(mark)[0]
    return name.strip()


def merged(kernels):
    """[[start, end], …] of the times in which something runs, in order."""
    found = []
    for start, end in sorted((one.start, one.start + one.duration) for one in kernels):
        if found and start <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([start, end])
    return found


def bottleneck(kernels, read_gbps, peak_tflops):
    first = min(one.launched for one in kernels)
    spans = merged(kernels)
    step, busy = spans[-1][1] - first, sum(end - start for start, end in spans)
    launches = {}
    for one in kernels:
        launches[one.start] = min(one.launched, launches.get(one.start, one.launched))
    ends = [first] + [end for _, end in spans]
    host = sum(launches[start] - end for (start, _), end in zip(spans, ends) if launches[start] > end)
    parts, gains = {"memory": 0, "compute": 0}, {}
    for one in kernels:
        by_flop = math.ceil(one.num_flop / (peak_tflops * 1000))
        needs = {"memory": math.ceil(one.num_bytes / read_gbps), "compute": by_flop}
        limit = max(needs, key=needs.get)
        parts[limit] += needs[limit]
        family = family_of(one.name)
        gains[family] = gains.get(family, 0) + (one.duration - needs[limit] if one.duration > needs[limit] else 0)
    verdict = max(parts, key=parts.get)
    if sum(parts.values()) < step / 2:
        verdict = "latency"
    if host >= step / 2:
        verdict = "host"
    best = sorted(gains, key=lambda name: (-gains[name], name))[0]
    percents = [int(100 * part // step) for part in (step - busy, host, *parts.values())]
    return [step, percents, verdict, best, gains[best]]


def bottlenecks(calls):
    found = []
    for kernels, read_gbps, peak_tflops in calls:
        found.append(bottleneck(tuple(TimedKernel(*kernel) for kernel in kernels), read_gbps, peak_tflops))
    return torch.tensor(list(repr(found).encode()), dtype=torch.uint8)
'''

ANSWERS = [
    Right("spans merged first, roofs by math.ceil", text=BY_EVENTS),
    Right(
        "idle from the busy time, gains sorted by name",
        (
            (
                "        idle += max(kernel.start - end, 0)\n",
                "        busy += max(kernel.start + kernel.duration - max(end, kernel.start), 0)\n",
            ),
            ("    idle = host = memory", "    busy = host = memory"),
            ("    step = end - begin\n", "    step = end - begin\n    idle = step - busy\n"),
            ("min(gains, key=lambda name: (-gains[name], name))", "max(sorted(gains), key=gains.get)"),
        ),
    ),
]

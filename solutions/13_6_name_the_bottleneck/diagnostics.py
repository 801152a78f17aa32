"""The bottleneck of 13.6, and each usual mistake as a bottleneck of its own.

May import: subjects.plain_data.
"""

import re
from collections import Counter
from math import ceil

from course_lib.grading.subjects.plain_data import same

NAMES = ("the step's nanoseconds", "the percents of idle, host, memory and compute", "the verdict",
         "the family that gains most", "its gain in nanoseconds")  # fmt: skip
NAME, LAUNCHED, START, DURATION, BYTES, FLOP = range(6)


def _by_start(kernels):
    return sorted(kernels, key=lambda one: (one[START], one[LAUNCHED]))


def _ends(kernels):
    return [one[START] + one[DURATION] for one in kernels]


def _span(kernels):
    return max(_ends(kernels)) - min(one[LAUNCHED] for one in kernels)


def _gaps(kernels):
    """[(idle from, next kernel), …] of kernels in their order."""
    end, found = min(one[LAUNCHED] for one in kernels), []
    for one in kernels:
        if one[START] > end:
            found.append((end, one))
        end = max(end, one[START] + one[DURATION])
    return found


def _idle(kernels, _step):
    return sum(one[START] - since for since, one in _gaps(kernels))


def _host(kernels, _step, _idle):
    return sum(max(one[LAUNCHED] - since, 0) for since, one in _gaps(kernels))


def _family(name):
    return re.split("[<(]", name)[0].strip()


def _decide(step, idle, host, memory, compute):
    if 2 * host >= step:
        return "host"
    if 2 * (memory + compute) < step:
        return "latency"
    return "memory" if memory >= compute else "compute"


def _parts(needs):
    """(memory, compute): each kernel's roof is in one of them."""
    return sum(b for b, f in needs if b >= f), sum(f for b, f in needs if b < f)


def _gain(duration, by_bytes, by_flop):
    return max(duration - max(by_bytes, by_flop), 0)


def _first_by_name(gains, _kernels=()):
    return min(gains, key=lambda name: (-gains[name], name))


def _ceil_div(amount, rate):
    return -(-amount // rate)


def _percent(part, whole):
    return 100 * part // whole


def bottleneck(
    kernels, read_gbps, peak_tflops, *, order=_by_start, span=_span, idle=_idle, host=_host, whole=None,
    percent=_percent, rates=(1, 1000), divided=_ceil_div, parts=_parts, decide=_decide, gain=_gain, family=_family,
    pick=_first_by_name, summed=True,
):  # fmt: skip
    """(step, percents, verdict, family, gain); each option is one mistake.

    `order`: of the kernels; `span`: the step's length; `idle`, `host`: nanoseconds; `whole`: what percents are of,
    if not the step; `rates`: bytes and FLOP a nanosecond of 1 GB/s and 1 TFLOP/s; `divided`: an amount by a rate;
    `parts`: memory and compute; `decide`: the verdict; `gain`: of one kernel; `pick`: the family; `summed`: over layers
    """
    kernels = order(kernels)
    step = span(kernels)
    idle_ns = idle(kernels, step)
    host_ns = host(kernels, step, idle_ns)
    needs = [(divided(one[BYTES], read_gbps * rates[0]), divided(one[FLOP], peak_tflops * rates[1])) for one in kernels]
    all_parts = (idle_ns, host_ns, *parts(needs))
    gains = {}
    for one, need in zip(kernels, needs, strict=True):
        name, own = family(one[NAME]), gain(one[DURATION], *need)
        gains[name] = gains.get(name, 0) + own if summed else max(gains.get(name, own), own)
    best, of = pick(gains, kernels), whole(kernels, step) if whole else step
    return step, tuple(percent(part, of) for part in all_parts), decide(step, *all_parts), best, gains[best]


def _longest(_gains, kernels):
    times = Counter()
    for one in kernels:
        times[_family(one[NAME])] += one[DURATION]
    return _first_by_name(times)


def _sum(kernels):
    return sum(one[DURATION] for one in kernels)


def _busy(kernels, step):
    return step - _idle(kernels, step)


def _ends_before(kernels):
    return [min(one[LAUNCHED] for one in kernels), *_ends(kernels)[:-1]]


def _neighbours(kernels, _step):
    """Gaps since the end of the kernel before, whatever else runs."""
    return sum(max(one[START] - end, 0) for one, end in zip(kernels, _ends_before(kernels), strict=True))


def _neighbours_host(kernels, _step, _idle):
    return sum(max(one[LAUNCHED] - end, 0) for one, end in zip(kernels, _ends_before(kernels), strict=True))


def _last_span(kernels):
    return _ends(kernels)[-1] - min(one[LAUNCHED] for one in kernels)


def _whole_gaps(kernels, _step, _idle):
    return sum(one[START] - since for since, one in _gaps(kernels) if one[LAUNCHED] > since)


def _launch_span(kernels, _step, _idle):
    return max(one[LAUNCHED] for one in kernels) - min(one[LAUNCHED] for one in kernels)


def _waits(kernels, _step, _idle):
    return sum(one[START] - max(one[LAUNCHED], since) for since, one in _gaps(kernels))


def _verdict(**other):
    """A verdict with one step of the rule replaced."""

    def decide(step, idle, host, memory, compute):
        if other.get("host", lambda s, i, h, m, c: 2 * h >= s)(step, idle, host, memory, compute):
            return "host"
        if other.get("latency", lambda s, i, h, m, c: 2 * (m + c) < s)(step, idle, host, memory, compute):
            return "latency"
        return "memory" if other.get("memory", lambda m, c: m >= c)(memory, compute) else "compute"

    return decide


# (code, words, what `bottleneck` does otherwise); each sentence goes on from "It is what comes when"
MISTAKES = (
    ("sum_of_durations", "the step's length is the sum of the kernels' durations. The device's waits are part of the "
     "step, and kernels that overlap take their time once", {"span": _sum}),
    ("from_first_start", "the step begins when the first kernel starts. It begins with the first launch",
     {"span": lambda kernels: max(_ends(kernels)) - min(one[START] for one in kernels)}),
    ("from_zero", "the step begins at the clock's zero. It begins with the first launch",
     {"span": lambda kernels: max(_ends(kernels))}),
    ("ends_with_last_start", "the step ends with the kernel that started last. One that started before may end later",
     {"span": _last_span}),
    ("not_sorted", "the kernels are taken in the order of the list. A profile lists them stream by stream; sort them "
     "by their start", {"order": list}),
    ("sorted_by_launch", "the kernels are sorted by their launch. With two streams they start in another order",
     {"order": lambda kernels: sorted(kernels, key=lambda one: (one[LAUNCHED], one[START]))}),
    ("overlap_twice", "idle time is the step less the sum of the durations. Where two kernels overlap, that takes the "
     "same time away twice", {"idle": lambda kernels, step: step - _sum(kernels)}),
    ("overlap_twice", "idle time is the step less the sum of the durations, at least 0. Where two kernels overlap, "
     "that takes the same time away twice", {"idle": lambda kernels, step: max(step - _sum(kernels), 0)}),
    ("gap_to_the_one_before", "a gap runs from the end of the kernel before. A longer one that began still earlier may "
     "run on: a gap begins at the latest end so far", {"idle": _neighbours}),
    ("no_latest_end", "every kernel is taken to end after those that started before it. A short one on a second stream "
     "ends while a longer one runs on: keep the latest end so far",
     {"span": _last_span, "idle": _neighbours, "host": _neighbours_host}),
    ("first_wait_left_out", "the time from the first launch to the first start is not idle. The device waits there too",
     {"idle": lambda kernels, step: _idle(kernels, step) - kernels[0][START] + min(k[LAUNCHED] for k in kernels)}),
    ("all_idle_is_host", "all idle time waits for the host. Where the next kernel had been launched, the host was "
     "ahead, and the gap is the device's own", {"host": lambda kernels, step, idle: idle}),
    ("whole_gap_is_host", "a gap in which the next kernel is launched counts in full. From the launch on the host is "
     "not what the device waits for", {"host": _whole_gaps}),
    ("launches_as_host", "host is the time from the first launch to the last. While the device works, the host's time "
     "costs nothing", {"host": _launch_span}),
    ("after_launch_is_host", "the part of a gap after the launch counts. Before the launch the device waits for the "
     "host", {"host": _waits}),
    ("latest_of_equal_starts", "the latest launch counts of several kernels that start at once. The earliest ended the "
     "wait", {"order": lambda kernels: sorted(kernels, key=lambda one: (one[START], -one[LAUNCHED]))}),
    ("of_busy_time", "the percents are of the time in which the device is busy. They are of the whole step",
     {"whole": _busy}),
    ("of_durations", "the percents are of the sum of the durations. They are of the whole step",
     {"whole": lambda kernels, step: _sum(kernels)}),
    ("percent_rounded", "the percents are rounded to the nearest. They are rounded down",
     {"percent": lambda part, whole: round(100 * part / whole)}),
    ("percent_not_whole", "the percents are not rounded down to whole numbers",
     {"percent": lambda part, whole: 100 * part / whole}),
    ("percent_of_float", "a percent is 100 times a float quotient, rounded down. 29 of 100 are 28.999999999999996, "
     "which becomes 28; 100 * part // step stays exact", {"percent": lambda part, whole: int(100 * (part / whole))}),
    ("share_not_percent", "the shares are fractions of 1. Give whole percents",
     {"percent": lambda part, whole: part / whole}),
    ("gib", "a GB is 2**30 bytes. A card's GB/s are 10**9 bytes a second, and so 1 byte a nanosecond",
     {"rates": (2**30 / 10**9, 1000), "divided": lambda amount, rate: ceil(amount / rate)}),
    ("bytes_a_microsecond", "1 GB/s is 1,000 bytes a nanosecond. That is a microsecond's; a profile's times are "
     "nanoseconds", {"rates": (1000, 1000)}),
    ("gflop", "1 TFLOP/s is 1 FLOP a nanosecond. It is 1,000", {"rates": (1, 1)}),
    ("flop_a_microsecond", "1 TFLOP/s is 1,000,000 FLOP a nanosecond. That is a microsecond's",
     {"rates": (1, 10**6)}),
    ("needs_rounded_down", "the time of a kernel's bytes and FLOP is rounded down. A part of a nanosecond makes it one "
     "more", {"divided": lambda amount, rate: amount // rate}),
    ("needs_not_whole", "the time of a kernel's bytes and FLOP is not rounded up to whole nanoseconds",
     {"divided": lambda amount, rate: amount / rate}),
    ("needs_in_seconds", "the time of a kernel's bytes and FLOP is a float of seconds, made nanoseconds and then "
     "rounded up. 61 ns are 61.00000000000001 by then, and become 62; whole numbers stay exact",
     {"divided": lambda amount, rate: ceil(amount / (rate * 1e9) * 1e9)}),
    ("roof_as_sum", "the roof of a kernel is the sum of what its bytes and its FLOP need. Both run at the same time: "
     "it is the longer one", {"gain": lambda duration, b, f: max(duration - b - f, 0)}),
    ("roof_as_smaller", "the roof of a kernel is the shorter of what its bytes and its FLOP need. The slower of the "
     "two decides", {"gain": lambda duration, b, f: max(duration - min(b, f), 0)}),
    ("bytes_alone", "a kernel gains down to what its bytes need. Its FLOP may need longer",
     {"gain": lambda duration, b, f: max(duration - b, 0)}),
    ("counted_in_both", "a kernel's bytes count under memory and its FLOP under compute. One of the two is its roof, "
     "and the other is hidden behind it", {"parts": lambda needs: tuple(map(sum, zip(*needs, strict=True)))}),
    ("equal_is_compute", "a kernel whose bytes and FLOP need equally long counts under compute",
     {"parts": lambda needs: (sum(b for b, f in needs if b > f), sum(f for b, f in needs if b <= f))}),
    ("longest_family", "the family that takes most of the time is named. What it gains is only the part above its "
     "roof", {"pick": _longest}),
    ("single_kernel", "only the one kernel with the largest gain counts. A kernel runs once in every layer: sum over "
     "its family", {"summed": False}),
    ("names_not_cut", "kernels with different template arguments are different families. Cut the name at its first < "
     "or (", {"family": str.strip}),
    ("spaces_kept", "the spaces around a name stay. They make two families of one",
     {"family": lambda name: re.split("[<(]", name)[0]}),
    ("first_word", "a name ends at its first space. void before it is no family",
     {"family": lambda name: _family(name).split()[0]}),
    ("cut_at_template", "a name is cut at < alone. Without template arguments its parameters begin at (",
     {"family": lambda name: name.split("<")[0].strip()}),
    ("negative_gain", "a kernel that ran faster than its roof takes gain away from its family. Its bytes came from the "
     "L2 cache, and the others can still gain", {"gain": lambda duration, b, f: duration - max(b, f)}),
    ("last_by_name", "the last name wins among equal gains. It is the first",
     {"pick": lambda gains, kernels: max(gains, key=lambda name: (gains[name], name))}),
    ("first_in_time", "the family that started first wins among equal gains. It is the first by name",
     {"pick": lambda gains, kernels: max(gains, key=gains.get)}),
    ("half_is_not_host", "exactly half of the step is not enough for the verdict host",
     {"decide": _verdict(host=lambda s, i, h, m, c: 2 * h > s)}),
    ("half_is_latency", "the verdict is latency where the roofs are exactly half of the step",
     {"decide": _verdict(latency=lambda s, i, h, m, c: 2 * (m + c) <= s)}),
    ("idle_is_host", "the idle time decides about the verdict host. The gaps of a graph are not the host's",
     {"decide": _verdict(host=lambda s, i, h, m, c: 2 * i >= s)}),
    ("largest_part", "the largest of host, memory and compute is the verdict, from half of the step on. Host comes "
     "first, and memory and compute together are what latency is measured by",
     {"decide": lambda s, i, h, m, c: max((h, "host"), (m, "memory"), (c, "compute"), key=lambda p: p[0])[1]
      if 2 * max(h, m, c) >= s else "latency"}),
    ("latency_by_larger", "the verdict is latency where neither memory nor compute is half of the step. Together they "
     "may be", {"decide": _verdict(latency=lambda s, i, h, m, c: 2 * max(m, c) < s)}),
    ("latency_by_percents", "the verdict is latency by the sum of the rounded percents. Two that are rounded down can "
     "lose 1", {"decide": _verdict(latency=lambda s, i, h, m, c: 100 * m // s + 100 * c // s < 50)}),
    ("tie_is_compute", "the verdict is compute where memory and compute take equally long",
     {"decide": _verdict(memory=lambda m, c: m > c)}),
)  # fmt: skip


def say(call, got, right):
    """The facts of the first value that is wrong."""
    kernels, read_gbps, peak_tflops = call
    name, mine, want = next((n, a, b) for n, a, b in zip(NAMES, got, right, strict=True) if not same(a, b))
    said = "; ".join(
        f"{k[NAME]!r} launched {k[LAUNCHED]}, start {k[START]}, {k[DURATION]} ns, {k[BYTES]} bytes, {k[FLOP]} FLOP"
        for k in kernels[:3]
    )
    verb, more = "are" if name in NAMES[:2] else "is", "; …" * (len(kernels) > 3)
    return (
        f"{len(kernels)} kernel{'s' * (len(kernels) > 1)} ({said}{more}) at {read_gbps} GB/s and {peak_tflops} TFLOP/s"
        f": {name} {verb} {mine!r} and should be {want!r}."
    )

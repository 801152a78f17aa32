"""What a wrong roofline says about the slip that made it: a unit, a missing minimum, a sum for a maximum."""

import torch

from course_lib.grading.report.verdict import Diagnosis

_UNITS = {"intensity": "FLOP per byte", "tflops": "TFLOP/s", "least_us": "microseconds"}


def diagnose_roofline(evidence):
    """Diagnosis of a failing roofline, or None."""
    failing = [case for case in evidence.failing() if case.ran]
    for look in (_division_of_zeros, _swapped):
        found = next((found for case in failing if (found := look(case)) is not None), None)
        if found is not None:
            return found
    if (found := _known_slip(evidence) or _out_of_range(evidence, failing)) is not None:
        return found
    looks = (_factor(case) or _fewest_bytes(case) for case in failing)
    return next((found for found in looks if found is not None), None)


def _wrong(case):
    return [name for name, comparison in case.comparisons.items() if not comparison.passed]


def _near(got, want):
    return bool(torch.allclose(got.double(), want.double(), rtol=1e-5, atol=0.0))


def _division_of_zeros(case):
    flops, out = case.inputs["flops"], case.first.outputs
    empty = flops == 0
    for name in ("tflops", "least_us"):
        if bool(empty.any()) and bool((~torch.isfinite(out[name][empty])).any()):
            return Diagnosis(
                "zero_by_zero",
                f"A copy has 0 FLOP: its rate is 0 TFLOP/s, and {name} became "
                f"{out[name][empty][0].item()} by a division by it. The time of a copy "
                "is bytes / bandwidth.",
            )
    if bool(empty.any()) and bool((out["least_us"][empty] == 0).all()):
        num_bytes, needed = case.inputs["num_bytes"][empty][0].item(), case.ref["least_us"][empty][0].item()
        return Diagnosis(
            "bytes_take_no_time",
            f"A copy of {num_bytes:.0e} bytes has 0 FLOP and yet takes {needed:.3g} microseconds at "
            f"{case.case.options['memory_gbps']:.0f} GB/s; here it takes none. The least time is the larger of two "
            "times.",
        )
    return None


def _swapped(case):
    out, ref = case.first.outputs, case.ref
    names = list(ref)
    for a, b in ((0, 1), (0, 2), (1, 2)):
        first, second = names[a], names[b]
        if first in _wrong(case) and _near(out[first], ref[second]) and _near(out[second], ref[first]):
            return Diagnosis(
                "swapped_results", f"{first} and {second} have changed places; return (intensity, tflops, least_us)."
            )
    return None


def _known_slip(evidence):
    """The slip that explains an output in every case, those included in which it does no harm."""
    cases = [case for case in evidence.cases if case.ran]
    for number, (name, code, words) in enumerate(_SLIPS):
        failing = [case for case in evidence.failing() if name in _wrong(case)]
        if failing and all(_near(case.first.outputs[name], _slips(case)[number]) for case in cases):
            return Diagnosis(code, f"{_facts(failing[0], name)}: that is {words}.")
    return None


_SLIPS = (
    ("intensity", "inverse_intensity", "bytes per FLOP; it is FLOP per byte"),
    ("tflops", "unit", "1000 times too much below the ridge: GB/s times FLOP per byte are 10^9 FLOP/s, not TFLOP/s"),
    ("tflops", "unit", "what 1024 gives in place of 1000: a TFLOP are 10^12 FLOP, a GB 10^9 bytes"),
    ("intensity", "rounded_to_whole", "the whole number below; an intensity has a fraction"),
    ("least_us", "rounded_to_whole", "the whole number above; a time has a fraction, and kernels take less than 1"),
    ("tflops", "whole_machine", "what a peak rounded down to whole TFLOP/s gives; it may be 0.0001 or 989.4"),
    ("least_us", "whole_machine", "what a bandwidth rounded down to whole GB/s gives; it may be 0.01"),
    ("least_us", "at_least_one", "1 where it should be less; kernels take less than a microsecond, too"),
    ("tflops", "above_the_roof", "intensity times bandwidth alone, beyond the peak; no kernel exceeds either"),
    ("tflops", "peak_alone", "the peak; left of the ridge the memory cannot feed it"),
    ("tflops", "maximum_for_minimum", "the larger of the two rates; the smaller limits"),
    ("least_us", "sum_of_times", "the sum of two times; a kernel computes while it loads, so the larger one counts"),
    ("least_us", "minimum_of_times", "the smaller of the two times; the slower resource decides"),
    ("least_us", "arithmetic_time_alone", "the time of the arithmetic alone; the bytes may take longer"),
    ("least_us", "memory_time_alone", "the time of the bytes alone; the arithmetic may take longer"),
)


def _slips(case):
    """What each slip of _SLIPS would give in this case."""
    flops, num_bytes = (case.inputs[name].double() for name in ("flops", "num_bytes"))
    peak, bandwidth = case.case.options["peak_tflops"], case.case.options["memory_gbps"]
    rate, whole = flops / num_bytes * bandwidth / 1e3, torch.full_like(flops, peak)
    busy, waiting = flops / peak / 1e6, num_bytes / bandwidth / 1e3
    return (
        num_bytes / flops,
        (1000 * rate).clamp(max=peak),
        (rate / 1.024).clamp(max=peak),
        (flops / num_bytes).floor(),
        torch.maximum(busy, waiting).ceil(),
        rate.clamp(max=float(int(peak))),
        torch.maximum(busy, num_bytes / int(bandwidth) / 1e3),
        torch.maximum(busy, waiting).clamp(min=1.0),
        rate,
        whole,
        torch.maximum(rate, whole),
        busy + waiting,
        torch.minimum(busy, waiting),
        busy,
        waiting,
    )


def _out_of_range(evidence, failing):
    """Right for small kernels, wrong for large ones alone: a whole number or a product that has no more room."""
    largest = {case.case.name: max(tensor.max().item() for tensor in case.inputs.values()) for case in evidence.cases}
    first = min(failing, key=lambda case: largest[case.case.name], default=None)
    right = [largest[case.case.name] for case in evidence.passing() if case.ran]
    if first is None or not right or largest[first.case.name] <= max(right):
        return None
    name = _wrong(first)[0]
    wrong, got = _marked(first, name), first.first.outputs[name]
    if bool(torch.isinf(got[wrong]).all()):
        return Diagnosis(
            "overflow",
            f"{_facts(first, name)}; up to {max(right):.0e} all is right. On the way there is a number beyond 3.4e38, "
            "the largest float32. Divide before multiplying.",
        )
    for bits in (31, 63):
        beyond = (first.inputs["flops"] >= 2.0**bits) | (first.inputs["num_bytes"] >= 2.0**bits)
        if bool((wrong <= beyond).all()) and max(right) < 2.0**bits:
            return Diagnosis(
                "whole_number_limit",
                f"{_facts(first, name)}: right up to {2.0**bits:.3g}, the limit of whole numbers of {bits + 1} bits. "
                "Calculate in float32.",
            )
    return None


def _marked(case, name):
    """Where the output is wrong, by more than its rounding."""
    return ~torch.isclose(case.first.outputs[name].double(), case.ref[name], rtol=1e-5, atol=0.0)


def _fewest_bytes(case):
    """Every wrong number fits one number of bytes, larger than the given ones."""
    flops, out, options = case.inputs["flops"].double(), case.first.outputs, case.case.options
    for name in _wrong(case):
        wrong = _marked(case, name)
        if name == "tflops" or not bool(wrong.any()):
            continue
        got = out[name].double()
        used = (flops / got if name == "intensity" else got * options["memory_gbps"] * 1e3)[wrong]
        given = case.inputs["num_bytes"][wrong]
        if bool((used > given).all()) and _near(used, used[:1].expand_as(used)) and given.unique().numel() > 1:
            return Diagnosis(
                "fewest_bytes",
                f"{_facts(case, name)}: that and the other wrong numbers fit {used[0].item():.6g} bytes, whatever the "
                "number of bytes is. No kernel moves fewer in your lines; some do.",
            )
    return None


def _factor(case):
    """A constant factor between got and expected: a unit."""
    for name in _wrong(case):
        got, want = case.first.outputs[name].double(), case.ref[name]
        used = want != 0
        ratio = (got[used] / want[used]).mean().item() if bool(used.any()) else 0.0
        for power in (-12, -9, -6, -3, 3, 6, 9, 12):
            if ratio and _near(got[used], want[used] * 10.0**power):
                return Diagnosis(
                    "unit",
                    f"{_facts(case, name)}: off by the factor 10^{power}. TFLOP are 10^12, GB "
                    f"10^9, microseconds 10^-6; {name} is in {_UNITS[name]}.",
                )
    return None


def _facts(case, name):
    """ "In the case 'a copy', least_us is 1, expected 2"."""
    comparison = case.comparisons[name]
    inside = case.inputs
    at = comparison.index
    return (
        f"With {inside['flops'][at].item():.4g} FLOP and {inside['num_bytes'][at].item():.4g} bytes, {name} is "
        f"{comparison.got:.4g}, expected {comparison.expected:.4g} {_UNITS[name]} (case {case.case.name!r})"
    )

"""What a log-sum-exp says about the mistake that made it.

May import: verdict, spec, evidence (as data), diagnostics of softmax.
"""

import math

from ....notation import LOG2_E
from ...exercise.spec import Case, Probe
from ...report.verdict import Diagnosis
from .diagnostics import by_height, by_masked_rows, by_row_offset, by_shift
from .sums import by_steps, near, say_count

COUNT_COLS = 309  # four blocks of 64 and a ragged rest
STAGNATION_PER_THREAD = 4096  # equal scores for each thread: half precision cannot count beyond 2048


def _first(_inputs, outputs):
    return outputs["lse"].double().flatten()[0].item()


def lse_probes(block):
    """Probes for (x, lse): equal scores, one score, steps between strides, threads and warps, many equal scores."""
    return (
        Probe("count", Case("count", {"num_rows": 2, "num_cols": COUNT_COLS}, "zeros", "float16"), _first),
        Probe("one score", Case("one score", {"num_rows": 2, "num_cols": 1}, "ones", "float16"), _first),
        _step_probe("step between strides", 2 * block, block),
        _step_probe("step between threads", block, block // 2),
        _step_probe("step between warps", block, block // 4),
        Probe(
            "stagnation",
            Case("stagnation", {"num_rows": 1, "num_cols": block * STAGNATION_PER_THREAD}, "zeros", "float16"),
            _first,
        ),
    )


def _step_probe(name, num_cols, at):
    def read(_inputs, outputs):
        last = math.exp(1.0 - _first(_inputs, outputs))  # the weight of a score of 1, were it divided by this sum
        return {"at": at, "num_cols": num_cols, "first": last / math.e, "last": last}

    return Probe(name, Case(name, {"num_rows": 2, "num_cols": num_cols}, "step", "float16", {"at": at}), read)


def diagnose_lse(evidence, *, stride):
    """Diagnosis of a failing log-sum-exp over rows of half precision, or None."""
    readings = evidence.readings
    for look in (
        lambda: say_lse(readings.get("count"), COUNT_COLS, readings.get("one score")),
        lambda: _count(readings.get("count"), stride),
        lambda: by_steps(evidence),
        lambda: _stagnation(readings.get("stagnation"), stride),
        lambda: by_shift(evidence),
        lambda: by_height(evidence),
        lambda: by_masked_rows(evidence),
        lambda: by_row_offset(evidence),
    ):
        found = look()
        if found is not None:
            return found
    return None


def say_lse(equal, num_keys, single):
    """From lse of `num_keys` scores of 0, and lse of a single score of 1: base, missing log, missing maximum.

    Parameters
    ----------
    equal : float or None; ln(num_keys) when right
    single : float or None; 1 when right
    """
    if equal is None or single is None or not (math.isfinite(equal) and math.isfinite(single)):
        return None
    log = math.log(num_keys)
    start = f"{num_keys} scores of 0 must give ln({num_keys}) = {log:.4g}; here it is {equal:.4g}"
    if near(equal, log * LOG2_E):
        return Diagnosis(
            "lse_base_2", f"{start}, which is the logarithm to the base 2. The course's lse is natural (logf)."
        )
    if near(equal, log) and abs(single) < 1e-3:
        return Diagnosis(
            "lse_without_max",
            "A single score of 1 must give 1; here it is 0: log(l) alone. l was "
            "divided by "
            "exp(m), so m has to be added again: lse = m + log(l).",
        )
    if near(equal, num_keys):
        return Diagnosis("lse_without_log", f"{start}: that is l itself; its logarithm is missing.")
    if abs(equal) < 1e-3:
        return Diagnosis("lse_without_sum", f"{start}: that is m alone; log(l) is missing.")
    if near(equal, log) and near(single, LOG2_E):
        return Diagnosis("lse_base_2", "A single score of 1 must give 1; here it is log2(e): m was left in base 2.")
    if near(equal, -log):
        return Diagnosis("lse_sign", f"{start}: the sign of log(l) is wrong; lse = m + log(l).")
    return None


def _stagnation(lse, stride):
    expected = stride * STAGNATION_PER_THREAD
    if lse is None or math.isnan(lse) or near(lse, math.log(expected)) and abs(lse - math.log(expected)) < 1e-2:
        return None
    seen = math.exp(min(lse, 80.0))
    if near(seen, expected / 2):
        return Diagnosis(
            "half_accumulator",
            f"{expected:,} equal scores were counted as {seen:,.0f}: each thread "
            "stopped at 2048, "
            "since in half precision 2048 + 1 is 2048. Keep m and l in float.",
        )
    if math.isinf(lse):
        return Diagnosis(
            "half_accumulator",
            f"{expected:,} equal scores give an infinite sum: half precision ends at 65504. Keep m and l in float.",
        )
    return None


def _count(lse, stride):
    if lse is None or math.isnan(lse) or lse > 80.0:
        return None
    seen = math.exp(lse)
    return None if near(seen, COUNT_COLS) else say_count(seen, COUNT_COLS, stride, "block", weights=False)

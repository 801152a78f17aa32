"""Diagnoses of decode attention over splits: which keys each split saw, and how it weighed them.

May import: probes, verdict, evidence (as data), diagnostics of attention, heads, FlashAttention and lse.
"""

import math

from ....notation import UNIT_ROUNDOFF
from ...report.verdict import Diagnosis
from ..attention.diagnostics import by_other_scale, diagnose_attention, near
from ..attention.heads import say_heads
from ..flash_attention.diagnostics import say_factors
from ..softmax.lse import say_lse
from .limits import by_bound, by_faint, by_low, by_parameter
from .probes import TILE


def diagnose_splits(evidence, right, rules=(), *, measures=None, parameters=None, lse="partial_lse"):
    """Diagnosis of failing decode attention, or None.

    Parameters
    ----------
    right : windows of the probe "keys": [batch entry][split] -> half-open range (first key, end)
    rules : [(code, words, windows)], what known mistakes make of them
    measures, parameters : of the cases, for limits.by_bound and limits.by_parameter
    lse : name of the output
    """
    readings = evidence.readings
    looks = (
        lambda: _nan_from_the_start(evidence),
        lambda: by_other_scale(evidence),
        lambda: _by_overflow(evidence),
        lambda: by_low(evidence),
        lambda: by_faint(evidence, lse),
        lambda: _by_columns(readings),
        lambda: _by_lse(readings, right),
        lambda: _by_factors(readings),
        lambda: diagnose_attention(evidence) if not _adds_up(readings.get("unity")) else None,
        lambda: _by_whole_tiles(readings.get("keys"), right),
        lambda: _by_capacity(_numbers(readings.get("head map"))),
        lambda: say_heads(_numbers(readings.get("head map"))),
        lambda: _by_rounded_lse(evidence, lse),
        lambda: _by_windows(readings.get("keys"), right, rules),
        lambda: _by_rounded_scores(evidence, lse),
        lambda: by_parameter(evidence, parameters or {}),
        lambda: by_bound(evidence, measures or {}),
        lambda: _by_tail_slots(evidence),
        lambda: diagnose_attention(evidence),
        lambda: _by_rounding(evidence),
    )
    return next((diagnosis for look in looks if (diagnosis := look()) is not None), None)


def _nan_from_the_start(evidence):
    """NaN for a single key, where the only old state is the empty one."""
    single = [c for c in evidence.failing() if c.case.sizes["seq_len_kv"] == c.case.sizes["capacity"] == 1]
    if not single or not all(math.isnan(c.got) for c in single[0].comparisons.values() if not c.passed):
        return None
    whole = [c for c in evidence.passing() if max(_lens(c))]
    if whole:
        return Diagnosis(
            "undefined_places",
            f"NaN in the case {single[0].case.name!r}, where no slot is unused, and right in the case "
            f"{whole[0].case.name!r}. Elements that a load masks out have the value of `other`, and are undefined "
            "without it: 0 times NaN is NaN. Pass other=0.0.",
        )
    return Diagnosis(
        "nan_from_the_start",
        "NaN already for a single key. There the old state is (-inf, 0): exp(m - m_new) is 0, but exp(m_new - m) is "
        "infinite, and 0 times infinite is NaN.",
    )


def _by_lse(readings, right):
    """lse of a whole split, and of one key with score 1."""
    keys, single, unity = readings.get("keys"), readings.get("one score"), readings.get("unity")
    if keys is None or single is None or unity is None:
        return None
    (first, count), whole = keys[0][0][0], right[0][0][1] - right[0][0][0]
    if count == 0.0 and abs(first - right[0][0][1] + 1) < 0.05:
        return Diagnosis(
            "old_state_lost",
            f"{whole} keys of equal weight: out is the row of key {first:.0f}, the last one, alone, and lse is -inf. "
            "What came before was thrown away: is m kept from one turn to the next?",
        )
    if math.isnan(count) or count <= 0.0:
        return None
    sums = 8.0 + 8.0 / math.e  # of the unity probe
    if near(count, 1.0) and near(unity["sum"], sums):
        return Diagnosis(
            "l_not_summed",
            f"{whole} keys of equal weight, v = 1: exp(lse) is 1 and the weighted mean {unity['sum']:.4g}: l holds the "
            "last weight alone, while acc holds the sum of all.",
        )
    return say_lse(math.log(count), whole, single)


def _adds_up(unity):
    """Whether the weights add up to 1."""
    return unity is not None and near(unity["sum"], 1.0)


def _by_columns(readings):
    """A lane that knows its own columns alone gives them weights of its own."""
    columns = readings.get("columns")
    if columns is None or not _adds_up(readings.get("unity")) or not all(math.isfinite(value) for value in columns):
        return None
    other = next((i for i, value in enumerate(columns) if not near(value, columns[0], 1e-3)), None)
    if other is None:
        return None
    return Diagnosis(
        "lanes_disagree",
        f"8 keys with score 0 and 8 with score 1: the first half has one weight, and column 0 of out says "
        f"{columns[0]:.4g}, column {2 * other} says {columns[other]:.4g}. A score is a sum over all columns of q and "
        "k; every lane needs all of it before it weighs its own columns of v.",
    )


def _by_factors(readings):
    """Right while the maximum falls, wrong when it grows: the old state's factor."""
    tiles, down = readings.get("tiles"), readings.get("down")
    if tiles is None or down is None or not all(math.isfinite(value) for value in (*tiles, *down)):
        return None
    share = 1.0 / (1.0 + math.e)
    if not (near(down[0], share, 1e-2) and near(down[1], 1.0 - share, 1e-2)):
        return None
    return say_factors(*tiles, TILE, f"{TILE} keys with score 0, then {TILE} with score 1:")


def _alike(got, wanted):
    """Whether windows read off agree with windows (first, end); (first, count) of an empty one says only count 0."""
    for mine, theirs in zip(got, wanted, strict=True):
        for (first, count), (start, end) in zip(mine, theirs, strict=True):
            if not abs(count - max(end - start, 0)) < 0.02 or end > start and not abs(first - start) < 0.05:
                return False
    return True


def _numbers(heads):
    """The reading of the probe "head map", None where it holds NaN."""
    return heads if heads is not None and all(math.isfinite(x) for row in heads["got"] for x in row) else None


def _by_whole_tiles(keys, right):
    """Full splits saw their own keys; the others counted whole tiles, v = 0 past the end of the sequence."""
    if keys is None:
        return None
    pairs = [(got, want) for rows in zip(keys[0], right, strict=True) for got, want in zip(*rows, strict=True)]
    short = [(got, want) for got, want in pairs if (want[1] - want[0]) % TILE]
    if not short or not all(_alike([[got]], [[want]]) for got, want in pairs if (got, want) not in short):
        return None
    for (first, count), (start, end) in short:
        if not abs(count - (-(-(end - start) // TILE) * TILE)) < 0.02 or abs(first - start) < 0.5:
            return None
    words = f"slots past the end of the sequence were counted, up to whole tiles of {TILE}; their score must be -inf"
    return Diagnosis("tail_counted", f"{_first_wrong(keys, right)}: {words}.")


def _by_windows(keys, right, rules):
    """Which keys each split of each sequence saw."""
    if keys is None or all(_alike(head, right) for head in keys):
        return None
    for code, words, wanted in rules:
        if all(_alike(head, wanted[i] if code == "partials_moved" else wanted) for i, head in enumerate(keys)):
            return Diagnosis(code, f"{_first_wrong(keys, right)}: {words}.")
    return _by_rows_of_v(keys[0], right) or Diagnosis("wrong_keys", f"{_first_wrong(keys, right)}.")


def _by_rows_of_v(head, right):
    """Every split counts as many keys as it has, and the rows of v that it adds up are others."""
    pairs = [(got, want) for rows in zip(head, right, strict=True) for got, want in zip(*rows, strict=True)]
    if not all(abs(count - (end - first)) < 0.02 for (_, count), (first, end) in pairs):
        return None
    (start, count), (first, end) = next((got, want) for got, want in pairs if not _alike([[got]], [[want]]))
    return Diagnosis(
        "rows_of_v",
        f"Equal scores, row j of v is j + 1: exp(lse) counts the right number of keys in every split, but the mean of "
        f"the keys {first} to {end - 1} must be {(first + end + 1) / 2:g} and is {start + (count + 1) / 2:.4g}. Other "
        "rows of v were read than belong to these keys: look at the address of v.",
    )


def _first_wrong(keys, right):
    """A sentence without its end on the first split that saw other keys than its own."""
    for number, head in enumerate(keys):
        for b, (mine, theirs) in enumerate(zip(head, right, strict=True)):
            for s, (got, want) in enumerate(zip(mine, theirs, strict=True)):
                if not _alike([[got]], [[want]]):
                    return _said(number, b, s, got, want, right)
    return "The splits saw other keys than their own"


def _said(number, b, s, got, want, right):
    where = f"split {s} of {len(right[0])}" if len(right[0]) > 1 else "the only pass"
    if len(right) > 1:
        where += f" of batch entry {b}"
    if number:
        where += ", last head,"
    longest = [max(end for _, end in of_sequence) for of_sequence in right]
    start = f"Equal scores, {' and '.join(str(n) for n in longest)} keys: {where} must see {_span(*want)} and saw"
    if math.isnan(got[1]):
        return f"{start} something that is no mean of keys (NaN)"
    if got[1] < 0.02:
        return f"{start} none"
    first, count = got
    whole = abs(first - round(first)) < 0.05 and abs(count - round(count)) < 0.02
    return f"{start} {_span(round(first), round(first + count)) if whole else f'{count:.4g} keys'}"


def _span(first, end):
    if end <= first:
        return "no key"
    return f"key {first}" if end == first + 1 else f"keys {first} to {end - 1}"


def _by_capacity(reading):
    """The heads of k and v lie `capacity` keys apart, not seq_len_kv: then a head begins in the one before."""
    if reading is None:
        return None
    keys, capacity, kv = TILE, TILE + 4, reading["num_kv_heads"]
    got = reading["got"]
    per_kv = len(got[0]) // kv

    def mean(b, h):
        begin = (b * kv + h // per_kv) * keys
        return sum((begin + key) // capacity + 1 for key in range(keys)) / keys

    if not all(near(got[b][h], mean(b, h)) for b in range(len(got)) for h in range(len(got[0]))):
        return None
    return Diagnosis(
        "capacity_ignored",
        f"{keys} valid keys in room for {capacity}: the second head of k and v must be read from its own rows and is "
        f"read from the one before, too (mean head number {mean(0, per_kv):g} in place of 2). A head's rows begin "
        "capacity rows after the one before, however many are valid.",
    )


def _by_tail_slots(evidence):
    """Right where no slot is unused, NaN elsewhere."""
    failing = evidence.failing()
    if not failing or not all(_holds_nan(c) for c in failing):
        return None
    if any(min(_lens(c)) == c.case.sizes["capacity"] for c in failing):
        return None
    return Diagnosis(
        "slots_behind",
        f"NaN in the case {failing[0].case.name!r}, where unused slots past the end of the sequence hold NaN, 500 and "
        "inf; right where all slots are used. A weight of 0 does not help: 0 times NaN is NaN. Mask the loads, or "
        "replace them by 0.",
    )


def _by_rounding(evidence):
    """The score of a single key is off by as much as half precision loses."""
    single = [c for c in evidence.failing() if c.case.sizes["seq_len_kv"] == c.case.sizes["capacity"] == 1]
    lse = next((c for case in single for name, c in case.comparisons.items() if name.endswith("lse")), None)
    if lse is None or lse.passed or not 1e-5 < abs(lse.got - lse.expected) < 1e-2 * max(abs(lse.expected), 1.0):
        return None
    one = evidence.readings.get("one score", math.nan)
    if one - 1.0 > 2e-4 and near(lse.got - lse.expected, one - 1.0, 0.3):  # half precision rounds 1 down, or not at all
        return Diagnosis(
            "added_to_l",
            f"The log-sum-exp of a single key is its score: {lse.expected:.6g} gives {lse.got:.6g}, and 1 gives "
            f"{one:.6g}, too much by the same amount, which no rounding does. The l of a single key is 1 exactly: what "
            "is added to it?",
        )
    return Diagnosis(
        "low_precision",
        f"The log-sum-exp of a single key is its score, {lse.expected:.6g}; here it is {lse.got:.6g}. Nearly right: "
        "that is what a sum of products loses in half precision. The inputs are half; make them float before you "
        "multiply.",
    )


def _by_overflow(evidence):
    """Equal scores, v = 1, 2, 3, …: a sum that float32 holds exactly came out infinite."""
    long = [c for c in evidence.failing("zeros") if c.ran and c.case.options.get("v") == "key_numbers"]
    outs = [c for case in long for name, c in case.comparisons.items() if name.endswith("out") and not c.passed]
    if not outs or any(not math.isinf(c.got) for c in outs):
        return None
    count = long[0].case.sizes["seq_len_kv"]
    return Diagnosis(
        "half_accumulator",
        f"{count} keys of equal weight, row j of v is j + 1: their sum {count * (count + 1) // 2:,} came out infinite. "
        "Half precision ends at 65,504: is acc kept in half? All sums must be float.",
    )


def _by_rounded_lse(evidence, name):
    """Right but for the log-sum-exps, which are numbers of half precision, each next to the right one."""
    failing = evidence.failing_by_values()
    for case in failing:
        if [n for n, comparison in case.comparisons.items() if not comparison.passed] != [name]:
            return None
        got, ref = case.first.outputs[name].double(), case.ref[name]
        near_right = (got - ref).abs() <= 1.01 * UNIT_ROUNDOFF["float16"] * ref.abs()
        if not bool(((got.half().double() == got) & (near_right | (got == ref))).all()):
            return None
    if not failing:
        return None
    comparison = failing[0].comparisons[name]
    return Diagnosis(
        "low_precision",
        f"out is right and {name} is nearly right: {comparison.got:.6g} for {comparison.expected:.6g}. Every {name} is "
        "a number of half precision: it was rounded to half. Keep it float.",
    )


def _by_rounded_scores(evidence, name):
    """Log-sum-exps off by no more than half precision loses of a score, and by more than it loses of a weight."""
    failing = [c for c in evidence.failing_by_values() if c.case.values != "below_1e9"]  # infinite in half
    unit, largest = UNIT_ROUNDOFF["float16"], evidence.exercise.largest_score
    wrong = [c.comparisons[name] for c in failing if not c.comparisons[name].passed]
    sizes = [largest(c.case, c.inputs) for c in failing]
    errors = [c.comparisons[name].max_error for c in failing]
    if not wrong or not all(error <= unit * size for error, size in zip(errors, sizes, strict=True)):
        return None
    worst = max(wrong, key=lambda comparison: abs(comparison.got - comparison.expected))
    if abs(worst.got - worst.expected) < 2.0 * UNIT_ROUNDOFF["bfloat16"]:
        return None
    return Diagnosis(
        "scores_rounded",
        f"The larger the scores, the larger the errors of {name}: {worst.got:.6g} where {worst.expected:.6g} is "
        f"right. Half precision rounds a number of that size by up to {unit * abs(worst.expected):.2g}: scores, "
        "softmax_scale, and q once it is multiplied by that, must stay float.",
    )


def _lens(case):
    return case.case.options.get("seq_lens", (case.case.sizes["seq_len_kv"],))


def _holds_nan(case):
    return any(c.got != c.got for c in case.comparisons.values() if not c.passed)

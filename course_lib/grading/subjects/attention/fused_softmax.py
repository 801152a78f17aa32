"""Scale, mask and softmax in one kernel, in CUDA and in Triton: inputs, cases, run, probes and their diagnosis.

May import: spec, protocol, inputs, magnitude, reference, diagnostics of attention and of log-sum-exp.
"""

import math

import torch

from ....reference import attention as reference
from ....reference.softmax import rounded_log_sum_exp, rounded_softmax
from ...exercise import inputs, magnitude
from ...exercise.spec import Case, Probe
from ...processes.protocol import Ref, Run
from ...report.verdict import Diagnosis
from ..ledger.moved import moved
from ..limits import by_limit
from ..softmax.cases import WARP_SIZE
from ..softmax.diagnostics import by_shift
from ..softmax.lse import say_lse
from .diagnostics import near
from .heads import MASKS, say_rows, visible
from .raw_maximum import by_raw_maximum

SCALE = 0.25  # softmax_scale of the probes and of some cases
OTHER_SCALE = 0.7

LOW, HIGH = 48, 16  # scaled scores of 0 and of 1 in the step probe: m grows late, and not in every lane

OWN_SUM = 1.0 + math.exp(-1.0)  # of a lane with a scaled score of 0 and one of 1

HIDDEN = 30.0  # added to the scaled scores of masked keys, so that reading one shows


def _case(name, batch_heads, seq_len_q, seq_len_kv, causal, values="normal", schedules=(), **options):
    sizes = {"batch_heads": batch_heads, "seq_len_q": seq_len_q, "seq_len_kv": seq_len_kv}
    return Case(name, sizes, values, options={"causal": causal, "scale": SCALE, **options}, schedules=schedules)


def _scores(case, gen):
    """{"scores": (batch_heads, seq_len_q, seq_len_kv)}: finite, and as the case says once they are scaled."""
    shape = tuple(case.sizes.values())
    scaled = inputs.scores(case.values, shape, case.dtype, gen, at=case.options.get("at", 0))
    if case.options["causal"] and case.values != "zeros":  # zeros: a probe, in which masked keys are counted too
        scaled = torch.where(reference.visible_keys(*shape[1:]), scaled, scaled + HIDDEN)
    return {"scores": scaled / case.options["scale"]}


def _scaled(case, scores):
    return reference.masked(scores * case.options["scale"], causal=bool(case.options["causal"]))


def _largest_score(case, tensors):
    return magnitude.largest(_scaled(case, tensors["scores"]))


def _judged(case, scores):
    scaled = _scaled(case, scores)
    return {"probs": rounded_softmax(scaled), "lse": rounded_log_sum_exp(scaled)}


def run(case, tensors, *, threads=1, constants=None):
    """One warp or one program a row: grid (seq_len_q, batch_heads)."""
    batch_heads, seq_len_q, seq_len_kv = tensors["scores"].shape
    shapes = {"probs": (batch_heads, seq_len_q, seq_len_kv), "lse": (batch_heads, seq_len_q)}
    options = case.options
    return Run(
        case.name, tensors, {name: (shape, "float32") for name, shape in shapes.items()},
        (Ref("scores"), Ref("probs"), Ref("lse"), seq_len_q, seq_len_kv, options["scale"], options["causal"]),
        grid=(seq_len_q, batch_heads, 1), block=(threads, 1, 1), constants=constants or {},
    )  # fmt: skip


def cases(schedules):
    """The cases; the first one and a few others under all `schedules`."""
    one = schedules[:1]
    return (
        _case("one score", 1, 1, 1, 1, schedules=schedules),
        _case("no mask", 2, 2, 37, 0, schedules=schedules),
        _case("causal, 2 rows and 5 keys", 1, 2, 5, 1, schedules=schedules, block=4),
        _case("causal, square", 1, 9, 9, 1, schedules=one),
        _case("causal, more keys than rows", 2, 3, 37, 1, schedules=schedules[:2]),
        _case("causal, rows that see nothing", 1, 12, 7, 1, schedules=one),
        _case("causal, 9 rows and 2 keys", 1, 9, 2, 1, schedules=one),
        _case("another scale", 1, 2, 33, 1, scale=OTHER_SCALE),
        _case("a scale above 1", 1, 1, 26, 0, scale=3.0, block=4),
        _case("13,000 keys", 1, 1, 13_000, 1, block=1024),
        _case("scaled scores near -100", 1, 3, 70, 1, "minus_100", one),
        _case("scaled scores near -12990", 1, 3, 45, 1, "minus_12990", scale=0.125),
        _case("scaled scores near +100", 1, 3, 70, 1, "plus_100", block=16),
        _case("one score of 120 a row", 1, 3, 100, 0, "spikes"),
        _case("rising scores", 1, 3, 77, 0, "rising", one, block=16),
        _case("falling scores", 1, 3, 77, 1, "falling"),
        _case("several heads", 3, 4, 65, 1),
    )


def _rows(_inputs, outputs):
    """First batch entry: keys that each row saw (1 / weight of its first key), weights that are not 0, and lse."""
    probs, lse = outputs["probs"].double()[0], outputs["lse"].double()[0]
    first = [1.0 / weight if weight else 0.0 for weight in probs[:, 0].tolist()]
    return {"seen": first, "weights": (probs != 0).sum(dim=-1).tolist(), "lse": lse.tolist()}


def _step(_inputs, outputs):
    """{"slope": logarithm of the ratio of two weights whose scaled scores differ by 1, "l": 1 / the larger weight}.

    None when they cannot be formed.
    """
    low, high = outputs["probs"].double()[0, 0, [0, -1]].tolist()
    usable = low > 0.0 and 0.0 < high < math.inf
    return {"slope": math.log(high / low), "l": 1.0 / high} if usable else None


def _probes():
    rows = [Probe(name, _case(name, 1, *sizes, "zeros"), _rows) for name, *sizes in MASKS]
    step = _case("step", 1, 1, LOW + HIGH, 0, "step", at=LOW)
    other = _case("step, another scale", 1, 1, LOW + HIGH, 0, "step", at=LOW, scale=OTHER_SCALE)
    single = _case("one key", 1, 1, 1, 0, "ones")
    return (
        *rows,
        Probe("step", step, _step),
        Probe(other.name, other, _step),
        Probe("one key", single, lambda _, out: out["lse"].double().item()),
    )


def _diagnose(evidence):
    """Which keys, then the scale, then rows without keys, then lse, then large scores."""
    readings = evidence.readings
    looks = [lambda: by_limit(evidence, seq_len_kv="keys")]
    looks += [lambda mask=mask: _keys(readings.get(mask[0]), mask, readings.get("step")) for mask in MASKS]
    looks += [
        lambda: _own_maximum(evidence),
        lambda: _slope(readings.get("step")),
        lambda: _other_scale(readings.get("step, another scale")),
    ]
    looks += [lambda: _sum(readings.get("step"))]
    looks += [lambda mask=mask: _empty(readings.get(mask[0]), mask) for mask in MASKS]
    looks += [lambda: _lse(readings), lambda: by_raw_maximum(evidence, "probs"), lambda: by_shift(evidence)]
    looks += [lambda: _larger_scale(evidence)]
    return next((found for look in looks if (found := look()) is not None), None)


def _larger_scale(evidence):
    """Right for smaller scales, and for larger ones the weights of another scale, the same for all keys; or None."""
    failing, right = evidence.failing(), [one.case.options["scale"] for one in evidence.passing()]
    if not failing or not all(one.ran for one in failing):
        return None
    case = min(failing, key=lambda one: one.case.options["scale"])
    scale = case.case.options["scale"]
    if not right or scale <= max(right) or case.case.options["causal"]:
        return None
    scores, probs = (tensor.double()[0, 0] for tensor in (case.inputs["scores"], case.first.outputs["probs"]))
    low, high = scores.argmin(), scores.argmax()
    used = ((probs[high] / probs[low]).log() / (scores[high] - scores[low])).item()
    if not torch.allclose((probs / probs[low]).log(), used * (scores - scores[low]), rtol=1e-3, atol=1e-3):
        return None
    if near(used, scale):
        return None
    return Diagnosis(
        "scale_wrong",
        f"Right with softmax_scale up to {max(right):g}; with {scale:g} (case {case.case.name!r}) the weights are "
        f"those of scores times {used:.4g}. Is softmax_scale cut off at some number? It may be any number above 0.",
    )


def _keys(reading, mask, step):
    if reading is None:
        return None
    if mask[0] == "rows without keys" and all(value == 0.0 for value in reading["seen"]):
        return None
    right = [visible(q, *mask[1:]) for q in range(mask[1])]
    if (
        all(near(value, 1.0) for value, count in zip(reading["seen"], right, strict=True) if count > 1)
        and max(right) > 1
    ):
        start = f"{right[-1]} equal scores must get the weight 1 / {right[-1]} each; they get 1"
        if step is not None and near(step["l"], OWN_SUM):
            return Diagnosis(
                "own_sum",
                f"{start}, and with two keys a lane the largest weight is 1 / {OWN_SUM:.4g} = 1 / (1 + 1 / e): each "
                "lane divided by the sum of its own keys. All of them need the sum of the row.",
            )
        return Diagnosis(
            "no_division",
            f"{start}: exp(score - max) was never divided by its sum, or the sum is not a number (a load without "
            "`other`?) and a guard put 1 in its place.",
        )
    return say_rows(mask[0], reading["seen"])


def _sum(reading):
    """Diagnosis of l, read off the largest weight, when the ratio of the weights is right."""
    right = LOW / math.e + HIGH
    if reading is None or near(reading["l"], right):
        return None
    start = (
        f"{LOW} scaled scores of 0, then {HIGH} of 1: against the maximum l is {LOW} / e + {HIGH} = {right:.4g}; here "
        f"it is {reading['l']:.4g}"
    )
    if reading["l"] < right:
        return Diagnosis("sum_incomplete", f"{start}, too small: some keys, or the sums of some lanes, are not in it.")
    return Diagnosis(
        "l_not_rescaled", f"{start}. What was summed against a smaller m must be multiplied by exp(m - m_new)."
    )


def _own_maximum(evidence):
    """Two keys a lane: the larger one of each lane gets the largest weight of the row."""
    step = evidence.readings.get("step")
    if step is None or abs(step["slope"]) > 1e-4:
        return None
    start = "Scaled scores 0 and 1: the weights must differ by the factor e = 2.718, and they are equal"
    rows = [case.first.outputs["probs"].double().flatten(0, 1) for case in evidence.failing("normal") if case.ran]
    alike = all(bool((row[row != 0] == row.max()).all()) for outputs in rows for row in outputs)
    if not rows or alike:
        return Diagnosis("ignores_scores", f"{start}, as all weights of a row are. The scores do not enter the result.")
    return Diagnosis(
        "own_maximum",
        f"{start}, although some weights of a row differ: each lane or tile subtracted the maximum of its own keys. "
        "All of them need the maximum of the row.",
    )


def _slope(reading):
    slope = reading["slope"] if reading else None
    if slope is None or near(slope, 1.0, 1e-3):
        return None
    start = (
        f"Scaled scores 0 and 1: the weights must differ by the factor e = 2.718; they differ by {math.exp(slope):.4g}"
    )
    table = (
        (1.0 / SCALE, "scale_missing", f"That fits scores {1 / SCALE:g} times too large: softmax_scale is missing"),
        (SCALE, "scale_twice", f"That fits scores {1 / SCALE:g} times too small: softmax_scale is in them twice"),
        (1.0 / SCALE**2, "scale_inverse", f"The scores were divided by softmax_scale = {SCALE:g}, not multiplied"),
        (math.log(2.0), "exp_exp2_mix", "That is 2 to the power of the score: exp2 needs its argument times log2(e)"),
        (1.0 / math.log(2.0), "exp_exp2_mix", "log2(e) is in it although the exponential is to the base e"),
        (-1.0, "sign", "The smaller the score, the larger the weight: a sign is wrong"),
    )  # fmt: skip
    for value, code, words in table:
        if near(slope, value):
            return Diagnosis(code, f"{start}. {words}.")
    return Diagnosis("scale_wrong", f"{start}, which fits scores times {slope * SCALE:.4g} instead of {SCALE:g}.")


def _other_scale(reading):
    """Diagnosis of a softmax_scale that is right as long as it is SCALE."""
    slope = reading["slope"] if reading else None
    if slope is None or near(slope, 1.0, 1e-3):
        return None
    start = f"With softmax_scale = {SCALE:g} the weights are right; with {OTHER_SCALE:g} the scores were multiplied by"
    if near(slope * OTHER_SCALE, SCALE, 1e-3):
        return Diagnosis(
            "scale_ignored", f"{start} {SCALE:g} as well: softmax_scale is ignored. The caller chooses it."
        )
    return Diagnosis("scale_wrong", f"{start} {slope * OTHER_SCALE:.4g}.")


def _empty(reading, mask):
    """Rows that see nothing: weights 0, lse -inf."""
    if reading is None:
        return None
    _, seq_len_q, seq_len_kv, causal = mask
    for q_row in range(seq_len_q):
        if visible(q_row, seq_len_q, seq_len_kv, causal):
            continue
        weights, lse = reading["weights"][q_row], reading["lse"][q_row]
        start = f"With seq_len_q = {seq_len_q} and seq_len_kv = {seq_len_kv}, row {q_row} sees no key"
        if weights:
            why = "Is it 0 / 0, or a large negative number in place of -inf?"
            return Diagnosis("masked_row", f"{start}; all its weights must be 0, and {weights} are not. {why}")
        if lse != -math.inf:
            return Diagnosis("masked_row", f"{start}; its lse must be -inf and is {lse:.4g}.")
    return None


def _lse(readings):
    """lse of 9 scores of 0, and of a single scaled score of 1."""
    rows, single = readings.get("no mask"), readings.get("one key")
    if rows is None or single is None:
        return None
    if near(single, 1.0 / SCALE):
        start = f"A single scaled score of 1 must give lse = 1; here it is {single:.4g}, the raw score"
        return Diagnosis("lse_unscaled", f"{start}: the maximum in lse is the one of the scaled scores.")
    return say_lse(rows["lse"][0], 9, single)


def judge_work(case, ledger):
    """Refuses weights that are written twice and scores that are read again and again."""
    batch_heads, seq_len_q, seq_len_kv = case.sizes.values()
    rows, why = batch_heads * seq_len_q, "a score is read three times at most, an element of probs and lse written once"
    return moved(case, ledger, read=12 * rows * seq_len_kv, written=4 * rows * (seq_len_kv + 1), why=why)


def _bound(case):
    """Fewest bytes: visible scores once, every weight and every lse once."""
    batch_heads, seq_len_q, seq_len_kv = case.sizes.values()
    seen = batch_heads * sum(visible(q, seq_len_q, seq_len_kv, case.options["causal"]) for q in range(seq_len_q))
    written = batch_heads * seq_len_q * (seq_len_kv + 1)
    return 4 * (seen + written), f"{seen:,} visible scores read once, {written:,} numbers written, 4 bytes each"


SHARED = {
    "make_inputs": _scores,
    "oracle": lambda case, tensors: _judged(case, tensors["scores"].double()),
    "baseline": lambda case, tensors: _judged(case, tensors["scores"]),
    "rules": {"probs": "weights", "lse": "lse"},
    "largest_score": _largest_score,
    "probes": _probes(),
    "diagnose": _diagnose,
    "bound_bytes": _bound,
    "tile": lambda case: (1, WARP_SIZE),
}

"""07.6 The gradients of q and k: what the judge runs."""

import math

from course_lib.grading.exercise.spec import Probe, exercise, late
from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.flash_attention import masks as masks
from course_lib.grading.subjects.flash_attention_2 import diagnostics as diagnostics
from course_lib.grading.subjects.flash_attention_2 import gradients as gradients
from course_lib.grading.subjects.flash_attention_2 import pairs as pairs
from course_lib.grading.subjects.flash_attention_2 import weights as weights
from course_lib.grading.subjects.flash_attention_2.cases import block_m_of, block_n_of, largest_score
from course_lib.grading.subjects.flash_attention_2.looks import first_looks
from course_lib.grading.subjects.flash_attention_2.traffic import macs, products
from course_lib.grading.subjects.ledger.moved import moved
from course_lib.grading.subjects.ledger.share import share

NAMES = ("q", "k", "v", "out", "d_out", "lse")

ROUNDED = "d_S is rounded, for its product, and d_q and d_k, when they are stored"

LARGE_SCALE = {"dtype": "float16", "scale": 2.0**15}  # q and k, of sqrt(20), times it are beyond half

COLUMNS = {"d_q": 1, "d_k": 0}  # of the probes' inputs


def _tiles(case):
    return max(-(-case.sizes["seq_len_q"] // block_m_of(case)), -(-case.sizes["seq_len_kv"] // block_n_of(case)))


def _run(case, tensors):
    grid = (_tiles(case), case.sizes["num_heads"], case.sizes["batch_size"])
    return gradients.backward_run(case, tensors, NAMES, {"d_q": "q", "d_k": "k"}, grid)


def _by_large_scale(evidence):
    """Half alone is wrong, and no number where q or k times the scale is beyond half."""
    failing = evidence.failing()
    case = next((case for case in failing if case.case.options.get("scale") == LARGE_SCALE["scale"]), None)
    if case is None or any(one.case.dtype != "float16" for one in failing):
        return None
    name, wrong = case.first_wrong
    if math.isfinite(wrong.got):
        return None
    return Diagnosis(
        "rounded_to_half",
        f"Right in every case of float32; in the case {case.case.name!r} {name} is {wrong.got} instead of "
        f"{wrong.expected:.4g}. q or k was multiplied by the scale and rounded to half, which holds nothing beyond "
        "65,504: q and k enter the products as they are. d_S takes the scale, or d_q and d_k in the end.",
    )


def _diagnose(evidence):
    readings = evidence.readings
    looks = (
        lambda: _by_large_scale(evidence),
        *first_looks(evidence, ROUNDED),
        lambda: weights.say_d_scores(readings),
        lambda: weights.say_local_row_dot(readings, "d_q"),
        lambda: weights.say_local_row_dot(readings, "d_k"),
        lambda: pairs.say_pairs(pairs.reading_of(readings, "pairs", "d_q"), "d_q", 1, group=1),
        lambda: pairs.by_pairs(readings, "d_k", 0, "heads of d_k"),
        lambda: None if pairs.nearly_right_heads(readings.get("heads")) else masks.by_heads(evidence),
        lambda: weights.say_weight(readings, "d_q"),
        lambda: weights.say_weight(readings, "d_k"),
        lambda: weights.say_scale(readings, "d_q"),
        lambda: weights.say_scale(readings, "d_k"),
        lambda: pairs.by_large_scores(evidence),
        lambda: pairs.by_empty_rows(evidence),
    )
    return next((found for look in looks if (found := look()) is not None), None)


def _bound(case):
    batch_size, num_heads, num_kv_heads, num_q, num_kv, head_dim = case.sizes.values()
    numbers = num_heads * num_q * 4 * head_dim + num_kv_heads * num_kv * 3 * head_dim
    itemsize = 2 if case.dtype == "float16" else 4
    return batch_size * (numbers * itemsize + num_heads * num_q * 4), "every input read once, d_q and d_k written once"


def _read(case):
    """Bytes that the given loads read: each tile of queries meets all keys, each tile of keys the group's queries."""
    batch_size, num_heads, num_kv_heads, num_q, num_kv, head_dim = case.sizes.values()
    itemsize = 2 if case.dtype == "float16" else 4
    queries, keys = num_heads * num_q * (3 * head_dim * itemsize + 4), 2 * num_kv * head_dim * itemsize
    own = queries + _tiles(case) * num_heads * keys
    return batch_size * (own + num_kv_heads * keys + _tiles(case) * queries)


def _traffic(case, ledger):
    """Diagnosis or None: nothing is read but by the given loads, d_q and d_k written once, all products tl.dot."""
    batch_size, num_heads, num_kv_heads, num_q, num_kv, head_dim = case.sizes.values()
    row = head_dim * (2 if case.dtype == "float16" else 4)
    written = batch_size * (num_heads * num_q + num_kv_heads * num_kv) * row
    why = "the given loads read each tile once in a turn, and each number of d_q and d_k is written once"
    found = moved(case, ledger, read=_read(case), written=written, why=why)
    own = (block_m_of(case) + block_n_of(case)) * row
    found = found or share(case, ledger, stored=own, why="a tile of d_q and one of d_k", unit="program")
    return found or products(case, ledger, 0 if case.options["causal"] else 6 * macs(case))


EXERCISE = exercise(
    __file__,
    cases=(
        *gradients.COMMON,
        gradients.backward_case("scores near -12000 by q", 5, 7, "minus_12000", low_by_q=True),
        gradients.backward_case("half, d_P near D", 5, 18, v_shift=64.0, **gradients.HALF),
        gradients.made_case("half, weights of 1e-8", 1, 3, causal=False, options=gradients.HALF, lse=18.0, v=4e4),
        gradients.made_case("half, softmax_scale 32,768", 1, 3, causal=False, options=LARGE_SCALE, v=1e-3),
        late(gradients.fading_case("half, group of five", 1, 1, ("q", "heads"), (1, 5, 1), v=4.0)),
        late(gradients.fading_case("half, 80 keys", 1, 80, ("k", "rows"), v=4.0)),
    ),
    make_inputs=gradients.backward_inputs,
    make_run=_run,
    oracle=gradients.oracle("d_q", "d_k"),
    baseline=gradients.baseline("d_q", "d_k"),
    rules={"d_q": "backward", "d_k": "backward"},
    largest_score=largest_score(causal=None),
    terms=gradients.terms("d_q", "d_k"),
    probes=(
        pairs.pairs_probe("pairs", **COLUMNS),
        pairs.heads_probe("heads", "d_q", 1, ("k",)),
        pairs.heads_probe("heads of d_k", "d_k", 0, ("q",)),
        weights.one_probe("d_S", COLUMNS, v=weights.D_PROBS, out=weights.ROW_DOT),
        weights.one_probe("lse", COLUMNS, lse=weights.LN_4),
        weights.one_probe("score", COLUMNS, score=1.0),
        weights.scale_probe(COLUMNS),
        Probe(
            "whole tiles",
            gradients.whole_case(),
            lambda _inputs, outputs: all(bool(outputs[name].isfinite().all()) for name in ("d_q", "d_k")),
        ),
    ),
    diagnose=_diagnose,
    bound_bytes=_bound,
    ledger_rule=_traffic,
    tile=lambda case: (block_m_of(case), case.sizes["head_dim"]),
)

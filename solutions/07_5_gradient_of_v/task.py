"""07.5 The gradient of v, from recomputed weights: what the judge runs."""

from course_lib.grading.exercise.spec import Probe, exercise, late
from course_lib.grading.subjects.flash_attention_2 import diagnostics as diagnostics
from course_lib.grading.subjects.flash_attention_2 import gradients as gradients
from course_lib.grading.subjects.flash_attention_2 import pairs as pairs
from course_lib.grading.subjects.flash_attention_2 import weights as weights
from course_lib.grading.subjects.flash_attention_2.cases import block_n_of, largest_score
from course_lib.grading.subjects.flash_attention_2.looks import first_looks
from course_lib.grading.subjects.flash_attention_2.traffic import macs, products
from course_lib.grading.subjects.ledger.moved import moved
from course_lib.grading.subjects.ledger.share import share

NAMES = ("q", "k", "d_out", "lse")
ROUNDED = "the weights are rounded, for the second product, and d_v, when it is stored"


def _run(case, tensors):
    sizes = case.sizes
    grid = (-(-sizes["seq_len_kv"] // block_n_of(case)), sizes["num_kv_heads"], sizes["batch_size"])
    return gradients.backward_run(case, tensors, NAMES, {"d_v": "v"}, grid)


def _diagnose(evidence):
    readings = evidence.readings
    looks = (
        *first_looks(evidence, ROUNDED),
        lambda: pairs.by_pairs(readings, "d_v", 0, "heads"),
        lambda: weights.say_weight(readings, "d_v"),
        lambda: weights.say_scale(readings, "d_v"),
        lambda: pairs.by_large_scores(evidence),
        lambda: pairs.by_empty_rows(evidence),
    )
    return next((found for look in looks if (found := look()) is not None), None)


def _bytes(case, num_tiles):
    """Bytes with q, d_out and lse read `num_tiles` times, k read and d_v written once."""
    batch_size, num_heads, num_kv_heads, num_q, num_kv, head_dim = case.sizes.values()
    itemsize = 2 if case.dtype == "float16" else 4
    queries = num_heads * num_q * (2 * head_dim * itemsize + 4)
    return batch_size * (num_tiles * queries + 2 * num_kv_heads * num_kv * head_dim * itemsize)


def _num_tiles(case):
    return -(-case.sizes["seq_len_kv"] // block_n_of(case))


def _traffic(case, ledger):
    """Diagnosis or None: q, d_out and lse once for each tile of keys, k once; d_v written once, by its own program."""
    batch_size, num_heads, num_kv_heads, num_q, num_kv, head_dim = case.sizes.values()
    row = head_dim * (2 if case.dtype == "float16" else 4)
    written = batch_size * num_kv_heads * num_kv * row
    why = "a program reads its tile of k once, q, d_out and lse of its queries once, and writes its d_v once"
    found = moved(case, ledger, read=_bytes(case, _num_tiles(case)) - written, written=written, why=why)
    said = f"{block_n_of(case)} rows of d_v"
    found = found or share(case, ledger, stored=block_n_of(case) * row, why=said, unit="program")
    return found or products(case, ledger, 0 if case.options["causal"] else 2 * macs(case))


EXERCISE = exercise(
    __file__,
    cases=(
        gradients.backward_case("one query, one key", 1, 1),
        *gradients.COMMON,
        gradients.made_case("weights below 1e-6", 1, 3, causal=False, options={"light": True}, lse=14.15, d_out=1e6),
        gradients.exponent_case(),
        late(gradients.fading_case("half, group of five", 1, 1, ("d_out", "heads"), (1, 5, 1))),
        late(gradients.fading_case("half, 80 queries", 80, 1, ("d_out", "rows"))),
    ),
    make_inputs=gradients.backward_inputs,
    make_run=_run,
    oracle=gradients.oracle("d_v"),
    baseline=gradients.baseline("d_v"),
    rules={"d_v": "backward"},
    largest_score=largest_score(causal=None),
    terms=gradients.terms("d_v"),
    probes=(
        pairs.pairs_probe("pairs", d_v=0),
        pairs.heads_probe("heads", "d_v", 0, ("d_out",)),
        weights.one_probe("lse", {"d_v": 0}, lse=weights.LN_4),
        weights.one_probe("score", {"d_v": 0}, score=1.0),
        weights.scale_probe({"d_v": 0}),
        Probe(
            "whole tiles",
            gradients.whole_case(),
            lambda _inputs, outputs: bool(outputs["d_v"].isfinite().all()),
        ),
    ),
    diagnose=_diagnose,
    bound_bytes=lambda case: (_bytes(case, 1), "q, k, d_out and lse read once, d_v written once"),
    ledger_rule=_traffic,
    usual_bytes=lambda case: _bytes(case, _num_tiles(case)),
    question="Which tile is read again although the program holds it already?",
    tile=lambda case: (block_n_of(case), case.sizes["head_dim"]),
)

"""The gradients of q and k in Triton, an exercise of chapter 07.

May import: spec, magnitude, flash2_gradients, flash2_pairs, flash_cases, flash_masks.
"""

from ..exercise import magnitude
from ..exercise.spec import Exercise, Probe
from ..subjects.flash_attention import masks as masks
from ..subjects.flash_attention.cases import BLOCK_M, BLOCK_N
from ..subjects.flash_attention_2 import gradients as gradients
from ..subjects.flash_attention_2 import pairs as pairs

NAMES = ("q", "k", "v", "out", "d_out", "lse")
COLUMNS = {"d_q": 1, "d_k": 0}  # of the probes' inputs


def _tiles(case):
    return max(-(-case.sizes["seq_len_q"] // BLOCK_M), -(-case.sizes["seq_len_kv"] // BLOCK_N))


def _run(case, tensors):
    grid = (_tiles(case), case.sizes["num_heads"], case.sizes["batch_size"])
    return gradients.backward_run(case, tensors, NAMES, {"d_q": "q", "d_k": "k"}, grid)


def _diagnose(evidence):
    readings = evidence.readings
    looks = (
        lambda: pairs.by_undefined(evidence),
        lambda: pairs.say_d_scores(readings),
        lambda: pairs.say_pairs(pairs.reading_of(readings, "pairs", "d_q"), "d_q", 1, group=1),
        lambda: pairs.by_pairs(readings, "d_k", 0, "heads of d_k"),
        lambda: masks.by_heads(evidence),
        lambda: pairs.say_weight(readings, "d_q"),
        lambda: pairs.say_weight(readings, "d_k"),
        lambda: pairs.by_large_scores(evidence),
        lambda: pairs.by_empty_rows(evidence),
    )
    return next((found for look in looks if (found := look()) is not None), None)


def _bound(case):
    batch_size, num_heads, num_kv_heads, num_q, num_kv, head_dim = case.sizes.values()
    numbers = num_heads * num_q * 4 * head_dim + num_kv_heads * num_kv * 3 * head_dim
    itemsize = 2 if case.dtype == "float16" else 4
    return batch_size * (numbers * itemsize + num_heads * num_q * 4), "every input read once, d_q and d_k written once"


D_Q_D_K = Exercise(
    id="07.6",
    title="The gradients of q and k",
    language="triton",
    entry="d_q_d_k_kernel",
    signature=(
        "d_q_d_k_kernel(q_ptr, k_ptr, v_ptr, out_ptr, d_out_ptr, lse_ptr, d_q_ptr, d_k_ptr, num_q_per_kv, seq_len_q,\n"
        "               seq_len_kv, softmax_scale, causal, HEAD_DIM, BLOCK_D, BLOCK_M, BLOCK_N)"
    ),
    contract=(
        "q, out and d_out (B, H, Nq, D), k and v (B, Hkv, Nkv, D), float32 or float16, contiguous; lse (B, H, Nq), "
        "float32, natural log, -inf for a row that saw no key. Causal (bottom-right) when causal is 1. d_q like q, d_k "
        "like k, d_k summed over the query heads that read the key-value head. P = exp(score - lse), D = rowsum(d_out "
        "* out), d_S = P * (d_P - D)."
    ),
    size_lines=13,
    minutes=35,
    solution="course_lib/triton_kernels/flash_attention_2_exercises.py#d_q_d_k_kernel",
    cases=gradients.COMMON,
    make_inputs=gradients.backward_inputs,
    make_run=_run,
    oracle=gradients.oracle("d_q", "d_k"),
    baseline=gradients.baseline("d_q", "d_k"),
    rules={"d_q": "backward", "d_k": "backward"},
    largest_score=magnitude.of_attention(),
    terms=gradients.terms("d_q", "d_k"),
    hints=(
        "Both halves need the same tile of d_S, once with the queries at rest and once with the keys. Write it in four "
        "lines for d_q first.",
        "row_dot = sum over the columns of d_out * out, in float32. Then P from lse as in 07.5, d_P = d_out v^T, d_S = "
        "P * (d_P - D) * softmax_scale. d_q adds d_S k, d_k adds d_S^T q.",
        'd_scores = probs * (tl.dot(d_out, tl.trans(v), input_precision="ieee") - row_dot[:, None]) * softmax_scale; '
        'd_q += tl.dot(d_scores.to(k.dtype), k, input_precision="ieee").',
    ),
    explanation=(
        "Scores and d_P are computed twice, once for each owner, and the scores once more for d_v: eight products for "
        "a pair of tiles where five would do. The alternative is one walk that adds its d_q with atomics: fewer FLOP, "
        "a sum whose order changes from run to run, and a float32 d_q that somebody sets to 0 before. D costs a read "
        "of out in every turn here; the lecture's row_dot_kernel writes it once."
    ),
    probes=(
        pairs.pairs_probe("pairs", **COLUMNS),
        pairs.heads_probe("heads", "d_q", 1, ("k",)),
        pairs.heads_probe("heads of d_k", "d_k", 0, ("q",)),
        pairs.one_probe("d_S", COLUMNS, v=pairs.D_PROBS, out=pairs.ROW_DOT),
        pairs.one_probe("lse", COLUMNS, lse=pairs.LN_4),
        pairs.one_probe("score", COLUMNS, score=1.0),
        Probe(
            "whole tiles",
            gradients.whole_case(),
            lambda _inputs, outputs: all(bool(outputs[name].isfinite().all()) for name in ("d_q", "d_k")),
        ),
    ),
    diagnose=_diagnose,
    bound_bytes=_bound,
    tile=lambda case: (BLOCK_M, gradients.HEAD_DIM),
)

"""The gradient of v in Triton, an exercise of chapter 07.

May import: spec, magnitude, flash2_gradients, flash2_pairs, flash_cases.
"""

from ..exercise import magnitude
from ..exercise.spec import Exercise, Probe
from ..subjects.flash_attention.cases import BLOCK_N
from ..subjects.flash_attention_2 import gradients as gradients
from ..subjects.flash_attention_2 import pairs as pairs

NAMES = ("q", "k", "d_out", "lse")


def _run(case, tensors):
    sizes = case.sizes
    grid = (-(-sizes["seq_len_kv"] // BLOCK_N), sizes["num_kv_heads"], sizes["batch_size"])
    return gradients.backward_run(case, tensors, NAMES, {"d_v": "v"}, grid)


def _diagnose(evidence):
    readings = evidence.readings
    looks = (
        lambda: pairs.by_undefined(evidence),
        lambda: pairs.by_pairs(readings, "d_v", 0, "heads"),
        lambda: pairs.say_weight(readings, "d_v"),
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


D_V = Exercise(
    id="07.5",
    title="The gradient of v, from weights made again",
    language="triton",
    entry="d_v_kernel",
    signature=(
        "d_v_kernel(q_ptr, k_ptr, d_out_ptr, lse_ptr, d_v_ptr, num_q_per_kv, seq_len_q, seq_len_kv, softmax_scale,\n"
        "           causal, HEAD_DIM, BLOCK_D, BLOCK_M, BLOCK_N)"
    ),
    contract=(
        "q and d_out (B, H, Nq, D), k (B, Hkv, Nkv, D), float32 or float16, contiguous, H = Hkv * num_q_per_kv; lse "
        "(B, H, Nq), float32, natural log, -inf for a row that saw no key. Causal (bottom-right) when causal is 1. d_v "
        "like k: the sum over all query heads that read the key-value head. P is made again as exp(score - lse). Grid "
        "(ceil(Nkv / BLOCK_N), Hkv, B)."
    ),
    size_lines=14,
    minutes=30,
    solution="course_lib/triton_kernels/flash_attention_2_exercises.py#d_v_kernel",
    cases=(gradients.backward_case("one query, one key", 1, 1), *gradients.COMMON),
    make_inputs=gradients.backward_inputs,
    make_run=_run,
    oracle=gradients.oracle("d_v"),
    baseline=gradients.baseline("d_v"),
    rules={"d_v": "backward"},
    largest_score=magnitude.of_attention(),
    terms=gradients.terms("d_v"),
    hints=(
        "d_v of a key is a sum over all queries that saw it, of all heads that share it. So who walks over what now?",
        "Two loops, over the query heads kv_head * num_q_per_kv and following, and over tiles of queries. In each: the "
        "scores again, P = exp(score - lse), hidden places 0, and P^T d_out added to a float32 tile.",
        "probs = tl.where(seen, tl.exp(scores - lse[:, None]), 0.0); d_v += tl.dot(tl.trans(probs).to(d_out.dtype), "
        'd_out, input_precision="ieee"), with seen = keys[None, :] <= rows[:, None] + offset.',
    ),
    explanation=(
        "The walk is the forward one turned by 90 degrees: a program owns keys and lets the queries come by, so each "
        "number of d_v has one owner and nobody needs an atomic. No maximum and no sum are searched: lse already "
        "holds both. The reference multiplies k by q^T, not q by k^T, and gets P^T without turning anything round."
    ),
    probes=(
        pairs.pairs_probe("pairs", d_v=0),
        pairs.heads_probe("heads", "d_v", 0, ("d_out",)),
        pairs.one_probe("lse", {"d_v": 0}, lse=pairs.LN_4),
        pairs.one_probe("score", {"d_v": 0}, score=1.0),
        Probe(
            "whole tiles",
            gradients.whole_case(),
            lambda _inputs, outputs: bool(outputs["d_v"].isfinite().all()),
        ),
    ),
    diagnose=_diagnose,
    bound_bytes=lambda case: (_bytes(case, 1), "q, k, d_out and lse read once, d_v written once"),
    usual_bytes=lambda case: _bytes(case, -(-case.sizes["seq_len_kv"] // BLOCK_N)),
    question="Which tile is read again although the program holds it already?",
    tile=lambda case: (BLOCK_N, gradients.HEAD_DIM),
)

"""Whole attention in one CUDA kernel: naive, and with grouped query heads.

May import: spec, magnitude, protocol, probes, reference, the shared cases and readings of attention.
"""

import math

import torch

from ...reference import attention as reference
from ..exercise import magnitude, probes
from ..exercise.spec import Case, Exercise, Probe
from ..processes.protocol import Ref, Run
from ..report.verdict import Diagnosis
from ..subjects.attention.cases import qkv
from ..subjects.attention.diagnostics import diagnose_attention
from ..subjects.attention.heads import MASKS, head_map, say_heads, say_rows, visible
from ..subjects.softmax.cases import ALL_SCHEDULES

BLOCK = 64  # threads of a block while these are graded
_KEYS = ("batch_size", "num_heads", "num_kv_heads", "seq_len_q", "seq_len_kv", "head_dim")


def _case(name, sizes, values="normal", schedules=(), **options):
    return Case(name, dict(zip(_KEYS, sizes, strict=True)), values, options=options, schedules=schedules)


def _inputs(case, gen):
    """{"q", "k", "v"}, float32; v = "head_numbers": every number of a head is its number in the batch, from 1."""
    batch_size, num_heads, num_kv_heads, seq_len_q, seq_len_kv, head_dim = (case.sizes[key] for key in _KEYS)
    kv_shape = (batch_size, num_kv_heads, seq_len_kv, head_dim)
    numbered = case.options.get("v") == "head_numbers"
    plain = Case(case.name, case.sizes, case.values, options={**case.options, "v": "ones"}) if numbered else case
    tensors = qkv(plain, gen, (batch_size, num_heads, seq_len_q, head_dim), kv_shape)
    if numbered:
        numbers = torch.arange(1.0, batch_size * num_kv_heads + 1).reshape(batch_size, num_kv_heads, 1, 1)
        tensors["v"] = tensors["v"] * numbers
    return tensors


def _scale(case):
    return case.sizes["head_dim"] ** -0.5


def _launch(case, tensors, outputs, sizes, *more, shared_bytes=0):
    """One block a query row: grid (seq_len_q, num_heads, batch_size)."""
    batch_size, num_heads, seq_len_q, _ = tensors["q"].shape
    arguments = (*map(Ref, ("q", "k", "v")), *map(Ref, outputs), *(case.sizes[key] for key in sizes), _scale(case))
    return Run(
        case.name, tensors, {name: (shape, "float32") for name, shape in outputs.items()}, (*arguments, *more),
        grid=(seq_len_q, num_heads, batch_size), block=(BLOCK, 1, 1), shared_bytes=shared_bytes,
        constants={"BLOCK": BLOCK},
    )  # fmt: skip


def _naive_run(case, tensors):
    q = tensors["q"]
    outputs = {"probs": (*q.shape[:3], case.sizes["seq_len_kv"]), "out": tuple(q.shape)}
    return _launch(case, tensors, outputs, ("num_heads", "seq_len_q", "seq_len_kv", "head_dim"))


def _naive(q, k, v):
    probs = reference.rounded_softmax(reference.rounded_scores(q, k))
    return {"probs": probs, "out": probs @ v}


def _naive_bound(case):
    """Fewest bytes: q, k, v once, the weights and the result once."""
    sizes = case.sizes
    heads = sizes["batch_size"] * sizes["num_heads"]
    rows, keys = heads * sizes["seq_len_q"], heads * sizes["seq_len_kv"]
    count = (2 * rows + 2 * keys) * sizes["head_dim"] + rows * sizes["seq_len_kv"]
    return 4 * count, f"q, k, v read once, weights and result written once: {count:,} numbers of 4 bytes"


def _probe_sizes(seq_len_kv, head_dim):
    return dict(zip(_KEYS, (1, 1, 1, 2, seq_len_kv, head_dim), strict=True))


def _diagnose_naive(evidence):
    """Keys, weights and scale by the probes of one head; then which head was read."""
    return diagnose_attention(evidence) or say_heads(evidence.readings.get("head map"))


NAIVE = Exercise(
    id="05.1", title="Naive attention in CUDA", language="cuda", entry="naive_attention_kernel",
    signature=(
        'extern "C" __global__ void naive_attention_kernel(const float* q, const float* k, const float* v,\n'
        "    float* probs, float* out, int num_heads, int seq_len_q, int seq_len_kv, int head_dim, float softmax_scale)"
    ),
    contract=(
        "q (batch_size, num_heads, seq_len_q, head_dim), k and v (batch_size, num_heads, seq_len_kv, head_dim), float, "
        "contiguous, any sizes >= 1. probs (batch_size, num_heads, seq_len_q, seq_len_kv): the softmax of "
        "q k^T * softmax_scale along the keys; out like q: probs v. No mask. One block of BLOCK threads a query row, "
        "grid (seq_len_q, num_heads, batch_size)."
    ),
    size_lines=25, minutes=30, solution="kernels_cu/attention/03_row_in_block.cu",
    cases=(
        _case("one of everything", (1, 1, 1, 1, 1, 1), schedules=ALL_SCHEDULES),
        _case("one head", (1, 1, 1, 5, 9, 8), schedules=ALL_SCHEDULES),
        _case("ragged", (1, 2, 2, 7, 37, 20), schedules=ALL_SCHEDULES),
        _case("one key more than threads", (1, 1, 1, 3, BLOCK + 1, 16), schedules=("forward", "reverse")),
        _case("more columns than threads", (1, 1, 1, 4, 33, 113), schedules=("forward",)),
        _case("more queries than keys", (1, 2, 2, 13, 5, 24), schedules=("forward",)),
        _case("batch entries and heads", (2, 3, 3, 4, 20, 8), schedules=("forward", "random")),
        _case("one query, many keys", (2, 2, 2, 1, 200, 16)),
        _case("rising scores", (1, 1, 1, 5, 131, 32), "rising"),
        _case("scores near -100", (1, 2, 2, 5, 45, 32), "minus_100"),
        _case("scores near +100", (1, 2, 2, 5, 45, 32), "plus_100"),
        _case("one score of 120 a row", (1, 2, 2, 5, 50, 32), "spikes"),
    ),
    make_inputs=_inputs, make_run=_naive_run,
    oracle=lambda case, tensors: _naive(*(tensor.double() for tensor in tensors.values())),
    baseline=lambda case, tensors: _naive(*tensors.values()), rules={"probs": "weights", "out": "weights"},
    largest_score=magnitude.of_attention(),
    hints=(
        "Four steps with a barrier between them: scores and the maximum, exponentials and their sum, division, "
        "weighted sum. In the first three a thread takes keys, in the last one columns.",
        "Number the heads of all batch entries: batch * num_heads + head. A head of k is seq_len_kv * head_dim numbers "
        "long, a row of q head_dim, a row of probs seq_len_kv.",
        "for (int d = threadIdx.x; d < head_dim; d += BLOCK) { float acc = 0.0f; for (int key = 0; key < seq_len_kv; "
        "++key) acc += probs_row[key] * v_head[(size_t)key * head_dim + d]; out_row[d] = acc; }",
    ),
    explanation=(
        "The end of a kernel is a barrier for all blocks, but a row of attention only needs one for its own block. So "
        "the five launches become one, with nothing lost.\n\n"
        "The weights still go through global memory, because the kernel was asked for them. Nobody else wants them. "
        "And the reads of k waste most of every sector: neighbouring threads take neighbouring keys, which lie "
        "head_dim numbers apart."
    ),
    probes=(
        probes.key_counter(_probe_sizes(53, 64)), probes.unity(_probe_sizes(32, 64)), probes.ramp(_probe_sizes(32, 64)),
        head_map(3, 3),
    ),
    diagnose=_diagnose_naive, bound_bytes=_naive_bound, tile=lambda case: (1, BLOCK),
)  # fmt: skip


def _grouped_run(case, tensors):
    outputs = {"out": tuple(tensors["q"].shape), "lse": tuple(tensors["q"].shape[:3])}
    causal = int(case.options.get("causal", 0))
    return _launch(case, tensors, outputs, _KEYS[1:], causal, shared_bytes=4 * case.sizes["seq_len_kv"])


def _grouped(function, case, tensors):
    causal = bool(case.options.get("causal", 0))
    out, lse = function(tensors["q"], tensors["k"], tensors["v"], causal=causal)
    return {"out": out, "lse": lse}


def _rows_probe(name, seq_len_q, seq_len_kv, causal):
    """q = 0 and v = 1, 2, 3, …: the mean of the first n keys is (n + 1) / 2."""
    case = _case(name, (1, 1, 1, seq_len_q, seq_len_kv, 4), "zeros", v="key_numbers", causal=causal)
    return Probe(name, case, lambda _inputs, outputs: (2.0 * outputs["out"].double()[0, 0, :, 0] - 1.0).tolist())


def _diagnose_grouped(evidence):
    """Heads first, then rows and keys; the mask may only be judged where it is right for some row."""
    found = say_heads(evidence.readings.get("head map"))
    for name, seq_len_q, seq_len_kv, causal in MASKS:
        seen = evidence.readings.get(name)
        found = found or (say_rows(name, seen) if seen else None)
        if found is None and seen:
            found = _say_empty(seen, seq_len_q, seq_len_kv, causal)
    return found


def _say_empty(seen, seq_len_q, seq_len_kv, causal):
    """out = 0 reads as -1 here."""
    for q_row, value in enumerate(seen):
        if visible(q_row, seq_len_q, seq_len_kv, causal) or math.isclose(value, -1.0):
            continue
        return Diagnosis(
            "masked_row",
            f"With seq_len_q = {seq_len_q} and seq_len_kv = {seq_len_kv}, row {q_row} sees no key: out must be 0 and "
            f"is {(value + 1) / 2:.4g}.",
        )
    return None


def _grouped_bound(case):
    """Fewest bytes: q, k, v once, out and lse once."""
    sizes = case.sizes
    rows = sizes["batch_size"] * sizes["num_heads"] * sizes["seq_len_q"]
    keys = sizes["batch_size"] * sizes["num_kv_heads"] * sizes["seq_len_kv"]
    count = 2 * (rows + keys) * sizes["head_dim"] + rows
    return 4 * count, f"q, k, v read once, result and lse written once: {count:,} numbers of 4 bytes"


GROUPED = Exercise(
    id="05.4", title="Grouped query heads", language="cuda", entry="grouped_attention_kernel",
    signature=(
        'extern "C" __global__ void grouped_attention_kernel(const float* q, const float* k, const float* v,\n'
        "    float* out, float* lse, int num_heads, int num_kv_heads, int seq_len_q, int seq_len_kv, int head_dim,\n"
        "    float softmax_scale, int causal)"
    ),
    contract=(
        "q, out (batch_size, num_heads, seq_len_q, head_dim), k and v (batch_size, num_kv_heads, seq_len_kv, "
        "head_dim), float; num_kv_heads divides num_heads, and neighbouring query heads share a key-value head. lse "
        "(batch_size, num_heads, seq_len_q), natural log. causal (0 or 1) is bottom-right aligned. A row that sees no "
        "key: out 0, lse -inf. Set k_head, v_head and num_visible; the rest of the kernel is given."
    ),
    size_lines=6, minutes=10, solution="kernels_cu/attention/05_grouped_query.cu",
    cases=(
        _case("one of everything", (1, 1, 1, 1, 1, 1), schedules=ALL_SCHEDULES),
        _case("4 heads on 2", (1, 4, 2, 5, 9, 8), schedules=ALL_SCHEDULES),
        _case("6 heads on 3, two batch entries", (2, 6, 3, 4, 7, 8), schedules=("forward", "random")),
        _case("8 heads on 1", (2, 8, 1, 3, 20, 4), schedules=("forward",)),
        _case("as many as query heads", (2, 3, 3, 4, 20, 8), schedules=("forward",)),
        _case("causal, square", (1, 2, 1, 9, 9, 8), causal=1, schedules=ALL_SCHEDULES),
        _case("causal, 2 rows and 5 keys", (1, 2, 2, 2, 5, 8), causal=1, schedules=("forward",)),
        _case("causal, more queries than keys", (2, 4, 2, 12, 5, 8), causal=1, schedules=("forward", "reverse")),
        _case("causal, ragged", (2, 4, 2, 7, 70, 20), causal=1),
        _case("causal, scores near -100", (1, 4, 2, 7, 53, 32), "minus_100", causal=1),
        _case("rising scores", (1, 4, 2, 5, 131, 32), "rising"),
    ),
    make_inputs=_inputs, make_run=_grouped_run,
    oracle=lambda case, tensors: _grouped(reference.attention_lse, case, tensors),
    baseline=lambda case, tensors: _grouped(reference.rounded_attention_lse, case, tensors),
    rules={"out": "weights", "lse": "lse"},
    largest_score=magnitude.of_attention(),
    hints=(
        "How many query heads share one key-value head? Which of them are neighbours?",
        "With 6 query heads on 3: 0 0 1 1 2 2. In a batch entry there are num_kv_heads heads of k, each "
        "seq_len_kv * head_dim numbers long.",
        "const int kv_head = head / (num_heads / num_kv_heads); k_head = k + ((size_t)batch * num_kv_heads + kv_head) "
        "* seq_len_kv * head_dim; a causal row sees q_row + seq_len_kv - seq_len_q + 1 keys, or none.",
    ),
    explanation=(
        "A change of two pointers, and yet the reason for it is traffic: while a model writes its answer word by word, "
        "each step reads all keys and values once, and with 8 query heads to a key-value head that is an eighth of the "
        "bytes. Division, not remainder: k and v are stored for groups of neighbouring heads.\n\n"
        "This kernel also never wrote the scores to global memory. A row of them lives in shared memory, so its "
        "length is limited; chapter 06 takes that limit away."
    ),
    probes=(head_map(6, 3), *(_rows_probe(*mask) for mask in MASKS)),
    diagnose=_diagnose_grouped, bound_bytes=_grouped_bound, tile=lambda case: (1, 4),
)  # fmt: skip

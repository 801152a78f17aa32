"""The forward pass of chapter 07 in Triton.

May import: spec, magnitude, flash_cases, flash2_cases, flash_kernels, flash2_readings.
"""

from ..exercise import magnitude
from ..exercise.spec import Exercise
from ..subjects.flash_attention import cases as cases
from ..subjects.flash_attention import diagnostics as readings
from ..subjects.flash_attention import masks as masks
from ..subjects.flash_attention_2 import cases as flash2_cases
from ..subjects.flash_attention_2.diagnostics import diagnose_forward, whole_probe
from . import flash_kernels

HEAD_DIM = flash_kernels.HEAD_DIM
SCHEDULES = ("forward", "reverse")
_INPUTS = (
    "q (B, H, Nq, D), k and v (B, Hkv, Nkv, D), float32 or float16, contiguous, H = Hkv * num_q_per_kv; any Nq, Nkv "
    ">= 1. out like q; lse (B, H, Nq), float32, natural log. "
)


def _sizes(num_q, num_kv):
    return dict(zip(cases.SIZES, (1, 1, 1, num_q, num_kv, HEAD_DIM), strict=True))


def _case(name, num_q, num_kv, values="normal", schedules=("forward",), heads=(1, 1, 1), **options):
    return cases.heads_case(name, (*heads, num_q, num_kv, HEAD_DIM), values, schedules, **options)


def _half(name, num_q, num_kv, values="normal", heads=(1, 1, 1), **options):
    return flash2_cases.half_case(name, (*heads, num_q, num_kv, HEAD_DIM), values, ("forward",), **options)


FORWARD_TRITON = Exercise(
    id="07.2",
    title="FlashAttention-2 in Triton",
    language="triton",
    entry="flash_attention_2_kernel",
    signature=(
        "flash_attention_2_kernel(q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, num_q_per_kv, seq_len_q, seq_len_kv,\n"
        "                         softmax_scale, HEAD_DIM, BLOCK_D, BLOCK_M, BLOCK_N)"
    ),
    contract=_INPUTS
    + "Every query sees every key. Sums in float32. Grid (ceil(Nq / BLOCK_M), H, B). Each number of q is read once.",
    size_lines=25,
    minutes=40,
    solution="course_lib/triton_kernels/flash_attention_2_exercises.py#flash_attention_2_kernel",
    cases=(
        _case("one query, one key", 1, 1, schedules=SCHEDULES),
        _case("exactly one tile", cases.BLOCK_M, cases.BLOCK_N),
        _case("one below a tile", cases.BLOCK_M - 1, cases.BLOCK_N - 1),
        _case("one above a tile", cases.BLOCK_M + 1, cases.BLOCK_N + 1, schedules=SCHEDULES),
        _case("ragged, grouped heads", 37, 53, heads=(1, 4, 2)),
        _case("more queries than keys", 70, 20),
        _case("one query", 1, 45),
        _case("rising scores", 9, 53, "rising"),
        _case("falling scores", 9, 53, "falling"),
        _case("scores near -100", 5, 45, "minus_100"),
        _case("scores near +100", 5, 45, "plus_100"),
        _case("one score of 120", 9, 50, "spikes"),
        _case("several batches", 35, 21, heads=(2, 2, 1)),
        _half("half, ragged", 37, 53),
        _half("half, scores near +100", 5, 45, "plus_100"),
        _half("half, small values after large ones", 3, 1040, "zeros", v_fades=True),
    ),
    make_inputs=cases.heads_inputs,
    make_run=lambda case, tensors: flash2_cases.forward_run(case, tensors, constants={"BLOCK_D": 32}),
    oracle=cases.oracle(),
    baseline=cases.baseline(),
    rules={"out": "weights", "lse": "lse"},
    largest_score=magnitude.of_attention(),
    hints=(
        "Your 07.1 without its outer loop: the grid is the outer loop. What is left are addresses, and what is not "
        "there.",
        "q_at = (q_head * seq_len_q + rows[:, None]) * HEAD_DIM + d[None, :]. Load with a mask and other=0.0; scores "
        "of keys beyond the end become -inf with tl.where. m, l and acc in tl.float32.",
        'tl.dot(q, tl.trans(k), input_precision="ieee") * softmax_scale; then m_new, alpha, l as in 07.1; acc = acc * '
        'alpha[:, None] + tl.dot(probs_unnorm.to(v.dtype), v, input_precision="ieee"). Divide once, behind the loop.',
    ),
    explanation=(
        "The field's folklore is right: a whole FlashAttention-2 forward in Triton is under 50 lines. Addresses and "
        "masks are half of it. Which thread holds what, shared memory, the overlap of loads and products: the "
        "compiler decides, from BLOCK_M, BLOCK_N, num_warps and num_stages."
    ),
    probes=(
        *readings.tile_probes(_sizes),
        masks.head_probe(_case("heads", 1, 3, "zeros", heads=(2, 4, 2), v_of_head=True)),
        whole_probe(cases.heads_case("whole tiles", (1, 1, 1, cases.BLOCK_M, cases.BLOCK_N, 32)), "out"),
    ),
    diagnose=diagnose_forward,
    bound_bytes=flash2_cases.bound,
    usual_bytes=flash2_cases.usual_bytes,
    question="Which tile is read again although the program holds it already?",
    tile=lambda case: (cases.BLOCK_M, HEAD_DIM),
)

"""Decode attention over pages in CUDA, one warp for a query head.

May import: spec, protocol, paged_cases, paged_readings.
"""

from ..exercise.spec import Exercise
from ..processes.protocol import Run
from ..subjects.paged import cases as cases
from ..subjects.paged import diagnostics as readings

ALL_SCHEDULES = ("forward", "reverse", "random", "resident")


def _run(case, tensors):
    page_size, max_pages = case.sizes["page_size"], tensors["block_table"].shape[1]
    arguments = cases.arguments(case, tensors, page_size, max_pages)
    grid = cases.grid(case, tensors)
    return Run(case.name, tensors, cases.outputs(tensors), arguments, grid=grid, block=(32, 1, 1))


V1 = Exercise(
    id="10.3",
    title="Paged decode, one warp",
    language="cuda",
    entry="paged_decode_kernel",
    signature=(
        'extern "C" __global__ void\n'
        "paged_decode_kernel(const float* q, const float* k_pages, const float* v_pages, const int* block_table,\n"
        "                    const int* seq_lens, float* out, float* lse, int num_q_per_kv, int page_size,\n"
        "                    int max_pages, long long stride_page, long long stride_slot, long long stride_kv_head,\n"
        "                    float softmax_scale)"
    ),
    contract=(
        "q, out (B, H, 32) float, contiguous. In both pools page p, slot s, head h begins at p * stride_page + s * "
        "stride_slot + h * stride_kv_head. block_table (B, max_pages), seq_lens (B,) int. lse (B, H) float, natural "
        "log; a sequence without tokens: out 0, lse -inf. Query head h reads head h / num_q_per_kv. Slots and table "
        "entries behind a sequence may hold anything and are not touched. Grid (H, B), block 32."
    ),
    size_lines=15,
    minutes=35,
    solution="kernels_cu/paged_exercises/03_warp_walk.cu",
    cases=cases.usual(ALL_SCHEDULES, many=(150, 75, 0, 33), many_heads=(4, 2)),
    make_inputs=cases.inputs,
    make_run=_run,
    oracle=cases.oracle,
    baseline=cases.baseline,
    rules={"out": "weights", "lse": "lse"},
    largest_score=cases.largest_score,
    hints=(
        "Write it first as if a sequence lay in one piece: a loop over keys, m, l and acc. What changes when key 5 "
        "lies in page 2 of the pool?",
        "page = block_table[batch * max_pages + key / page_size]; the row begins at page * stride_page + key % "
        "page_size * stride_slot + kv_head * stride_kv_head. warp_sum gives every lane the whole score.",
        "score = warp_sum(q_reg * k_pages[at]) * softmax_scale; m_new = fmaxf(m, score); alpha = exp_shifted(m, "
        "m_new); weight = exp_shifted(score, m_new); l = l * alpha + weight; acc = acc * alpha + weight * v_pages[at].",
    ),
    explanation=(
        "FlashAttention inside, paging outside: the softmax does not know of pages, the address does not know of the "
        "softmax. A loop that ends at seq_len never looks at a slot or a table entry behind it, so nothing there can "
        "hurt. It is slow: 32 lanes wait for each key before they ask for the next one. The lecture's v1 has several "
        "keys under way at a time."
    ),
    probes=readings.probes(),
    diagnose=readings.diagnose,
    bound_bytes=cases.bound,
    tile=lambda case: (1, cases.HEAD_DIM),
)

"""The kernels of chapter 03: one warp a row, one program a row, log-sum-exp, masked rows.

May import: spec, magnitude, probes, the shared cases and readings of softmax.
"""

from ..exercise import magnitude, probes
from ..exercise.spec import Exercise
from ..subjects.softmax import cases as cases
from ..subjects.softmax.diagnostics import diagnose_softmax
from ..subjects.softmax.lse import diagnose_lse, lse_probes
from .mask_readings import diagnose_masked, mask_probes

BLOCK_N = 32  # tile of the Triton exercise while it is graded
BLOCK = 64  # threads of a block of the log-sum-exp exercise while it is graded


def softmax_bound(case):
    """Fewest bytes: every score read once, every weight written once."""
    count = case.sizes["num_rows"] * case.sizes["num_cols"]
    return 8 * count, f"{count:,} scores read once and {count:,} weights written once, 4 bytes each"


def two_reads(case):
    """Bytes of an online softmax: the row is read twice and written once."""
    return 12 * case.sizes["num_rows"] * case.sizes["num_cols"]


ONLINE_TILE = Exercise(
    id="03.4",
    title="Online softmax in Triton, any width",
    language="triton",
    entry="online_softmax_tile_kernel",
    signature="online_softmax_tile_kernel(x_ptr, out_ptr, num_rows, num_cols, BLOCK_N: tl.constexpr)",
    contract=(
        "x (num_rows, num_cols) float, contiguous; out like x: the softmax of every row. Any num_rows, num_cols >= 1. "
        "A score of -inf has weight 0; a row of -inf only gives 0. One program a row, tiles of BLOCK_N columns "
        "(a power of two), one state (m, l) for the row."
    ),
    size_lines=15,
    minutes=15,
    solution="course_lib/triton_kernels/softmax.py#online_softmax_tile_kernel",
    cases=cases.row_cases("tile", BLOCK_N, schedules=("forward", "reverse", "random"), rows=3, many=7),
    make_inputs=cases.score_rows,
    make_run=lambda case, tensors: cases.rows_run(case, tensors, constants={"BLOCK_N": BLOCK_N}),
    oracle=cases.softmax_oracle,
    baseline=cases.softmax_baseline,
    rules={"out": "weights"},
    largest_score=magnitude.of_inputs("x"),
    hints=(
        "A loop over tiles that keeps m and l, then a second loop that writes. Every load and store needs a mask.",
        "What stands beyond the end of the row must change neither m nor l: load it as -inf. And m - m_new must not "
        "become -inf minus -inf while nothing has been seen.",
        "m_new = tl.maximum(m, tl.max(scores, axis=0)); shift = tl.where(m_new == -float('inf'), 0.0, m_new); "
        "l = l * tl.exp(m - shift) + tl.sum(tl.exp(scores - shift), axis=0)",
    ),
    explanation=(
        "One rescale a tile instead of one a number: the tile's own maximum is taken first, so that alpha is a single "
        "exponential for BLOCK_N columns. This is the form in which FlashAttention uses it, with an accumulator that "
        "is "
        "multiplied by the same alpha."
    ),
    probes=(
        probes.count({"num_rows": 4, "num_cols": 85}),
        probes.step("step between tiles", {"num_rows": 4, "num_cols": 64}, 32),
        probes.step("step within a tile", {"num_rows": 4, "num_cols": 32}, 16),
    ),
    diagnose=lambda evidence: diagnose_softmax(evidence, stride=BLOCK_N, unit="tile"),
    bound_bytes=softmax_bound,
    usual_bytes=two_reads,
    tile=lambda case: (1, BLOCK_N),
)


def lse_bound(case):
    """Fewest bytes: every score read once (2 bytes), one float a row written."""
    num_rows, num_cols = case.sizes["num_rows"], case.sizes["num_cols"]
    count = num_rows * num_cols
    return 2 * count + 4 * num_rows, f"{count:,} scores of 2 bytes read once, {num_rows:,} results of 4 bytes written"


LOG_SUM_EXP = Exercise(
    id="03.5",
    title="Log-sum-exp in CUDA, half in, float out",
    language="cuda",
    entry="log_sum_exp_kernel",
    signature='extern "C" __global__ void log_sum_exp_kernel(const __half* x, float* lse, int num_rows, int num_cols)',
    contract=(
        "x (num_rows, num_cols) half, contiguous; lse (num_rows,) float: the natural log of sum(exp(x)) of every row, "
        "computed in float. Any num_rows, num_cols >= 1. A row of -inf only gives -inf. One block of BLOCK threads a "
        "row."
    ),
    size_lines=20,
    minutes=20,
    solution="kernels_cu/softmax/04_log_sum_exp.cu",
    cases=cases.row_cases("block", BLOCK, dtype="float16"),
    make_inputs=cases.score_rows,
    make_run=lambda case, tensors: cases.rows_run(
        case, tensors, output="lse", threads=BLOCK, constants={"BLOCK": BLOCK}
    ),
    oracle=cases.lse_oracle,
    baseline=cases.lse_baseline,
    rules={"lse": "lse"},
    largest_score=magnitude.of_inputs("x"),
    hints=(
        "Each thread keeps (m, l) of its columns, in float. Then two reductions over the block: first the maximum, "
        "then "
        "the sum.",
        "Before the second reduction every thread brings its l to the block's maximum. Both reductions use the same "
        "shared array: who may still be reading it when the second one starts?",
        "reduce_smem[threadIdx.x] = l * exp_shifted(m, m_row); the tree; then lse[row] = m_row + logf(reduce_smem[0]), "
        "with a __syncthreads() between reading m_row and this write.",
    ),
    explanation=(
        "m and l always travel as a pair, and lse = m + log(l) is the pair as one number: softmax is exp(x - lse). "
        "Attention "
        "kernels write it in the forward pass, and the backward pass and split-KV decoding start from it."
    ),
    probes=lse_probes(BLOCK),
    diagnose=lambda evidence: diagnose_lse(evidence, stride=BLOCK),
    bound_bytes=lse_bound,
    usual_bytes=lambda case: lse_bound(case)[0],
    tile=lambda case: (1, 1),
)


def masked_bound(case):
    """Fewest bytes: visible scores once, every weight and every log-sum-exp written once."""
    sizes, lens = case.sizes, case.options["seq_lens_kv"]
    num_q, num_kv = sizes["seq_len_q"], sizes["seq_len_kv"]
    seen = sum(min(max(q_row + length - num_q + 1, 0), num_kv) for length in lens for q_row in range(num_q))
    written = len(lens) * num_q * (num_kv + 1)
    why = f"{seen:,} visible scores read once, {written:,} numbers written, 4 bytes each"
    return 4 * (seen + written + len(lens)), why


MASKED = Exercise(
    id="03.6",
    title="Masked rows: causal and length mask",
    language="cuda",
    entry="masked_softmax_kernel",
    signature=(
        'extern "C" __global__ void masked_softmax_kernel(const float* scores, const int* seq_lens_kv, float* out,\n'
        "                                                 float* lse, int seq_len_q, int seq_len_kv)"
    ),
    contract=(
        "scores (batch_size, seq_len_q, seq_len_kv) float, contiguous; seq_lens_kv (batch_size,) int. Query q_row of "
        "batch "
        "entry b sees the keys k <= q_row + seq_lens_kv[b] - seq_len_q; the others may hold anything, NaN too. out "
        "like "
        "scores, 0 where masked; lse (batch_size, seq_len_q) float, natural log. A row that sees nothing: out 0, lse "
        "-inf."
    ),
    size_lines=20,
    minutes=20,
    solution="kernels_cu/softmax/05_masked.cu",
    cases=(
        cases.masked_case("one element", 1, 1, 1, (1,), schedules=cases.ALL_SCHEDULES),
        cases.masked_case("square", 1, 9, 9, (9,), schedules=("forward", "reverse")),
        cases.masked_case("more keys than queries", 2, 5, 37, (37, 20), schedules=cases.ALL_SCHEDULES),
        cases.masked_case("rows that see nothing", 2, 12, 33, (7, 0), schedules=("forward", "random")),
        cases.masked_case("more queries than keys", 1, 50, 20, (20,)),
        cases.masked_case("scores near -100", 2, 7, 70, (70, 33), "minus_100", schedules=("forward",)),
        cases.masked_case("scores near -3000", 2, 7, 70, (70, 33), "minus_3000", schedules=("forward",)),
        cases.masked_case("scores near +100", 2, 7, 70, (70, 33), "plus_100", schedules=("forward",)),
        cases.masked_case("rising scores", 2, 5, 77, (77, 41), "rising", schedules=("forward",)),
        cases.masked_case("visible scores of -inf", 2, 6, 70, (70, 40), "masked", schedules=("forward",)),
        cases.masked_case("rows that start with -inf", 2, 6, 100, (100, 90), "leading_masked", schedules=("forward",)),
        cases.masked_case("several lengths", 5, 11, 65, (65, 64, 33, 32, 1)),
    ),
    make_inputs=cases.masked_scores,
    make_run=cases.masked_run,
    oracle=cases.masked_oracle,
    baseline=cases.masked_baseline,
    rules={"out": "weights", "lse": "lse"},
    largest_score=cases.masked_largest_score,
    hints=(
        "How many keys does a row see? One formula with q_row, seq_lens_kv[batch] and seq_len_q; it may give 0 or "
        "less.",
        "Loop only over the visible keys: then no mask value is needed. Writing is another loop, over all seq_len_kv "
        "columns, with 0 beyond the visible ones.",
        "num_visible = q_row + seq_lens_kv[batch] - seq_len_q + 1; weights exp_shifted(score, m) / l for col < "
        "num_visible, "
        "else 0; lse = l > 0 ? m + logf(l) : NEG_INF",
    ),
    explanation=(
        "A mask that is a number of visible keys costs nothing: the loop ends earlier. The row that sees nothing needs "
        "a "
        "decision, and ours is out = 0 and lse = -inf, the neutral element of merging: then a split of the keys in "
        "which a "
        "row sees nothing drops out by itself when partial results are combined."
    ),
    probes=mask_probes(),
    diagnose=diagnose_masked,
    bound_bytes=masked_bound,
    tile=lambda case: (1, cases.WARP_SIZE),
)

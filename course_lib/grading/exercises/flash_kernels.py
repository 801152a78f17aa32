"""The kernels of chapter 06: FlashAttention-1 in CUDA, and its causal form in Triton.

May import: spec, magnitude, flash_cases, flash_masks, flash_readings.
"""

from ..exercise import magnitude
from ..exercise.spec import Exercise
from ..subjects.flash_attention import cases as cases
from ..subjects.flash_attention import diagnostics as readings
from ..subjects.flash_attention import masks as masks

HEAD_DIM = 20  # neither a power of two nor a tile
SCHEDULES = ("forward", "reverse", "random", "resident")
INPUT_SIZES = (
    "q (B, H, Nq, D), k and v (B, Hkv, Nkv, D), float32, contiguous, H = Hkv * num_q_per_kv; any Nq, Nkv >= 1. "
)
ROWS = "m and l (B, H, Nq) are yours, to keep the state between tiles of K and V; nobody reads them afterwards. "


def _sizes(num_q, num_kv):
    return dict(zip(cases.SIZES, (1, 1, 1, num_q, num_kv, HEAD_DIM), strict=True))


def _case(name, num_q, num_kv, values="normal", schedules=("forward",), heads=(1, 1, 1), **options):
    return cases.heads_case(name, (*heads, num_q, num_kv, HEAD_DIM), values, schedules, **options)


COMMON = (
    _case("one query, one key", 1, 1, schedules=SCHEDULES),
    _case("exactly one tile", cases.BLOCK_M, cases.BLOCK_N),
    _case("one below a tile", cases.BLOCK_M - 1, cases.BLOCK_N - 1),
    _case("one above a tile", cases.BLOCK_M + 1, cases.BLOCK_N + 1, schedules=SCHEDULES),
    _case("ragged, grouped heads", 37, 53, schedules=(), heads=(2, 4, 2)),
    _case("more queries than keys", 50, 20),
    _case("one query", 1, 45),
    _case("rising scores", 9, 53, "rising", ("reverse",)),
    _case("falling scores", 9, 53, "falling"),
    _case("scores near -100", 5, 45, "minus_100"),
    _case("scores near +100", 5, 45, "plus_100"),
    _case("one score of 120", 9, 50, "spikes"),
    _case("several batches", 35, 21, schedules=("random",), heads=(2, 3, 1)),
)
HEADS = masks.head_probe(_case("heads", 1, 3, "zeros", heads=(2, 4, 2), v_of_head=True))


def _in_tiles(case):
    """(floats read, floats written) by FlashAttention-1 without a mask."""
    batch_size, num_heads, _, num_q, num_kv, head_dim = case.sizes.values()
    tiles = -(-num_kv // cases.BLOCK_N)
    read = 2 * num_kv * head_dim + (2 * tiles - 1) * num_q * head_dim + 2 * tiles * num_q
    written = tiles * num_q * (head_dim + 2) + num_q
    return batch_size * num_heads * read, batch_size * num_heads * written


def _bound(case):
    """Fewest bytes of any exact attention: q, k, v once, out and lse once."""
    batch_size, num_heads, num_kv_heads, num_q, num_kv, head_dim = case.sizes.values()
    numbers = batch_size * (num_heads * num_q * (2 * head_dim + 1) + 2 * num_kv_heads * num_kv * head_dim)
    return 4 * numbers, "q, k and v read once, out and lse written once, 4 bytes each"


FORWARD_CUDA = Exercise(
    id="06.3",
    title="FlashAttention-1 in CUDA, one thread a query row",
    language="cuda",
    entry="flash_attention_1_rows_kernel",
    signature=(
        'extern "C" __global__ void\n'
        "flash_attention_1_rows_kernel(const float* q, const float* k, const float* v, float* out, float* m,\n"
        "                              float* l, float* lse, int num_q_per_kv, int seq_len_q, int seq_len_kv,\n"
        "                              float softmax_scale)"
    ),
    contract=(
        INPUT_SIZES + "out like q; lse (B, H, Nq), natural log. " + ROWS + "Every query sees every key. "
        "Grid (H, B), block BLOCK_M; HEAD_DIM, BLOCK_M and BLOCK_N come as -D."
    ),
    size_lines=35,
    minutes=35,
    solution="kernels_cu/attention/07_flash_attention_1_rows.cu",
    cases=COMMON,
    make_inputs=cases.heads_inputs,
    make_run=lambda case, tensors: cases.heads_run(case, tensors, threads=cases.BLOCK_M),
    oracle=cases.oracle(),
    baseline=cases.baseline(),
    rules={"out": "weights", "lse": "lse"},
    largest_score=magnitude.of_attention(),
    hints=(
        "Outside a loop over tiles of K and V, with two barriers; inside, each thread walks over its rows q_row = "
        "threadIdx.x, threadIdx.x + BLOCK_M, … Only k_smem and v_smem are shared.",
        "For one row and one tile: BLOCK_N scores in an array of the thread, -inf for keys beyond the end; then m_new, "
        "the weights, l_new; then each of the HEAD_DIM numbers of out. The first tile has no old state to read.",
        "old_sum = l_old * exp_shifted(m_old, m_new); l_new = old_sum + sum of the weights; out = (old_sum * out + "
        "sum of weight * v) / l_new. In the end lse = m + logf(l).",
    ),
    explanation=(
        "No barrier guards m, l and out, because each row belongs to one thread from the first tile to the last. What "
        "the threads share is the tile of K and V: all 32 lanes read the same number of it at the same time, which "
        "shared memory serves in one wavefront.\n\n"
        "The price shows in the sectors: neighbouring lanes own neighbouring rows, HEAD_DIM numbers apart. The "
        "lecture's kernel gives a row to a warp and pays with shuffles instead."
    ),
    probes=(*readings.tile_probes(_sizes), HEADS),
    diagnose=readings.diagnose_tiles,
    bound_bytes=_bound,
    usual_bytes=lambda case: 4 * sum(_in_tiles(case)),
    question="Which tensor is read once more than it has to be?",
    tile=lambda case: (cases.BLOCK_M, HEAD_DIM),
)

TRITON_SCHEDULES = ("forward", "reverse")


def _causal(name, num_q, num_kv, values="normal", schedules=("forward",), **options):
    return _case(name, num_q, num_kv, values, schedules, **options)


CAUSAL_TRITON = Exercise(
    id="06.4",
    title="Causal: the mask in the tile, the tiles to skip",
    language="triton",
    entry="flash_attention_1_causal_kernel",
    signature=(
        "flash_attention_1_causal_kernel(q_ptr, k_ptr, v_ptr, out_ptr, m_ptr, l_ptr, lse_ptr, num_q_per_kv,\n"
        "                                seq_len_q, seq_len_kv, softmax_scale, HEAD_DIM, BLOCK_D, BLOCK_M, BLOCK_N)"
    ),
    contract=(
        INPUT_SIZES + "Query q_row sees the keys k <= q_row + Nkv - Nq (bottom-right). out like q; lse (B, H, Nq), "
        "natural log; a row that sees nothing: out 0, lse -inf. A tile of queries in which nobody sees a key of the "
        "K/V tile is skipped. " + ROWS
    ),
    size_lines=2,
    minutes=20,
    solution="solutions/answers/06_4.py#flash_attention_1_causal_kernel",
    cases=(
        _causal("one query, one key", 1, 1, schedules=TRITON_SCHEDULES),
        _causal("square", 33, 33, schedules=TRITON_SCHEDULES),
        _causal("more keys than queries", 37, 53, heads=(1, 2, 1)),
        _causal("more queries than keys", 70, 20),
        _causal("grouped heads, two batches", 9, 21, heads=(2, 4, 2)),
        _causal("two queries", 2, 45),
        _causal("scores near -100", 35, 45, "minus_100"),
        _causal("scores near +100", 35, 45, "plus_100"),
        _causal("rising scores", 40, 53, "rising"),
        _causal("one score of 120", 35, 50, "spikes"),
        _causal("long square", 96, 96),
    ),
    make_inputs=cases.heads_inputs,
    make_run=lambda case, tensors: cases.heads_run(case, tensors, constants={"BLOCK_D": 32}),
    oracle=cases.oracle(causal=True),
    baseline=cases.baseline(causal=True),
    rules={"out": "weights", "lse": "lse"},
    largest_score=magnitude.of_attention(causal=True),
    hints=(
        "Draw the grid of tiles for 4 queries and 6 keys, in tiles of 2 by 2. Which tiles hold no visible pair? Which "
        "hold some and not all?",
        "Key k is visible to q_row when k <= q_row + offset. The first key of the tile is kv_start, so the first row "
        "that sees anything of it is kv_start - offset, if that is not negative.",
        "seen: & (keys[None, :] <= rows[:, None] + offset). first_row: tl.maximum(kv_start - offset, 0), but 0 for "
        "the first K/V tile, since rows that see nothing must still be written.",
    ),
    explanation=(
        "Two different things: the skip decides how much work is done, the mask what comes out. Without the skip the "
        "result is the same, and about twice the bytes and FLOP are spent in a long square.\n\n"
        "The first K/V tile skips nothing. It is where (m, l, out) of every row begin, so a row that sees no key at "
        "all gets its 0 and its -inf there."
    ),
    probes=(
        *readings.tile_probes(_sizes),
        HEADS,
        masks.seen_probe(_case("seen", 40, 53, "zeros", v="key_numbers")),
    ),
    diagnose=readings.diagnose_tiles,
    bound_bytes=_bound,
    usual_bytes=lambda case: 4 * sum(_causal_floats(case)),
    question="Which tiles hold no visible pair?",
    tile=lambda case: (cases.BLOCK_M, HEAD_DIM),
)


def _causal_floats(case):
    """(floats read, floats written) with tiles above the diagonal skipped."""
    batch_size, num_heads, _, num_q, num_kv, head_dim = case.sizes.values()
    read, written = 2 * num_kv * head_dim + 2 * num_q, num_q
    for kv_start in range(0, num_kv, cases.BLOCK_N):
        first = max(kv_start - (num_kv - num_q), 0) // cases.BLOCK_M * cases.BLOCK_M if kv_start else 0
        rows = num_q - first
        read += rows * head_dim + (rows * (head_dim + 2) if kv_start else 0)
        written += rows * (head_dim + 2)
    return batch_size * num_heads * read, batch_size * num_heads * written

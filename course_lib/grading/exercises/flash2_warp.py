"""The forward pass of chapter 07 on tensor cores, one warp for 16 queries.

May import: spec, magnitude, flash_cases, flash2_cases, flash2_fragments, flash2_readings, flash_masks, flash_readings.
"""

from ..exercise import magnitude
from ..exercise.spec import Exercise
from ..subjects.flash_attention import cases as cases
from ..subjects.flash_attention import diagnostics as readings
from ..subjects.flash_attention import masks as masks
from ..subjects.flash_attention_2 import cases as flash2_cases
from ..subjects.flash_attention_2.diagnostics import diagnose_forward
from . import flash2_fragments
from .flash2_fragments import HEAD_DIM, TILE

SCHEDULES = ("forward", "reverse", "random", "resident")


def _sizes(num_q, num_kv):
    return dict(zip(cases.SIZES, (1, 1, 1, num_q, num_kv, HEAD_DIM), strict=True))


def _case(name, num_q, num_kv, values="normal", schedules=("forward",), heads=(1, 1, 1), **options):
    return flash2_cases.half_case(name, (*heads, num_q, num_kv, HEAD_DIM), values, schedules, **options)


def _inputs(case, gen):
    return flash2_fragments.made(case, cases.heads_inputs(case, gen))


def _run(case, tensors):
    run = flash2_cases.forward_run(case, tensors, block_m=TILE, block=(32, 1, 1))
    run.constants.clear()  # the sizes of the tiles stand in the kernel
    return run


def _in_half(probe):
    """A probe on half precision."""
    case = probe.case
    halves = type(case)(case.name, case.sizes, case.values, "float16", case.options, case.schedules)
    return type(probe)(probe.name, halves, probe.read)


def _diagnose(evidence):
    return flash2_fragments.diagnose_fragments(evidence) or diagnose_forward(evidence)


WARP_TILE = Exercise(
    id="07.7",
    title="The forward pass on tensor cores, one warp",
    language="cuda",
    entry="flash_attention_2_kernel",
    signature=(
        'extern "C" __global__ void\n'
        "flash_attention_2_kernel(const __half* q, const __half* k, const __half* v, __half* out, float* lse,\n"
        "                         int num_q_per_kv, int seq_len_q, int seq_len_kv, float softmax_scale)"
    ),
    contract=(
        "q (B, H, Nq, 64), k and v (B, Hkv, Nkv, 64), half, contiguous, H = Hkv * num_q_per_kv; any Nq, Nkv >= 1. out "
        "like q; lse (B, H, Nq), float, natural log. Every query sees every key. Sums in float; the weights are "
        "rounded to half for the second product. Grid (ceil(Nq / 16), H, B), block 32."
    ),
    size_lines=49,
    minutes=60,
    solution="kernels_cu/flash_attention_2_warp/01_warp_tile.cu",
    cases=(
        _case("one query, one key", 1, 1, schedules=SCHEDULES),
        _case("exactly one tile", TILE, TILE),
        _case("one below a tile", TILE - 1, TILE - 1),
        _case("one above a tile", TILE + 1, TILE + 1, schedules=SCHEDULES),
        _case("ragged, grouped heads", 37, 53, schedules=(), heads=(1, 4, 2)),
        _case("more queries than keys", 50, 20),
        _case("one query", 1, 45),
        _case("rising scores", 9, 53, "rising", ("reverse",)),
        _case("falling scores", 9, 53, "falling"),
        _case("scores near -100", 5, 45, "minus_100"),
        _case("scores near +100", 5, 45, "plus_100"),
        _case("one score of 120", 9, 50, "spikes"),
        _case("several batches", 21, 35, schedules=("random",), heads=(2, 2, 1)),
        flash2_fragments.heavy_case(),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=cases.oracle(),
    baseline=cases.baseline(),
    rules={"out": "weights", "lse": "lse"},
    largest_score=magnitude.of_attention(),
    hints=(
        "Four parts in a loop over tiles of 16 keys: load k and v, scores by mma, the softmax of 07.1 on what each "
        "lane holds, and weights times v by mma. Write the scores first and store them into out to look at them.",
        "Scores: four steps, each one ldmatrix_x4 of k (rows are keys, not turned) and two mma. A lane then holds, "
        "for row g and row g + 8, keys 2 t, 2 t + 1, 8 + 2 t and 8 + 2 t + 1. quad_max and quad_sum make one m and one "
        "l of four lanes'.",
        "probs = {pack(s[0][0], s[0][1]), pack(s[0][2], s[0][3]), pack(s[1][0], s[1][1]), pack(s[1][2], s[1][3])}; "
        "ldmatrix_x4_trans(v_reg[0][0], v_reg[0][1], v_reg[1][0], v_reg[1][1], v_smem + swizzle_offset<HEAD_DIM * 2>("
        "lane % 16, j + lane / 16)) for the column tiles j and j + 1.",
    ),
    explanation=(
        "The scores were made, masked, exponentiated and multiplied again without leaving the registers of four "
        "lanes. That is what FlashAttention-2 means by splitting the queries over the warps and not the keys: no warp "
        "has to tell another one anything. What is left to gain is in the loads: here nobody multiplies while they are "
        "under way, and each tile of k and v serves 16 queries only."
    ),
    probes=(
        *(_in_half(probe) for probe in readings.tile_probes(_sizes)),
        masks.head_probe(_case("heads", 1, 3, "zeros", (), heads=(2, 4, 2), v_of_head=True)),
        *flash2_fragments.fragment_probes(),
    ),
    diagnose=_diagnose,
    bound_bytes=flash2_cases.bound,
    usual_bytes=lambda case: flash2_cases.usual_bytes(case, block_m=TILE),
    question="Which tile is read more often than once by a warp?",
    tile=lambda case: (TILE, 8),
)

"""Chapter 03, online softmax: what each exercise asks, on which inputs, and what its outputs say.

May import: spec, protocol, inputs, probes, exercises' shared readings, reference.
"""

from ...reference import softmax as reference
from .. import inputs, probes
from ..protocol import Ref, Run
from ..spec import Case, Exercise
from .softmax_readings import diagnose_softmax

ALL_SCHEDULES = ("forward", "reverse", "random", "resident")
WARP_SIZE = 32
WARPS_PER_BLOCK = 4


def rows_case(name, num_rows, num_cols, values="normal", dtype="float32", schedules=()):
    """A case of `num_rows` rows with `num_cols` scores each."""
    return Case(name, {"num_rows": num_rows, "num_cols": num_cols}, values, dtype, schedules=schedules)


def score_rows(case, gen):
    """{"x": (num_rows, num_cols)}."""
    shape = (case.sizes["num_rows"], case.sizes["num_cols"])
    return {"x": inputs.scores(case.values, shape, case.dtype, gen, **case.options)}


def softmax_oracle(case, tensors):
    """{"out": float64}."""
    return {"out": reference.softmax(tensors["x"])}


def softmax_baseline(case, tensors):
    """{"out": in the dtype of x}."""
    return {"out": reference.rounded_softmax(tensors["x"])}


ROW_CASES = (
    rows_case("one element", 1, 1, schedules=ALL_SCHEDULES),
    rows_case("one below a stride", 3, 31, schedules=("forward", "reverse")),
    rows_case("exactly one stride", 4, 32, schedules=("forward",)),
    rows_case("one above a stride", 5, 33, schedules=ALL_SCHEDULES),
    rows_case("scores near -100", 7, 45, "minus_100", schedules=("forward",)),
    rows_case("scores near +100", 7, 45, "plus_100", schedules=("random",)),
    rows_case("rising scores", 6, 77, "rising", schedules=("forward",)),
    rows_case("falling scores", 6, 77, "falling", schedules=("reverse",)),
    rows_case("one large score a row", 5, 100, "spikes", schedules=("forward",)),
    rows_case("masked scores", 6, 70, "masked", schedules=("forward",)),
    rows_case("rows that start masked", 6, 100, "leading_masked", schedules=ALL_SCHEDULES),
    rows_case("whole strides", 16, 128, schedules=("forward",)),
    rows_case("many rows", 113, 203),
)


def warp_run(case, tensors):
    """One warp a row, four warps a block."""
    num_rows, num_cols = tensors["x"].shape
    return Run(
        case.name, tensors, {"out": ((num_rows, num_cols), "float32")},
        (Ref("x"), Ref("out"), num_rows, num_cols),
        grid=(-(-num_rows // WARPS_PER_BLOCK), 1, 1), block=(WARPS_PER_BLOCK * WARP_SIZE, 1, 1),
    )


def softmax_bound(case):
    """Fewest bytes: every score read once, every weight written once."""
    count = case.sizes["num_rows"] * case.sizes["num_cols"]
    return 8 * count, f"{count:,} scores read once and {count:,} weights written once, 4 bytes each"


def two_reads(case):
    """Bytes of the online kernel: the row is read twice and written once."""
    return 12 * case.sizes["num_rows"] * case.sizes["num_cols"]


EX_03_2 = Exercise(
    id="03.2", title="Online softmax in CUDA, one warp a row", language="cuda", entry="online_softmax_warp_kernel",
    signature=(
        'extern "C" __global__ void\n'
        "online_softmax_warp_kernel(const float* x, float* out, int num_rows, int num_cols)"
    ),
    contract=(
        "x (num_rows, num_cols) float, contiguous; out like x: the softmax of every row. Any num_rows, num_cols >= 1. "
        "A score of -inf has weight 0; a row of -inf only gives 0. One warp a row; the last block may have warps "
        "without a row."
    ),
    size_lines=12, minutes=25, solution="kernels_cu/softmax/03_online_warp.cu",
    cases=ROW_CASES, make_inputs=score_rows, make_run=warp_run, oracle=softmax_oracle, baseline=softmax_baseline,
    rules={"out": "forward"},
    hints=(
        "Three steps: each lane runs over its own columns and keeps its own (m, l); the 32 states become one; each "
        "lane writes its columns.",
        "Merging is the update again, with another lane's (m, l) in place of (score, 1). After five steps of "
        "__shfl_xor_sync every lane holds the row's state.",
        "m_new = fmaxf(m, m_other); l = l * exp_shifted(m, m_new) + l_other * exp_shifted(m_other, m_new); m = m_new; "
        "and in the end exp_shifted(x, m) / l, with 0 when l is 0.",
    ),
    explanation=(
        "The 32 lanes never wait for shared memory: five shuffles carry the whole merge. The order of the merge does "
        "not matter, "
        "because merging is associative and (-inf, 0) is its neutral element; that is also why lanes without a column "
        "cause no harm. "
        "The row is read twice. FlashAttention saves the second read by keeping an accumulator beside (m, l)."
    ),
    probes=(
        probes.count({"num_rows": 4, "num_cols": 85}),
        probes.step("step between strides", {"num_rows": 4, "num_cols": 64}, 32),
        probes.step("step between lanes", {"num_rows": 4, "num_cols": 32}, 16),
    ),
    diagnose=lambda evidence: diagnose_softmax(evidence, stride=WARP_SIZE),
    bound_bytes=softmax_bound, usual_bytes=two_reads, tile=lambda case: (WARPS_PER_BLOCK, WARP_SIZE),
)

EXERCISES = (EX_03_2,)

"""The fused row softmax of chapter 02, in Triton and in CUDA: the row is read once and stays on chip.

May import: spec, magnitude, verdict, probes, the shared cases and readings of softmax.
"""

import math
from dataclasses import replace

from ..exercise import magnitude, probes
from ..exercise.spec import Exercise
from ..report.verdict import Diagnosis
from ..subjects.softmax import cases as cases
from ..subjects.softmax.diagnostics import diagnose_softmax, near
from .softmax_kernels import softmax_bound

BLOCK = 64  # threads of a block while the CUDA exercise is graded
WIDTH = 32  # columns round which the cases of the Triton exercise lie
_SLACK = 1.2  # reads over the size of x: a few extra numbers are no second sweep


def fused_cases(unit, width, **options):
    """The cases of every row softmax but those with scores of -inf, which chapter 03 introduces."""
    found = cases.row_cases(unit, width, **options)
    return tuple(case for case in found if case.values not in ("masked", "leading_masked"))


def one_sweep(case, ledger):
    """Refuses an answer that reads the row more than once, or parks something in global memory on the way."""
    size = 4 * case.sizes["num_rows"] * case.sizes["num_cols"]
    read, written = ledger["global_load"]["bytes"], ledger["global_store"]["bytes"]
    where = f"Every weight is right, but the kernel is not fused (case {case.name!r}): x holds {size:,} bytes"
    if read > _SLACK * size:
        return Diagnosis(
            "not_fused",
            f"{where} and {read:,} were read from global memory, {read / size:.3g} times as "
            "many. Read the row once, keep it on chip, and work on that copy.",
        )
    if written > _SLACK * size:
        return Diagnosis(
            "not_fused",
            f"{where} and {written:,} were written to global memory, {written / size:.3g} "
            "times as many. Write each weight once, when it is finished.",
        )
    return None


def tile_of(num_cols):
    """The smallest power of two that holds a row."""
    return 1 << (num_cols - 1).bit_length()


def fused_run(case, tensors):
    """A block a row, the row in dynamic shared memory."""
    run = cases.rows_run(case, tensors, threads=BLOCK, constants={"BLOCK": BLOCK})
    return replace(run, shared_bytes=4 * case.sizes["num_cols"])


def _probes(width):
    return (
        probes.count({"num_rows": 4, "num_cols": 2 * width - 11}),
        probes.step("step within a row", {"num_rows": 4, "num_cols": width}, width // 2),
        probes.step("step after a block", {"num_rows": 4, "num_cols": 2 * width}, width),
    )


def diagnose_fused(evidence, *, width, unit):
    """Diagnosis of a failing fused softmax, or None: what only a whole row at once can get wrong, then the rest."""
    return _by_maximum(evidence) or _by_order(evidence) or diagnose_softmax(evidence, stride=width, unit=unit)


def _ratio(evidence, name):
    """Weight of a score of 0 over the weight of a score of 1, in the probe `name`; exp(-1) when right."""
    reading = evidence.readings.get(name)
    return reading["first"] / reading["last"] if reading and reading["last"] else math.nan


def _by_maximum(evidence):
    """What was subtracted is not the maximum of the row."""
    within, after = _ratio(evidence, "step within a row"), _ratio(evidence, "step after a block")
    counts = evidence.readings.get("count") or [math.nan]
    counted = all(near(count, len(counts)) for count in counts)  # the sum is the row's, so it is not the sum's fault
    if counted and near(within, 1.0) and near(after, math.exp(-1.0)):
        return Diagnosis(
            "own_maximum",
            "Scores 0, then 1: when both lie in one thread's columns the 0 weighs exp(-1) "
            "= 0.368 times as much, as it should; when they lie in different threads' it "
            "weighs the same. Each thread subtracted a maximum of its own; all need that "
            "of the row.",
        )
    if evidence.fails_only("spikes"):
        return Diagnosis(
            "wrong_maximum",
            "Right while the scores of a row are alike; with one score of 120 among "
            "small ones the exponential overflows. What was subtracted is not the "
            "maximum of the row.",
        )
    return None


def _by_order(evidence):
    if near(_ratio(evidence, "step within a row"), math.e):
        return Diagnosis(
            "order_reversed",
            "A score that is 1 higher should weigh e = 2.718 times as much; here it "
            "weighs 0.368 times as much. Is it exp(x - m), and does every weight "
            "land in the column of its score?",
        )
    return None


def usual(case):
    return softmax_bound(case)[0]


FUSED_TRITON = Exercise(
    id="02.3",
    title="Fused row softmax in Triton",
    language="triton",
    entry="fused_softmax_kernel",
    signature="fused_softmax_kernel(x_ptr, out_ptr, num_rows, num_cols, BLOCK_N: tl.constexpr)",
    contract=(
        "x (num_rows, num_cols) float, contiguous, finite; out like x: the softmax of every row, right for scores near "
        "+-100 too. One program a row; BLOCK_N is a power of two, at least num_cols, so that the row is one tile. The "
        "ledger is read: each score is loaded once, each weight stored once. tl.softmax is off."
    ),
    size_lines=7,
    minutes=15,
    solution="course_lib/triton_kernels/row_softmax.py#fused_softmax_kernel",
    cases=fused_cases("power of two", WIDTH, schedules=("forward", "reverse", "random"), rows=3, many=7),
    make_inputs=cases.score_rows,
    make_run=lambda case, tensors: cases.rows_run(
        case, tensors, constants={"BLOCK_N": tile_of(case.sizes["num_cols"])}
    ),
    oracle=cases.softmax_oracle,
    baseline=cases.softmax_baseline,
    rules={"out": "weights"},
    largest_score=magnitude.of_inputs("x"),
    forbidden=("triton.language.softmax",),
    hints=(
        "Load the whole row as one tile, do everything with that tile, store it. Four lines of arithmetic stand "
        "between one load and one store.",
        "The tile is wider than the row: mask the load and the store. What the load puts beyond the end must change "
        "neither the maximum nor the sum.",
        "x = tl.load(x_ptr + row * num_cols + cols, mask=cols < num_cols, other=-float('inf')); then tl.max(x, "
        "axis=0), tl.exp(x - m), tl.sum(weights, axis=0).",
    ),
    explanation=(
        "The tile lives in the registers of the program's threads; tl.max and tl.sum became shuffles and a little "
        "shared memory, with the barriers in the right places, and you wrote none of them. What Triton does not do for "
        "you: it did not choose that the row should stay on chip, and it did not check the mask."
    ),
    probes=_probes(WIDTH),
    diagnose=lambda evidence: diagnose_fused(evidence, width=WIDTH, unit="tile"),
    ledger_rule=one_sweep,
    bound_bytes=softmax_bound,
    usual_bytes=usual,
    tile=lambda case: (1, WIDTH),
)

FUSED_CUDA = Exercise(
    id="02.4",
    title="Fused row softmax in CUDA",
    language="cuda",
    entry="fused_softmax_kernel",
    signature='extern "C" __global__ void fused_softmax_kernel(const float* x, float* out, int num_rows, int num_cols)',
    contract=(
        "x (num_rows, num_cols) float, contiguous, finite; out like x: the softmax of every row, right for scores near "
        "+-100 too. One block of BLOCK threads a row; row_smem, dynamic shared memory, holds num_cols floats. The "
        "ledger is read: each score is loaded from global memory once, each weight stored once."
    ),
    size_lines=16,
    minutes=25,
    solution="kernels_cu/row_softmax/02_fused.cu",
    cases=fused_cases("block", BLOCK),
    make_inputs=cases.score_rows,
    make_run=fused_run,
    oracle=cases.softmax_oracle,
    baseline=cases.softmax_baseline,
    rules={"out": "weights"},
    largest_score=magnitude.of_inputs("x"),
    hints=(
        "Three loops over the thread's own columns: fetch the row and find the maximum; exponentials and their sum; "
        "divide and write. Between the loops stand block_max and block_sum.",
        "A thread meets the same columns in all three loops, so row_smem needs no barrier. reduce_smem does: both "
        "reductions use it, and somebody may still be reading the maximum when the first sum is written.",
        "row_smem[col] = x_row[col]; … m = block_max(m_thread, reduce_smem); __syncthreads(); … row_smem[col] = "
        "expf(row_smem[col] - m); … l = block_sum(l_thread, reduce_smem); … out_row[col] = row_smem[col] / l;",
    ),
    explanation=(
        "Two E bytes in place of five, and one launch in place of three, for the price of shared memory: a row may be "
        "no longer than what a block can have. Chapter 03 lifts that limit with a second sweep, and "
        "FlashAttention lifts it without one."
    ),
    probes=_probes(BLOCK),
    diagnose=lambda evidence: diagnose_fused(evidence, width=BLOCK, unit="block"),
    ledger_rule=one_sweep,
    bound_bytes=softmax_bound,
    usual_bytes=usual,
    tile=lambda case: (1, BLOCK),
)

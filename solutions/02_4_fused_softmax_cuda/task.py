"""02.4 Fused row softmax in CUDA: what the judge runs."""

from dataclasses import replace

from course_lib.grading.exercise.spec import exercise, late
from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.softmax import cases, fused
from course_lib.grading.subjects.softmax.bounds import softmax_bound

BLOCK = 64  # threads of a block, where a case does not say otherwise
OTHERS = {"rising": 32, "falling": 256, "spikes": 1024, "minus_100": 128, "any_height": 512}  # by the values of a case
LATE = ("one large score a row", "many rows")  # the most threads, the most rows
SWEEPS = 12  # of a thread over its columns in shared memory at most; the solution makes 4
REDUCTIONS = 64  # numbers that a thread reads there in reductions


def _cases():
    found = fused.fused_cases("block", BLOCK, other={"block": 256}, many=67)
    found = [
        cases.with_options([case], "block", [OTHERS.get(case.values, case.options.get("block", BLOCK))])[0]
        for case in found
    ]
    return tuple(late(case) if case.name in LATE else case for case in found)


def block_of(case):
    """Threads of a block in this case; a probe says nothing."""
    return case.options.get("block", BLOCK)


def share_of(case):
    """Columns of one thread at most: its share, and three more where it takes them in vectors of four."""
    return -(-case.sizes["num_cols"] // block_of(case)) + 3


def _judge_way(case, ledger):
    """Diagnosis or None: the row is read once, and the threads share its columns, in shared memory too."""
    share = share_of(case)
    return fused.one_sweep(case, ledger, share, shared=4 * (SWEEPS * share + REDUCTIONS))


def _by_block(evidence):
    """Wrong for one number of threads alone, and every weight by the same factor: no matter of how high scores are."""
    failing = evidence.failing()
    blocks = {block_of(one.case) for one in failing}
    if len(blocks) != 1 or blocks & {block_of(one.case) for one in evidence.passing()}:
        return None
    if not all(one.ran and one.comparisons["out"].kind == "values" for one in failing):
        return None
    ratios = [one.first.outputs["out"].double().sum(-1) / one.ref["out"].sum(-1) for one in failing]
    factor = ratios[0][0].item()
    if abs(factor - 1.0) < 1e-2 or not all(
        bool(((ratio - factor).abs() <= 1e-3 * abs(factor)).all()) for ratio in ratios
    ):
        return None
    return Diagnosis(
        "block_dependent",
        f"Wrong with blocks of {blocks.pop():,} threads alone (case {failing[0].case.name!r}), where the weights of "
        f"every row add up to {factor:.4g}. Does something depend on BLOCK?",
    )


def fused_run(case, tensors):
    """A block a row, the row in dynamic shared memory."""
    block = block_of(case)
    run = cases.rows_run(case, tensors, threads=block, constants={"BLOCK": block})
    return replace(run, shared_bytes=4 * case.sizes["num_cols"])


EXERCISE = exercise(
    __file__,
    cases=_cases(),
    **fused.FUSED,
    make_run=fused_run,
    probes=fused.probes(BLOCK),
    diagnose=lambda evidence: _by_block(evidence) or fused.diagnose_fused(evidence, width=BLOCK, unit="block"),
    ledger_rule=_judge_way,
    bound_bytes=softmax_bound,
    usual_bytes=lambda case: softmax_bound(case)[0],
    tile=lambda case: (1, BLOCK),
)

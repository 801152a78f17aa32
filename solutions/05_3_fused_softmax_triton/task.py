"""05.3 Scale, mask and softmax in one kernel, in Triton: what the judge runs."""

from course_lib.grading.exercise.spec import exercise
from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.attention.fused_softmax import SHARED, cases, judge_work, run
from course_lib.grading.subjects.attention.heads import visible
from course_lib.grading.subjects.ledger.share import share

BLOCK_N = 32  # but for the cases that have options["block"]


def _tiles(case, ledger):
    """Refuses loads or stores of more than BLOCK_N keys: then there are fewer than tiles of that width take."""
    batch_heads, seq_len_q, seq_len_kv = case.sizes.values()
    block = case.options.get("block", BLOCK_N)
    rows = [visible(q_row, seq_len_q, seq_len_kv, case.options["causal"]) for q_row in range(seq_len_q)]
    loads = batch_heads * sum(max(2 * -(-seen // block) - 1, 0) for seen in rows)  # a last tile may be kept
    stores = batch_heads * seq_len_q * (-(-seq_len_kv // block) + 1)
    for kind, fewest, words in (("global_load", loads, "loads"), ("global_store", stores, "stores")):
        if ledger[kind]["requests"] < fewest:
            return Diagnosis(
                "wide_tile",
                f"Every value is right (case {case.name!r}), but there are {ledger[kind]['requests']:,} {words} where "
                f"rows of {seq_len_kv:,} keys in tiles of BLOCK_N = {block:,} take {fewest:,}: some hold more keys.",
            )
    return None


def _judge_way(case, ledger):
    own = case.sizes["seq_len_kv"]
    row = share(case, ledger, loaded=12 * own, stored=4 * (own + 1), why="a program computes one row", unit="program")
    return judge_work(case, ledger) or row or _tiles(case, ledger)


EXERCISE = exercise(
    __file__,
    cases=cases(("forward", "reverse", "random")),
    make_run=lambda case, tensors: run(case, tensors, constants={"BLOCK_N": case.options.get("block", BLOCK_N)}),
    ledger_rule=_judge_way,
    **SHARED,
)

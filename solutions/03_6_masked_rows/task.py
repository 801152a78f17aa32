"""03.6 Masked rows: causal and length mask: what the judge runs."""

from dataclasses import replace

from course_lib.grading.exercise.spec import exercise
from course_lib.grading.subjects.ledger.moved import moved
from course_lib.grading.subjects.ledger.share import share
from course_lib.grading.subjects.softmax import bounds, cases

from .diagnostics import diagnose_masked, mask_probes

LENS = (65, 64, 33, 32, 1, *(7 * b % 66 for b in range(5, 40)))  # of 40 batch entries


def masked_bound(case):
    """Fewest bytes: visible scores once, every weight and every log-sum-exp written once."""
    sizes, lens = case.sizes, case.options["seq_lens_kv"]
    num_q, num_kv = sizes["seq_len_q"], sizes["seq_len_kv"]
    seen = sum(min(max(q_row + length - num_q + 1, 0), num_kv) for length in lens for q_row in range(num_q))
    written = len(lens) * num_q * (num_kv + 1)
    why = f"{seen:,} visible scores read once, {written:,} numbers written, 4 bytes each"
    return 4 * (seen + written + len(lens)), why


def judge_way(case, ledger):
    """Refuses right weights with more traffic than the contract allows, in shared memory, or by few lanes."""
    rows, num_kv = case.sizes["batch_size"] * case.sizes["seq_len_q"], case.sizes["seq_len_kv"]
    lengths = 4 * rows * cases.WARP_SIZE  # every lane may read the length of its batch entry
    why = "each score read twice at most, each weight and each lse written once, as the source says it"
    found = moved(case, ledger, read=8 * rows * num_kv + lengths, written=4 * rows * (num_kv + 1), why=why)
    found = found or bounds.without_shared_memory(case, ledger)
    lane = 4 * bounds.most_scores(num_kv, cases.WARP_SIZE)
    why = "seq_len_kv / 32 keys, rounded up, and 8 more"
    return found or share(case, ledger, loaded=2 * lane + 4, stored=lane + 4, why=why)


def _hidden(case, value):
    """The case with another number at the keys that a row may not see."""
    return replace(case, options=case.options | {"unseen": value})


EXERCISE = exercise(
    __file__,
    cases=(
        cases.masked_case("one element", 1, 1, 1, (1,), schedules=cases.ALL_SCHEDULES),
        cases.masked_case("square", 1, 9, 9, (9,), schedules=("forward", "reverse")),
        cases.masked_case("more keys than queries", 2, 5, 37, (37, 20), schedules=cases.ALL_SCHEDULES),
        cases.masked_case("rows that see nothing", 2, 12, 33, (7, 0), schedules=("forward", "random")),
        cases.masked_case("more queries than keys", 2, 30, 20, (13, 5)),
        cases.masked_case("scores near -100", 2, 7, 70, (70, 33), "minus_100", schedules=("forward",)),
        cases.masked_case("scores near -3000", 2, 7, 70, (70, 33), "minus_3000", schedules=("forward",)),
        cases.masked_case("scores near +100", 2, 7, 70, (70, 33), "plus_100", schedules=("forward",)),
        cases.masked_case("rising scores", 2, 5, 77, (77, 41), "rising", schedules=("forward",)),
        cases.masked_case("visible scores of -inf", 2, 6, 70, (70, 40), "masked", schedules=("forward",)),
        cases.masked_case("rows that start with -inf", 2, 6, 100, (100, 90), "leading_masked", schedules=("forward",)),
        cases.masked_case("several lengths", 40, 2, 65, LENS),
        cases.masked_case("scores near -13000", 2, 7, 70, (70, 33), "minus_13000"),
        cases.masked_case("scores near +13000", 2, 7, 70, (70, 33), "plus_13000"),
        cases.masked_case("rows of different height", 2, 7, 64, (64, 33), "mixed_rows"),
        _hidden(cases.masked_case("500 at hidden keys", 2, 7, 37, (37, 9)), 500.0),
        _hidden(cases.masked_case("+inf at hidden keys", 2, 7, 37, (37, 9)), float("inf")),
        _hidden(cases.masked_case("-inf at hidden keys", 2, 7, 37, (37, 9)), float("-inf")),
        cases.masked_case("many keys", 1, 1, 12_500, (12_480,), "ending"),
    ),
    make_inputs=cases.masked_scores,
    make_run=cases.masked_run,
    oracle=cases.masked_oracle,
    baseline=cases.masked_baseline,
    rules={"out": "weights", "lse": "lse"},
    largest_score=cases.masked_largest_score,
    probes=mask_probes(),
    diagnose=diagnose_masked,
    ledger_rule=judge_way,
    bound_bytes=masked_bound,
    tile=lambda case: (1, cases.WARP_SIZE),
)

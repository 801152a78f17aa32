"""07.1 The loops exchanged, in torch: what the judge runs."""

import torch

from course_lib.grading.exercise.inputs import HEIGHTS
from course_lib.grading.exercise.spec import exercise
from course_lib.grading.processes.protocol import Ref, Run
from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.attention.cases import unread_lse
from course_lib.grading.subjects.flash_attention import cases as cases
from course_lib.grading.subjects.flash_attention import diagnostics as diagnostics
from course_lib.grading.subjects.flash_attention_2.cases import largest_score, with_scores
from course_lib.grading.subjects.flash_attention_2.diagnostics import diagnose_forward
from course_lib.grading.subjects.limits import by_limit
from course_lib.grading.subjects.softmax.diagnostics import by_height
from course_lib.grading.subjects.softmax.library import LIBRARY_SOFTMAX

FAR = 2.0**60  # q = FAR and k = -FAR: all scores are below -1e30


def _inputs(case, gen):
    tensors = with_scores(case, cases.head_inputs(case, gen))
    if case.values == "below_1e9":
        tensors["q"].fill_(FAR)
        tensors["k"].fill_(-FAR)
    if case.values == "mixed_rows":
        q, k = tensors["q"], tensors["k"]
        q[:, 0], k[:, 0] = torch.tensor(HEIGHTS)[torch.arange(len(q)) % len(HEIGHTS)] * q.shape[1] ** 0.5, 1.0
    return tensors


def _run(case, tensors):
    """(q, k, v, block_m, block_n) -> (out, lse, moved)."""
    one = cases.head_run(case, tensors)
    outputs = one.outputs | {"moved": ((), "float32")}
    arguments = (*(Ref(name) for name in ("q", "k", "v")), case.sizes["block_m"], case.sizes["block_n"])
    return Run(case.name, tensors, outputs, arguments)


def _counts(case):
    """(queries, keys, head_dim, tiles of queries, tiles of keys)."""
    num_q, num_kv, head_dim, block_m, block_n = case.sizes.values()
    return num_q, num_kv, head_dim, -(-num_q // block_m), -(-num_kv // block_n)


def _moved(case):
    """Numbers that Q outside moves: q, out and lse once, k and v once for every tile of queries."""
    num_q, num_kv, head_dim, tiles_q, _ = _counts(case)
    return 2 * num_q * head_dim + num_q + tiles_q * 2 * num_kv * head_dim


def _with_moved(numbers, dtype):
    return lambda case, tensors: numbers(case, tensors) | {"moved": torch.tensor(_moved(case), dtype=dtype)}


def _by_moved(evidence):
    """The values are right and the count of what was moved is not."""
    failing = evidence.failing()
    if not failing or any(not c.comparisons[name].passed for c in failing for name in ("out", "lse")):
        return None
    case = max(failing, key=lambda c: min(_counts(c.case)[3:]))  # with several tiles of either, where there are
    got, right = case.comparisons["moved"].got, _moved(case.case)
    num_q, num_kv, head_dim, tiles_q, tiles_kv = _counts(case.case)
    start = (
        f"out and lse are right. For {num_q} queries in {tiles_q} tiles and {num_kv} keys in {tiles_kv}, head_dim "
        f"{head_dim}, moved must be {right:,} and is {got:,.0f}"
    )
    if _is_keys_outside(got, num_q, num_kv, head_dim, tiles_kv):
        return Diagnosis(
            "loops_not_swapped",
            f"{start}: k and v once, q and out once for each of {tiles_kv} tiles of keys. That is FlashAttention-1's "
            "order. Take a tile of q, loop over all of k and v, write its rows of out, then take the next one.",
        )
    for value, code, words in _slips(case.case, right):
        if got == value and value != right:
            return Diagnosis(code, f"{start}: {words}.")
    for tiles in range(1, num_q + 1):
        if got == right + (tiles - tiles_q) * 2 * num_kv * head_dim:
            return Diagnosis(
                "other_tiles",
                f"{start}. That is right for {tiles} tile{'s' * (tiles > 1)} of queries; block_m makes {tiles_q} "
                "(block_n is for k and v).",
            )
    return Diagnosis("moved_wrong", f"{start}. Count each tile where it is taken and each row where it is written.")


def _is_keys_outside(got, num_q, num_kv, head_dim, tiles_kv):
    """Whether a count is that of K and V outside, with any way of counting the state."""
    rest = got - 2 * num_kv * head_dim - tiles_kv * num_q * head_dim
    trips = (tiles_kv, 2 * tiles_kv - 1, 2 * tiles_kv)
    states = (0, num_q, *(2 * num_q * trip for trip in trips), *(2 * num_q * trip + num_q for trip in trips))
    return tiles_kv > 1 and any(rest == trip * num_q * head_dim + state for trip in trips for state in states)


def _slips(case, right):
    """[(count, code, words)]: what each way of counting wrongly gives."""
    num_q, num_kv, head_dim, tiles_q, tiles_kv = _counts(case)
    whole = tiles_q * tiles_kv * 2 * case.sizes["block_n"] * head_dim
    tiles = tiles_q * 2 * num_kv * head_dim
    return (
        (right - num_q * head_dim - num_q, "result_forgotten", "out and lse are written once each; count them"),
        (right - num_q, "lse_forgotten", "lse is written as well"),
        (right - num_q * head_dim, "q_forgotten", "one of q and out is missing; each of them moves once"),
        (right - tiles // 2, "kv_half", "k and v both come by, once for each tile of queries"),
        (right - tiles + tiles // tiles_q, "kv_once", "k and v come by once for every tile of queries, not once"),
        (right - tiles + whole, "tiles_rounded", "the last tile of keys is narrower than the others"),
        (4 * right, "in_bytes", "these are bytes; count numbers"),
    )


def _diagnose(evidence):
    limited = _by_moved(evidence) or by_limit(evidence, seq_len_q="queries", seq_len_kv="keys")
    limited = limited or by_height(evidence)
    return limited or diagnose_forward(evidence)


def _way(case, ledger):
    """Diagnosis or None: one tile of scores at a time, no product twice, out written once."""
    num_q, num_kv, head_dim, tiles_q, _ = _counts(case)
    found = diagnostics.one_tile_of_scores(case, ledger)
    if found is not None:
        return found
    start, most = f"Every value is right, but in the case {case.name!r}", 2 * num_q * num_kv * (head_dim + 1)
    if ledger["multiply_adds"] > most:
        return Diagnosis(
            "computed_again",
            f"{start} the products have {ledger['multiply_adds']:,} multiply-adds, where q k^T and the weights times v "
            f"need {most:,} at most. Take each tile of keys once in the inner loop: m, l and acc are brought up to "
            "date in the same turn.",
        )
    size, written = num_q * head_dim, ledger["overwritten"].get(str(num_q * head_dim), 0)
    if tiles_q > 1 and written > size:
        return Diagnosis(
            "out_rewritten",
            f"{start} {written:,} numbers are written into a tensor of {size:,}, as many as out has. Keep acc of one "
            "tile of queries in a variable of its own, and write its rows of out once, after its last tile of keys.",
        )
    return None


EXERCISE = exercise(
    __file__,
    cases=(
        *cases.head_cases(
            many_keys=("1,500 keys", 64, 1500, 4, 32, 64),
            many_queries=("1,500 queries", 1500, 3, 4, 16, 4),
            long=("long", 113, 203, 16, 24, 32),
        ),
        cases.head_case("rows of different height", 10, 33, values="mixed_rows"),
        cases.head_case("scores below -1e30", 5, 33, 4, values="below_1e9"),  # 4 columns: the scores are exact
        cases.head_case("weights below 1e-6", 3, 20, 4, 3, 1, "zeros", light=-14.2, v_shift=1000.0),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=_with_moved(cases.oracle(), torch.float64),
    baseline=_with_moved(cases.baseline(), torch.float32),
    rules={"out": "weights", "lse": "lse", "moved": "exact"},
    largest_score=largest_score(),
    unread=lambda case, tensors: unread_lse(case, len(tensors["q"])),
    probes=diagnostics.tile_probes(cases.one_torch_head),
    diagnose=_diagnose,
    ledger_rule=_way,
    forbidden=LIBRARY_SOFTMAX,
    tile=lambda case: (case.sizes["block_m"], case.sizes["head_dim"]),
)

"""09.3 Splits for sequences of any length: what the judge runs."""

import math

import torch

from course_lib.grading.exercise.spec import exercise, late
from course_lib.grading.processes.protocol import Ref, Run
from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.attention.cases import unread_lse
from course_lib.grading.subjects.decode import cases, diagnostics, windows
from course_lib.grading.subjects.decode.probes import split_probes
from course_lib.grading.subjects.ledger.moved import moved
from course_lib.grading.subjects.ledger.share import share

HEAD_DIM, BLOCK_N = 32, 16  # where a case does not say others

READS = "each program reads q, its length, and the keys and values of its split once"
WRITES = "each element is written once"

SCHEDULES = ("forward", "reverse", "random")

LENGTHS, CAPACITY, SPLITS = (100, 20), 160, 4  # of the probe: 32, 32, 32 and 4 keys; 16, 4, none and none


def _case(name, heads, seq_len_kv, num_splits, capacity=None, values="normal", schedules=("forward",), **more):
    capacity = capacity or seq_len_kv
    more |= {"num_splits": num_splits, "dtype": "float16", "schedules": schedules}
    return cases.case(name, heads, seq_len_kv, capacity, more.pop("head_dim", HEAD_DIM), values, **more)


def _block_n(case):
    return case.options.get("block_n", BLOCK_N)


def _probe_case(name, heads, seq_len_kv, capacity, values, **options):
    return _case(name, heads, seq_len_kv, 1, capacity, values, (), **options)


def _windows(case):
    return [windows.shared_out(length, case.sizes["num_splits"], _block_n(case)) for length in cases.seq_lens(case)]


def _longest(case):
    """Most keys of a split."""
    return max(end - first for row in _windows(case) for first, end in row)


def _inputs(case, gen):
    return cases.decode_inputs(case, gen) | {"seq_lens": torch.tensor(cases.seq_lens(case), dtype=torch.int32)}


def _run(case, tensors):
    batch_size, num_heads, num_kv_heads, _, capacity, head_dim, num_splits = case.sizes.values()
    outputs = cases.partial_outputs(case, num_splits)
    arguments = tuple(Ref(name) for name in ("q", "k", "v", "seq_lens", *outputs))
    arguments += (num_heads // num_kv_heads, capacity, cases.softmax_scale(case))
    constants = {"HEAD_DIM": head_dim, "BLOCK_N": _block_n(case)}
    grid = (num_splits, num_heads, batch_size)
    return Run(case.name, tensors, outputs, arguments, grid=grid, constants=constants)


def _attention(dtype):
    return lambda case, tensors: cases.attention_over(case, tensors, _windows(case), dtype)


def _unread(case, tensors):
    """Masks of what is not compared: partial_out of splits without keys, lse of scores below -1e9."""
    empty = torch.tensor([[end <= first for first, end in row] for row in _windows(case)]).T  # (S, B)
    shape = cases.partial_outputs(case, case.sizes["num_splits"])["partial_out"][0]
    return {"partial_out": empty[:, :, None, None].expand(shape)} | unread_lse(case, shape[:3], "partial_lse")


_COUNTED_CASE = _case(
    "keys", (2, 2, 1), LENGTHS[0], SPLITS, CAPACITY, "zeros", (), seq_lens=LENGTHS, v="key_numbers", tail="kept"
)

_RIGHT = _windows(_COUNTED_CASE)


def _rules():
    """Mistakes in sharing out, beside the usual ones."""

    def of(length_of, split_len_of):
        return [windows.by_length(length_of(n), split_len_of(n), SPLITS) for n in LENGTHS]

    def tiles(n):
        return windows.shared_length(n, SPLITS, BLOCK_N)

    def own(n):
        return n

    longest = f"split_len was made from the longest sequence, {LENGTHS[0]} keys; each sequence is shared out by itself"
    one = "every batch entry was given the length of the first one"
    room = f"split_len was made from the capacity, {CAPACITY}, not from the sequence's length"
    order = "partial_out and partial_lse were written as if batch and head came before the split; the split comes first"
    down = "split_len was rounded down, so the last keys belong to no split. Round up, twice: to keys and to tiles"
    plain = "split_len is not a whole number of tiles here, so two splits would meet inside a tile; round it up"
    return (
        *windows.usual_rules(_RIGHT, BLOCK_N),
        ("split_ignored", "every split walked over the whole sequence", [[(0, n)] * SPLITS for n in LENGTHS]),
        ("tail_counted", "slots past the end of the sequence were counted as keys", of(lambda n: CAPACITY, tiles)),
        ("partials_moved", order, windows.moved(_RIGHT, 2)),
        ("length_of_another", one, of(lambda n: LENGTHS[0], lambda n: tiles(LENGTHS[0]))),
        ("split_len_of_another", longest, of(own, lambda n: tiles(LENGTHS[0]))),
        ("split_len_of_capacity", room, of(own, lambda n: tiles(CAPACITY))),
        ("rounded_down", down, of(own, lambda n: n // SPLITS // BLOCK_N * BLOCK_N)),
        ("rounded_down", down, of(own, lambda n: -(-n // BLOCK_N) // SPLITS * BLOCK_N)),
        ("not_whole_tiles", plain, of(own, lambda n: -(-n // SPLITS))),
    )


def _by_empty(evidence):
    """Right but for the log-sum-exp of splits without keys."""
    failing = evidence.failing()
    wrong = [c for c in failing if not c.comparisons["partial_lse"].passed]
    if not wrong or len(wrong) < len(failing):
        return None
    for case in wrong:
        lse, out = case.comparisons["partial_lse"], case.comparisons["partial_out"]
        if lse.wrong is None or not out.passed or bool((lse.wrong & torch.isfinite(case.ref["partial_lse"])).any()):
            return None
    case = wrong[0]
    s, b, _ = case.comparisons["partial_lse"].index
    got = case.comparisons["partial_lse"].got
    start = (
        f"Right wherever a split has keys. In the case {case.case.name!r} split {s} of batch entry {b}, "
        f"{cases.seq_lens(case.case)[b]} keys in {case.case.sizes['num_splits']} splits, has none: its partial_lse "
        f"must be -inf, which weighs nothing, and is {got:.4g}"
    )
    if math.isnan(got):
        return Diagnosis("empty_nan", f"{start}. -inf minus -inf is NaN: do not begin a tile that holds no key.")
    return Diagnosis("empty_not_inf", f"{start}. A large negative number, or a 0, is a weight as well.")


MEASURES = {
    "num_q_per_kv": lambda case: case.sizes["num_heads"] // case.sizes["num_kv_heads"],
    "num_splits": lambda case: case.sizes["num_splits"],
    "tiles of a split": lambda case: (
        -(-max(end - first for row in _windows(case) for first, end in row) // _block_n(case))
    ),
}
PARAMETERS = {"BLOCK_N": _block_n, "HEAD_DIM": lambda case: case.sizes["head_dim"]}


def _diagnose(evidence):
    own = _by_empty(evidence)
    return own or diagnostics.diagnose_splits(evidence, _RIGHT, _rules(), measures=MEASURES, parameters=PARAMETERS)


def once(case, ledger):
    """Diagnosis or None: a program reads and writes what belongs to its split, and once."""
    batch_size, num_heads, _, _, _, head_dim, num_splits = case.sizes.values()
    programs, row = num_splits * num_heads * batch_size, 2 * head_dim
    read = programs * (row + 4) + 2 * num_heads * sum(cases.seq_lens(case)) * row
    most, stored = row + 4 + 2 * _longest(case) * row, (head_dim + 1) * 4
    return (
        moved(case, ledger, written=programs * stored, why=WRITES)
        or moved(case, ledger, read=read, why=READS)
        or share(case, ledger, loaded=most, stored=stored, why="the keys of one split", unit="program")
    )


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one key", (1, 1, 1), 1, 1, schedules=SCHEDULES),
        _case("one key, four splits", (1, 1, 1), 1, 4, 3),
        _case("exactly one tile", (1, 1, 1), BLOCK_N, 1),
        _case("one above a tile, two splits", (1, 2, 1), BLOCK_N + 1, 2, 20, schedules=SCHEDULES),
        _case("whole splits", (1, 1, 1), 64, 4),
        _case("no keys", (1, 2, 1), 8, 2, seq_lens=(0,)),
        late(_case("mixed lengths, grouped heads", (3, 4, 2), 70, 4, 150, seq_lens=(70, 0, 20))),
        _case("rising scores", (1, 1, 1), 45, 2, 48, "rising"),
        _case("falling scores", (1, 1, 1), 45, 2, 48, "falling"),
        _case("scores near -100", (1, 1, 1), 37, 3, 40, "minus_100"),
        _case("scores near +100", (1, 1, 1), 37, 3, 40, "plus_100"),
        _case("one score of 120", (1, 2, 2), 30, 2, 30, "spikes"),
        _case("one short, one long", (2, 1, 1), 200, 3, 300, seq_lens=(7, 200)),
        late(_case("groups of 3, tiles of 32 keys", (1, 6, 2), 75, 2, 80, block_n=32)),
        late(_case("a group of 8, tiles of 64 keys", (1, 8, 1), 75, 2, 80, block_n=64, scale=0.31)),
        _case("16 columns, another scale", (1, 2, 1), 40, 2, 48, head_dim=16, scale=1.25),
        _case("64 columns, another scale", (1, 2, 1), 40, 2, 48, head_dim=64, scale=0.07),
        late(_case("18 splits", (1, 1, 1), 280, 18, schedules=())),
        _case("a split of 40 tiles", (1, 1, 1), 630, 1, None, "zeros", (), v="key_numbers"),
        _case("scores near -12,000", (1, 1, 1), 37, 3, 40, "minus_12000"),
        _case("scores below -1e9", (1, 1, 1), 37, 3, 40, "below_1e9"),
        late(_case("one key among 299 faint ones", (1, 1, 1), 300, 1, None, "ones", (), faint=True, fainter=True)),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=_attention(torch.float64),
    baseline=_attention(torch.float32),
    rules={"partial_out": "weights", "partial_lse": "lse"},
    largest_score=cases.largest_score,
    probes=split_probes(_probe_case, _COUNTED_CASE),
    diagnose=_diagnose,
    bound_bytes=lambda case: cases.split_bytes(case, case.sizes["num_splits"], 2),
    tile=lambda case: (1, HEAD_DIM),
    unread=_unread,
    ledger_rule=once,
)

"""09.2 One split, one warp: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import exercise
from course_lib.grading.processes.protocol import Ref, Run
from course_lib.grading.subjects.attention.cases import unread_lse
from course_lib.grading.subjects.decode import cases, diagnostics, windows
from course_lib.grading.subjects.decode.probes import split_probes
from course_lib.grading.subjects.ledger.moved import moved
from course_lib.grading.subjects.ledger.share import share

HEAD_DIM, WARP_SIZE = 64, 32

READS = "each warp reads q and the keys and values of its split once"
WRITES = "each element of partial_out is written once, partial_lse by the lanes of one warp"
SLACK = 1.25  # over the bytes read: for a key that is read ahead

COUNTED, COUNTED_LEN = 53, 16  # of the probe: three whole splits and one of 5 keys

SCHEDULES = ("forward", "reverse", "random")


def _case(name, heads, seq_len_kv, split_len, capacity=None, values="normal", schedules=("forward",), **more):
    capacity = capacity or seq_len_kv
    more |= {"split_len": split_len, "dtype": "float16", "schedules": schedules}
    return cases.case(name, heads, seq_len_kv, capacity, HEAD_DIM, values, **more)


def _probe_case(name, heads, seq_len_kv, capacity, values, **options):
    return _case(name, heads, seq_len_kv, seq_len_kv, capacity, values, (), **options)


def _num_splits(case):
    return -(-case.sizes["seq_len_kv"] // case.sizes["split_len"])


def _rows(case):
    return case.sizes["batch_size"], case.sizes["num_heads"]


def _windows(case):
    one = windows.by_length(case.sizes["seq_len_kv"], case.sizes["split_len"], _num_splits(case))
    return [one] * case.sizes["batch_size"]


def _run(case, tensors):
    batch_size, num_heads, num_kv_heads, seq_len_kv, capacity, head_dim, split_len = case.sizes.values()
    outputs = cases.partial_outputs(case, _num_splits(case))
    arguments = tuple(Ref(name) for name in ("q", "k", "v", *outputs))
    arguments += (num_heads // num_kv_heads, seq_len_kv, capacity, split_len, cases.softmax_scale(case))
    grid = (_num_splits(case), num_heads, batch_size)
    return Run(case.name, tensors, outputs, arguments, grid=grid, block=(32, 1, 1))


MEASURES = {
    "num_q_per_kv": lambda case: case.sizes["num_heads"] // case.sizes["num_kv_heads"],
    "num_splits": _num_splits,
    "split_len": lambda case: min(case.sizes["split_len"], case.sizes["seq_len_kv"]),
}

_COUNTED_CASE = _case("keys", (1, 2, 1), COUNTED, COUNTED_LEN, 64, "zeros", (), v="key_numbers", tail="kept")

_RIGHT = _windows(_COUNTED_CASE)


def _rules():
    order = "partial_out and partial_lse were written as if the head came before the split; the split comes first"
    whole = [[(s, s + COUNTED_LEN) for s, _ in row] for row in _RIGHT]
    return (
        *windows.usual_rules(_RIGHT),
        ("tail_counted", "the last split is shorter than split_len; slots past the last key are unused", whole),
        ("partials_moved", order, windows.moved(_RIGHT, 2)),
    )


def _diagnose(evidence):
    return diagnostics.diagnose_splits(evidence, _RIGHT, _rules(), measures=MEASURES)


def once(case, ledger):
    """Diagnosis or None: a warp reads q and the keys and values of its split once, a lane its own columns."""
    batch_size, num_heads, _, seq_len_kv, _, _, split_len = case.sizes.values()
    row, warps = HEAD_DIM * 2, _num_splits(case) * num_heads * batch_size
    read = warps * row + 2 * batch_size * num_heads * seq_len_kv * row
    written = warps * (HEAD_DIM + WARP_SIZE) * 4
    extra = moved(case, ledger, written=written, why=WRITES) or moved(case, ledger, read=read, slack=SLACK, why=READS)
    loaded = int(SLACK * (1 + 2 * min(split_len, seq_len_kv)) * row / WARP_SIZE)
    return extra or share(case, ledger, loaded=loaded, stored=3 * 4, why="its columns of q and of one split")


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one key", (1, 1, 1), 1, 1, schedules=SCHEDULES),
        _case("splits of one key", (1, 1, 1), 3, 1),
        _case("one split, longer than the sequence", (1, 1, 1), 20, 32),
        _case("whole splits, another scale", (1, 2, 1), 32, 16, scale=0.31),
        _case("a last split of one key, room for more", (1, 2, 1), 33, 16, 40, schedules=SCHEDULES),
        _case("grouped heads, several batches", (2, 4, 2), 37, 16, 50),
        _case("rising scores", (1, 1, 1), 45, 20, 48, "rising"),
        _case("falling scores", (1, 1, 1), 45, 20, 48, "falling"),
        _case("scores near -100", (1, 1, 1), 21, 8, 24, "minus_100"),
        _case("scores near +100", (1, 1, 1), 21, 8, 24, "plus_100"),
        _case("one score of 120", (1, 2, 2), 30, 16, 32, "spikes"),
        _case("many splits", (1, 2, 1), 300, 32, 320, schedules=()),
        _case("70 splits", (1, 1, 1), 139, 2, schedules=()),
        _case("a split of 4200 keys", (1, 1, 1), 4200, 4200, None, "zeros", (), v="key_numbers"),
        _case("groups of 3", (1, 6, 2), 21, 16, 24),
        _case("a group of 8 and another scale", (1, 8, 1), 17, 9, scale=1.25),
        _case("scores near -12,000", (1, 1, 1), 21, 8, 24, "minus_12000"),
        _case("scores below -1e9", (1, 1, 1), 21, 8, 24, "below_1e9"),
        _case("one key among 299 faint ones", (1, 1, 1), 300, 300, None, "ones", (), faint=True, fainter=True),
    ),
    make_inputs=cases.decode_inputs,
    make_run=_run,
    oracle=lambda case, tensors: cases.attention_over(case, tensors, _windows(case), torch.float64),
    baseline=lambda case, tensors: cases.attention_over(case, tensors, _windows(case), torch.float32),
    unread=lambda case, _: unread_lse(case, (_num_splits(case), *_rows(case)), "partial_lse"),
    rules={"partial_out": "weights", "partial_lse": "lse"},
    largest_score=cases.largest_score,
    probes=split_probes(_probe_case, _COUNTED_CASE),
    diagnose=_diagnose,
    bound_bytes=lambda case: cases.split_bytes(case, _num_splits(case), 2),
    tile=lambda case: (1, HEAD_DIM),
    ledger_rule=once,
)

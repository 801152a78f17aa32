"""The split kernel of chapter 09 in CUDA, one warp a split, a head and a batch entry.

May import: spec, protocol, decode_cases, decode_probes, decode_readings, decode_windows.
"""

import torch

from ..exercise.spec import Exercise
from ..processes.protocol import Ref, Run
from ..subjects.decode import cases as cases
from ..subjects.decode import diagnostics as readings
from ..subjects.decode import windows as windows
from ..subjects.decode.probes import split_probes

HEAD_DIM = 64
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


def _windows(case):
    one = windows.by_length(case.sizes["seq_len_kv"], case.sizes["split_len"], _num_splits(case))
    return [one] * case.sizes["batch_size"]


def _run(case, tensors):
    batch_size, num_heads, num_kv_heads, seq_len_kv, capacity, head_dim, split_len = case.sizes.values()
    outputs = cases.partial_outputs(case, _num_splits(case))
    arguments = tuple(Ref(name) for name in ("q", "k", "v", *outputs))
    arguments += (num_heads // num_kv_heads, seq_len_kv, capacity, split_len, head_dim**-0.5)
    grid = (_num_splits(case), num_heads, batch_size)
    return Run(case.name, tensors, outputs, arguments, grid=grid, block=(32, 1, 1))


_COUNTED_CASE = _case("keys", (1, 2, 1), COUNTED, COUNTED_LEN, 64, "zeros", (), v="key_numbers", behind="kept")
_RIGHT = _windows(_COUNTED_CASE)


def _rules():
    order = "partial_out and partial_lse were written as if the head came before the split; the split comes first"
    whole = [[(s, s + COUNTED_LEN) for s, _ in row] for row in _RIGHT]
    return (
        *windows.usual_rules(_RIGHT),
        ("tail_counted", "the last split is shorter than split_len; slots behind the last key are unused", whole),
        ("partials_moved", order, windows.moved(_RIGHT, 2)),
    )


def _diagnose(evidence):
    return readings.diagnose_splits(evidence, _RIGHT, _rules())


SPLIT_CUDA = Exercise(
    id="09.2",
    title="One split, one warp",
    language="cuda",
    entry="split_kernel",
    signature=(
        'extern "C" __global__ void\n'
        "split_kernel(const __half* q, const __half* k, const __half* v, float* partial_out, float* partial_lse,\n"
        "             int num_q_per_kv, int seq_len_kv, int capacity, int split_len, float softmax_scale)"
    ),
    contract=(
        "q (B, H, 64), k and v (B, Hkv, capacity, 64), half, contiguous, H = Hkv * num_q_per_kv; of k and v the rows 0 "
        "to seq_len_kv - 1 are valid and the others may hold NaN. Split s has the keys s * split_len to (s + 1) * "
        "split_len - 1, as far as they exist. partial_out (num_splits, B, H, 64) and partial_lse (num_splits, B, H), "
        "float, natural log: attention over the keys of one split. Grid (num_splits, H, B), block 32."
    ),
    size_lines=18,
    minutes=30,
    solution="kernels_cu/decode_exercises/01_split.cu",
    cases=(
        _case("one key", (1, 1, 1), 1, 1, schedules=SCHEDULES),
        _case("splits of one key", (1, 1, 1), 3, 1),
        _case("one split, longer than the sequence", (1, 1, 1), 20, 32),
        _case("whole splits", (1, 2, 1), 32, 16),
        _case("a last split of one key, room for more", (1, 2, 1), 33, 16, 40, schedules=SCHEDULES),
        _case("grouped heads, several batches", (2, 4, 2), 37, 16, 50),
        _case("rising scores", (1, 1, 1), 45, 20, 48, "rising"),
        _case("falling scores", (1, 1, 1), 45, 20, 48, "falling"),
        _case("scores near -100", (1, 1, 1), 21, 8, 24, "minus_100"),
        _case("scores near +100", (1, 1, 1), 21, 8, 24, "plus_100"),
        _case("one score of 120", (1, 2, 2), 30, 16, 32, "spikes"),
        _case("many splits", (1, 2, 1), 300, 32, 320, schedules=()),
    ),
    make_inputs=cases.decode_inputs,
    make_run=_run,
    oracle=lambda case, tensors: cases.attention_over(tensors, _windows(case), torch.float64),
    baseline=lambda case, tensors: cases.attention_over(tensors, _windows(case), torch.float32),
    rules={"partial_out": "weights", "partial_lse": "lse"},
    largest_score=cases.largest_score,
    hints=(
        "Take a lecture kernel for a whole sequence and ask of each line which keys it speaks of. Only two numbers "
        "change: where the walk begins and where it ends.",
        "first = split * split_len, end = min(first + split_len, seq_len_kv). A lane multiplies its two columns; "
        "warp_sum makes the score out of 32 such pieces and gives it to all lanes.",
        "place = split * num_rows + row. reinterpret_cast<float2*>(partial_out)[place * WARP_SIZE + lane] = "
        "make_float2(acc.x / l, acc.y / l), and one lane writes partial_lse[place] = m + logf(l).",
    ),
    explanation=(
        "No line of the softmax knows that it sees only a part: it is attention over fewer keys, and that is all a "
        "split is. The grid has num_splits times as many warps as before, and each walks a num_splits-th of the keys. "
        "The price is written out in partial_out, head_dim + 1 floats for a split and a head, and paid again when the "
        "splits are combined. One warp_sum for each key is five shuffles for 128 bytes of k; the lecture's kernels let "
        "8 or 16 lanes share a key and work on several keys at a time."
    ),
    probes=split_probes(_probe_case, _COUNTED_CASE),
    diagnose=_diagnose,
    bound_bytes=lambda case: cases.split_bytes(case, _num_splits(case), 2),
    tile=lambda case: (1, HEAD_DIM),
)

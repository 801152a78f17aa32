"""09.6 The group as one tile: what the judge runs."""

import math

import torch

from course_lib.grading.exercise.spec import exercise, late
from course_lib.grading.processes.protocol import Ref, Run
from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.attention.cases import unread_lse
from course_lib.grading.subjects.decode import cases, diagnostics
from course_lib.grading.subjects.decode.limits import LOW_SCORES
from course_lib.grading.subjects.decode.probes import split_probes
from course_lib.grading.subjects.flash_attention.cases import BLOCK_N, FIRST, LATER
from course_lib.grading.subjects.ledger.dots import dots
from course_lib.grading.subjects.ledger.moved import moved
from course_lib.grading.subjects.ledger.share import share
from course_lib.notation import UNIT_ROUNDOFF
from course_lib.reference import attention

HEAD_DIM, ROWS = 32, 16  # HEAD_DIM and BLOCK_N where a case does not say others

SCHEDULES = ("forward", "reverse", "random")

LENGTHS, CAPACITY = (53, 20), 64  # of the probe

NEARLY, FAR_OFF = 4.0, 100.0  # errors, in tolerances

WRITES = "each element is written once"


def _case(name, heads, seq_len_kv, capacity=None, values="normal", schedules=("forward",), **more):
    more |= {"dtype": "float16", "schedules": schedules}
    return cases.case(name, heads, seq_len_kv, capacity or seq_len_kv, more.pop("head_dim", HEAD_DIM), values, **more)


def _block_n(case):
    return case.options.get("block_n", BLOCK_N)


def _probe_case(name, heads, seq_len_kv, capacity, values, **options):
    return _case(name, heads, seq_len_kv, capacity, values, (), **options)


def _inputs(case, gen):
    return cases.decode_inputs(case, gen) | {"seq_lens": torch.tensor(cases.seq_lens(case), dtype=torch.int32)}


def _run(case, tensors):
    batch_size, num_heads, num_kv_heads, _, capacity, head_dim = case.sizes.values()
    rows = (batch_size, num_heads)
    outputs = {"out": ((*rows, head_dim), "float16"), "lse": (rows, "float32")}
    arguments = tuple(Ref(name) for name in ("q", "k", "v", "seq_lens", *outputs))
    arguments += (num_heads // num_kv_heads, capacity, cases.softmax_scale(case))
    constants = {"HEAD_DIM": head_dim, "ROWS": ROWS, "BLOCK_N": _block_n(case)}
    return Run(case.name, tensors, outputs, arguments, grid=(num_kv_heads, batch_size, 1), constants=constants)


def _oracle(case, tensors):
    """{"out", "lse"} in float64."""
    every_key = [[(0, length)] for length in cases.seq_lens(case)]
    partials = cases.attention_over(case, tensors, every_key, torch.float64)
    return {"out": partials["partial_out"][0], "lse": partials["partial_lse"][0]}


def _baseline(case, tensors):
    """{"out", "lse"} as the contract has it: weights and out are rounded to half, everything else stays float32.

    l may be a sum of rounded weights, each off by UNIT_ROUNDOFF at most; a tolerance is ten times what this one is off.
    """
    out, lse = torch.zeros(tensors["q"].shape), torch.full(tensors["q"].shape[:2], -math.inf)
    for b, length in enumerate(cases.seq_lens(case)):
        if length:
            q, k, v = tensors["q"][b, :, None].float(), tensors["k"][b, :, :length], tensors["v"][b, :, :length]
            scores = attention.rounded_scores(q, k.float(), softmax_scale=cases.softmax_scale(case))[:, 0]  # (H, n)
            m = scores.amax(dim=-1, keepdim=True)
            weights, values = torch.exp(scores - m), v.repeat_interleave(len(q) // len(v), dim=0).float()
            l = weights.sum(dim=-1)
            out[b] = (weights.half().float()[:, None, :] @ values)[:, 0] / l[:, None]
            lse[b] = m[:, 0] + torch.log(l) + UNIT_ROUNDOFF["float16"] / 10
    return {"out": out.half(), "lse": lse}


def _bytes(case):
    """(of q, of the valid rows of k and v, of out and lse)."""
    batch_size, num_heads, num_kv_heads, _, _, head_dim = case.sizes.values()
    q = batch_size * num_heads * head_dim * 2
    return q, 2 * sum(cases.seq_lens(case)) * num_kv_heads * head_dim * 2, q + 4 * batch_size * num_heads


def once_a_group(case, ledger):
    """Diagnosis or None: k and v are read once for all query heads of a group, by products on half."""
    batch_size, num_heads, num_kv_heads, _, _, head_dim = case.sizes.values()
    q, keys, outs = _bytes(case)
    programs, group, got = batch_size * num_kv_heads, num_heads // num_kv_heads, ledger["global_load"]["bytes"] - q
    row, longest = 2 * head_dim, max(cases.seq_lens(case))
    tiles, whole = -(-longest // _block_n(case)), ROWS * row  # q: its whole tile once, its rows again in every tile
    if got > keys + programs * (4 + whole) + tiles * q:
        return Diagnosis(
            "kv_read_again",
            f"The values are right, but beside q {got:,} bytes were read, {got / max(keys, 1):.3g} times the {keys:,} "
            f"of the valid keys and values (case {case.name!r}, {group} query heads on a head of k and v). Load a tile "
            "once, without the rows past the end of the sequence, and let all heads of the group use it: they are the "
            "rows of one product.",
        )
    stored = group * (row + 4)
    products = 2 * sum(cases.seq_lens(case)) * num_kv_heads * group * head_dim
    return (
        moved(case, ledger, written=outs, why=WRITES)
        or share(case, ledger, stored=stored, why="the heads of its group", unit="program")
        or (dots(case, ledger, operands="fp16", fewest=products) if products else None)
    )


def _first_keys(*ends):
    return [[(0, end)] for end in ends]


def _rules():
    tile = [(n - 1) // BLOCK_N * BLOCK_N for n in LENGTHS]
    last = [[(start, n)] for start, n in zip(tile, LENGTHS, strict=True)]
    return (
        ("tail_dropped", "the last tile, which is not full, is missing", _first_keys(*tile)),
        ("one_tile", "the first tile alone", _first_keys(BLOCK_N, BLOCK_N)),
        ("old_state_lost", "the last tile alone: what came before was thrown away, or m was never kept", last),
        ("slots_counted", "unused slots past the end of the sequence were counted", _first_keys(CAPACITY, CAPACITY)),
    )


def _by_start(evidence):
    """Wrong for scores far below 0, and for sequences without keys."""
    failing = evidence.failing()
    low, empty = evidence.failing("minus_100", *LOW_SCORES), [c for c in failing if 0 in cases.seq_lens(c.case)]
    if not low or not empty or len(low) + len(empty) < len(failing):
        return None
    case = empty[0]
    b = cases.seq_lens(case.case).index(0)
    return Diagnosis(
        "m_starts_too_high",
        "Right for scores near 0 and near +100; wrong for scores near -100, and lse of a sequence without keys is "
        f"{case.first.outputs['lse'][b, 0].item():.4g} in place of -inf: that is what m began with. The largest of no "
        "score at all is -inf.",
    )


def _by_empty(evidence):
    """Right but for sequences without keys."""
    failing = evidence.failing()
    if not failing or any(0 not in cases.seq_lens(c.case) for c in failing):
        return None
    case = failing[0]
    name, comparison = case.first_wrong
    b = comparison.index[0]
    if cases.seq_lens(case.case)[b]:
        return None
    return Diagnosis(
        "no_key",
        f"Right wherever a sequence has keys. Batch entry {b} of the case {case.case.name!r} has none: out must be 0 "
        f"and lse -inf; {name} is {comparison.got:.4g}. l is 0 for it, and 0 / 0 is NaN.",
    )


def _by_far(evidence):
    """Right while the heads of a group have scores of one size."""
    failing = evidence.failing()
    far = [c for c in failing if c.case.options.get("far")]
    others = [c for c in failing if c not in far and c.case.values not in ("minus_100", *LOW_SCORES)]
    if not far or not _lower_heads_alone(far[0]) or not all(_nearly_right(c) for c in others):
        return None
    return Diagnosis(
        "max_of_the_group",
        "Right while the rows have scores of one size; wrong where neighbouring heads have scores near +100 and +200, "
        "and where the rows that are padding, scores 0, share the tile with a head with -100: with one maximum for all "
        "rows the weights of the lower ones are exp(-100), nearly 0. Every row has a maximum of its own.",
    )


def _lower_heads_alone(case):
    """Whether the heads with doubled scores are right and others far off: their weights are lost."""
    out = case.comparisons.get("out")
    if out is None or out.wrong is None or bool(out.wrong[:, 1::2].any()):
        return False
    return bool((out.ratio > FAR_OFF).any())


def _nearly_right(case):
    """Whether no error is larger than rounding weights below 1 to half makes it, where the largest is 1 exactly."""
    return all(c.ratio is not None and bool((c.ratio <= NEARLY).all()) for c in case.comparisons.values())


def _by_fading(evidence):
    """Wrong in nothing but a long sum of halves whose later terms are small, or that is too large for half."""
    fading = [c for c in evidence.failing() if c.case.options.get("fades")]
    others = [c for c in evidence.failing() if not c.case.options.get("fades")]
    if not fading or any(c.case.options.get("v") != "key_numbers" for c in others):
        return None
    num_keys, out = fading[0].case.sizes["seq_len_kv"], fading[0].first.outputs["out"].double().flatten()[0].item()
    right = BLOCK_N * FIRST + (num_keys - BLOCK_N) * LATER
    if math.isnan(out):
        return None
    return Diagnosis(
        "half_accumulator",
        f"Right everywhere but in a long sum: {num_keys} equal weights, the first {BLOCK_N} values are {FIRST:g}, the "
        f"others {LATER:g}, and out * {num_keys} is {out * num_keys:.4g} in place of {right:.4g}. Half precision "
        f"cannot add {BLOCK_N * LATER:.2g} to {BLOCK_N * FIRST:g}: acc must stay float32.",
    )


MEASURES = {
    "num_q_per_kv": lambda case: case.sizes["num_heads"] // case.sizes["num_kv_heads"],
    "seq_len": lambda case: max(cases.seq_lens(case)),
}
PARAMETERS = {"BLOCK_N": _block_n, "HEAD_DIM": lambda case: case.sizes["head_dim"]}


def _diagnose(evidence):
    looks = (_by_start, _by_empty, _by_far, _by_fading)
    own = next((diagnosis for look in looks if (diagnosis := look(evidence)) is not None), None)
    right, limits = _first_keys(*LENGTHS), {"measures": MEASURES, "parameters": PARAMETERS}
    return own or diagnostics.diagnose_splits(evidence, right, _rules(), lse="lse", **limits)


_COUNTED_CASE = _case(
    "keys", (2, 2, 1), LENGTHS[0], CAPACITY, "zeros", (), seq_lens=LENGTHS, v="key_numbers", tail="kept"
)


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one key, one head", (1, 1, 1), 1, schedules=SCHEDULES),
        _case("exactly one tile", (1, 2, 1), BLOCK_N),
        _case("one above a tile", (1, 2, 1), BLOCK_N + 1, 20, schedules=SCHEDULES),
        late(_case("groups of 3, mixed lengths", (3, 6, 2), 53, 60, seq_lens=(20, 0, 53))),
        _case("a group of 16", (1, 16, 1), 35, 40),
        late(_case("groups of 8, several batches", (2, 16, 2), 40, 48)),
        _case("no keys", (1, 2, 1), 8, seq_lens=(0,)),
        _case("rising scores", (1, 2, 1), 45, 48, "rising"),
        _case("falling scores", (1, 2, 1), 45, 48, "falling"),
        _case("scores near -100", (1, 2, 2), 37, 40, "minus_100"),
        _case("scores near +100", (1, 2, 1), 37, 40, "plus_100"),
        _case("scores near +100 and +200", (1, 4, 1), 21, 24, "plus_100", far=True),
        _case("one score of 120", (1, 4, 2), 30, 30, "spikes"),
        late(_case("small values after large ones", (1, 2, 1), 1040, 1040, "zeros", fades=True)),
        _case("tiles of 32 keys, another scale", (1, 5, 1), 75, 80, block_n=32, scale=0.31),
        _case("tiles of 64 keys", (1, 6, 2), 75, 128, block_n=64),
        _case("16 columns, another scale", (1, 4, 2), 20, 24, head_dim=16, scale=0.45),
        _case("128 columns, another scale", (1, 4, 2), 20, 24, head_dim=128, scale=0.05),
        late(_case("2100 keys", (1, 2, 1), 2100, None, "zeros", (), v="key_numbers")),
        _case("16 columns, scores near -12,000", (1, 2, 1), 37, 40, "minus_12000", head_dim=16),
        _case("scores below -1e9", (1, 2, 1), 37, 40, "below_1e9"),
        late(_case("one key among 299 faint ones", (1, 2, 1), 300, 300, "ones", (), faint=True)),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=_oracle,
    baseline=_baseline,
    unread=lambda case, _: unread_lse(case, (case.sizes["batch_size"], case.sizes["num_heads"])),
    rules={"out": "weights", "lse": "lse"},
    largest_score=cases.largest_score,
    probes=split_probes(_probe_case, _COUNTED_CASE, out="out", lse="lse"),
    diagnose=_diagnose,
    bound_bytes=lambda case: (sum(_bytes(case)), "q, the valid keys and values read once, out and lse written once"),
    usual_bytes=lambda case: sum(_bytes(case)),
    question="Which tile is read again although the program holds it already?",
    tile=lambda case: (ROWS, HEAD_DIM),
    ledger_rule=once_a_group,
)

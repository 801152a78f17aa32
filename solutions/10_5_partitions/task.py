"""10.5 Paged v2: partitions and their reduction: what the judge runs."""

import math

import torch

from course_lib.grading.exercise.spec import Case, Probe, exercise
from course_lib.grading.processes.protocol import Ref, Run
from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.attention.diagnostics import near
from course_lib.grading.subjects.ledger.moved import moved
from course_lib.grading.subjects.paged import cases, diagnostics, extent
from course_lib.grading.subjects.paged.cases import SLOT_LENS
from course_lib.grading.subjects.paged.slots import tokens_of

from . import partials

BLOCK_N = 8

PART = 5  # keys of a partition in the slots probe: 6, 9 and 3 tokens make 2, 2 and 1 of them

HALF = 16  # keys of either partition of the probe "two partitions"


def _case(name, seq_lens, partition_len, heads=(1, 1), values="normal", schedules=("forward",), page=4, **options):
    return cases.case(name, seq_lens, page, heads, values, schedules, partition_len=partition_len, **options)


def _run(case, tensors):
    batch_size, num_heads = len(tensors["seq_lens"]), case.sizes["num_heads"]
    partition_len = case.options["partition_len"]
    num_partitions = partials.num_partitions(case)
    rows = (batch_size, num_heads)
    outputs = cases.outputs(tensors) | {
        "partial_out": ((*rows, num_partitions, cases.head_dim(case)), "float32"),
        "partial_lse": ((*rows, num_partitions), "float32"),
        "counters": (rows, "int32"),
    }
    middle = (*map(Ref, ("partial_out", "partial_lse", "counters")),)
    plain = cases.arguments(case, tensors, tensors["block_table"].shape[1], partition_len)
    arguments = (*plain[:7], *middle, *plain[7:])
    constants = {"HEAD_DIM": cases.head_dim(case), "PAGE_SIZE": case.sizes["page_size"]}
    constants["BLOCK_N"] = case.options.get("block_n", BLOCK_N)
    constants["BLOCK_P"] = 1 << (num_partitions - 1).bit_length()
    contents = {"counters": torch.zeros(rows, dtype=torch.int32)}
    grid = (num_heads, num_partitions, batch_size)
    given = extent.given(case, tensors)
    return Run(case.name, given, outputs, arguments, grid=grid, constants=constants, contents=contents)


def _probes():
    """The probes of paging with partitions: of 5 keys where slots are distinguished, of 16 where two halves are."""
    probes = []
    for probe in diagnostics.probes():
        length = {"slots of v": PART, "slots of k": PART}.get(probe.name, 64)
        one = probe.case
        options = one.options | {"partition_len": length}
        probes.append(Probe(probe.name, Case(one.name, one.sizes, one.values, one.dtype, options), probe.read))
    two = _case("two partitions", (2 * HALF,), HALF, values="step", schedules=(), v="halves", at=HALF, finite=True)
    lse = _case("two partitions, lse", (2 * HALF,), HALF, values="zeros", schedules=(), finite=True)
    return (
        *probes,
        Probe("two partitions", two, lambda _i, o: o["out"].double().flatten()[:2].tolist()),
        Probe("two partitions, lse", lse, lambda _i, o: o["lse"].double().flatten()[0].item()),
    )


def _diagnose(evidence):
    looks = (
        partials.by_partials,
        _by_past,
        _by_bounds,
        _by_equal_tokens,
        _by_two,
        _by_lse,
        _by_size,
        partials.by_borders,
        partials.by_reduction,
        diagnostics.diagnose,
    )
    return next((diagnosis for look in looks if (diagnosis := look(evidence)) is not None), None)


def _row(evidence, b):
    """What each token of a sequence of the slots probe weighs, in their order; None when that cannot be said."""
    reading = evidence.readings.get("slots of v")
    if reading is None or not all(math.isfinite(weight) for weight in reading[b]):
        return None
    right = tokens_of(b)
    if any(weight > 1e-5 for slot, weight in enumerate(reading[b]) if slot not in right):
        return None
    return [reading[b][slot] for slot in right]


_BOUNDS = (
    ("boundary_twice", lambda n: [t for t in range(n)] + [t for t in range(PART, n, PART)],
     "token {twice} was counted twice: a partition ends before key first + partition_len, where the next one begins"),
    ("boundary_never", lambda n: [t for t in range(n) if t % PART != PART - 1],
     "token {last} belongs to no partition: the last key of partition 0 is partition_len - 1, so end is partition_len"),
    ("boundary_never", lambda n: [t for t in range(n) if t % PART or not t],
     "token {twice} belongs to no partition: partition p begins at p * partition_len"),
    ("wrong_start", lambda n: [t for p in range(-(-n // PART)) for t in range(p * 4, min(n, p * 4 + PART))],
     "partition 1 begins at key 4, which is the page size: partition p begins at p * partition_len"),
    ("last_partition_lost", lambda n: list(range(max(n // PART, 1) * PART))[:n],
     "the last partition, which is not full, is missing: ceil(seq_len / partition_len) of them take part"),
    ("last_partition_alone", lambda n: list(range((n - 1) // PART * PART, n)), "only the last partition arrived"),
)  # fmt: skip


def _by_past(evidence):
    """The last partition read to its own end, past the end of the sequence."""
    reading = evidence.readings.get("slots of v")
    if reading is None:
        return None
    for b, n in enumerate(SLOT_LENS):
        read = tokens_of(b, -(-n // PART) * PART)
        if not all(near(reading[b][slot], read.count(slot) / len(read), 1e-3) for slot in read):
            return None
    n, end = SLOT_LENS[1], -(-SLOT_LENS[1] // PART) * PART
    return Diagnosis(
        "past_the_sequence",
        f"In a probe a sequence of {n} keys in partitions of {PART} was read up to key {end - 1}: the last partition "
        "ends with the sequence, not with partition_len.",
    )


def _by_bounds(evidence):
    """Equal weights over another set of tokens."""
    rows = [_row(evidence, b) for b in range(len(SLOT_LENS))]
    if any(row is None for row in rows):
        return None
    for code, tokens, reason in _BOUNDS:
        if all(_weigh(row, tokens(n)) for row, n in zip(rows, SLOT_LENS, strict=True)):
            words = reason.format(twice=PART, last=PART - 1)
            return Diagnosis(
                code, f"In a probe with partitions of {PART} keys, in a sequence of {SLOT_LENS[1]}, {words}."
            )
    return None


def _weigh(row, tokens):
    right = [tokens.count(t) / max(len(tokens), 1) for t in range(len(row))]
    wrong = right != [1 / len(row)] * len(row) or len(row) <= PART
    return wrong and all(abs(got - want) < 1e-4 for got, want in zip(row, right, strict=True))


def _by_equal_tokens(evidence):
    """Nine equal keys in partitions of 5 and 4: what each partition weighs."""
    row = _row(evidence, 1)
    if row is None:
        return None
    shares = sum(row[:PART]), sum(row[PART:])
    n, rest = SLOT_LENS[1], SLOT_LENS[1] - PART
    if near(shares[0], PART / n, 1e-3) and near(shares[1], rest / n, 1e-3):
        return None
    start = (
        f"In a probe {n} keys of equal weight lie in partitions of {PART} and {rest}, which must weigh {PART / n:.4g} "
        f"and {rest / n:.4g}; they weigh {shares[0]:.4g} and {shares[1]:.4g}"
    )
    table = (
        (0.5, 0.5, "plain_mean", "a plain mean. A partition weighs what its keys weigh together: exp of its lse"),
        (1.0, 1.0, "no_division", "their sum: the division by the sum of the weights is missing"),
        (1.0, rest / PART, "no_division", "right but for a factor: the division by the sum of the weights is missing"),
        (PART, rest, "no_division", "right but for a factor: the division by the sum of the weights is missing"),
        (_share(math.log(2.0)), 1 - _share(math.log(2.0)), "exp_exp2_mix",
         "2 to the lse, and lse is a natural logarithm: exp"),
        (_share(1 / math.log(2.0)), 1 - _share(1 / math.log(2.0)), "exp_exp2_mix", "exp of lse in base 2"),
        (_log_share(), 1 - _log_share(), "weighted_by_lse",
         "in the ratio of their lse: the weight is exp(lse - largest)"),
        (_share(-1.0), 1 - _share(-1.0), "inverse_weights", "turned round: exp(lse - largest), not exp(largest - lse)"),
    )  # fmt: skip
    for first, second, code, words in table:
        if near(shares[0], first, 1e-3) and near(shares[1], second, 1e-3):
            return Diagnosis(code, f"{start}: {words}.")
    return None


def _share(power):
    """What the first of partitions of 5 and 4 equal keys weighs by (number of keys) ** power."""
    return PART**power / (PART**power + (SLOT_LENS[1] - PART) ** power)


def _log_share():
    return math.log(PART) / (math.log(PART) + math.log(SLOT_LENS[1] - PART))


def _by_two(evidence):
    """Two partitions as long as each other, scores 0 and 1."""
    reading = evidence.readings.get("two partitions")
    if reading is None or not all(math.isfinite(value) for value in reading):
        return None
    right = 1 / (1 + math.e), math.e / (1 + math.e)
    if near(reading[0], right[0], 1e-3) and near(reading[1], right[1], 1e-3):
        return None
    start = (
        f"Two partitions of {HALF} keys, scores 0 in the first and 1 in the second, must weigh {right[0]:.4g} and "
        f"{right[1]:.4g}; they weigh {reading[0]:.4g} and {reading[1]:.4g}"
    )
    if near(reading[0], 0.5, 1e-3) and near(reading[1], 0.5, 1e-3):
        return Diagnosis(
            "weighted_by_keys", f"{start}, as by their number of keys. Only lse knows what the keys weigh."
        )
    return None


def _by_lse(evidence):
    got = evidence.readings.get("two partitions, lse")
    if got is None or not math.isfinite(got) or near(got, math.log(2 * HALF), 1e-4):
        return None
    one = math.log(HALF)
    start = (
        f"{2 * HALF} scores of 0 in two partitions: each has lse ln({HALF}) = {one:.4g}, together ln({2 * HALF}) = "
        f"{one + math.log(2):.4g}; here it is {got:.4g}"
    )
    table = (
        (one, "lse_without_sum", "the largest alone. lse = largest + log(sum of the weights)"),
        (2 * one, "lse_summed", "their sum: logarithms of sums do not add up"),
        (math.log(2.0), "lse_without_max", "the largest is missing: the weights were taken relative to it"),
        (one + 1.0, "lse_base_2", "log2 of the sum of the weights; lse is natural"),
        (one + 2.0, "lse_without_log", "the sum of the weights was added, not its logarithm"),
    )
    for value, code, words in table:
        if near(got, value, 1e-4):
            return Diagnosis(code, f"{start}: {words}.")
    return None


def _by_size(evidence):
    """exp of an lse near 100 or -100."""
    failing = {case.case.values for case in evidence.failing()}
    if not failing or not failing <= {"plus_100", "minus_100", "spikes"}:
        return None
    case = evidence.failing()[0]
    name, comparison = case.first_wrong
    return Diagnosis(
        "no_max",
        f"Right for scores near 0; in the case {case.case.name!r} {name} is {comparison.got:.4g} in place of "
        f"{comparison.expected:.4g}: exp(lse) is more, or less, than float32 holds. Take the largest lse off first.",
    )


def _oracle(case, tensors):
    return partials.with_partials(case, tensors, cases.oracle(case, tensors), torch.float64)


def _traffic(case, ledger):
    """Nothing but out, lse and the partials of those that take part is written, each number once."""
    rows = sum(1 + parts for parts in partials.num_parts(case)) * case.sizes["num_heads"]
    why = "out, lse and the partials of each partition that takes part, each number once"
    return moved(case, ledger, written=4 * rows * (cases.head_dim(case) + 1), why=why)


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one token", (1,), 4, schedules=("forward", "reverse")),
        _case("exactly one partition", (6,), 6),
        _case("one above a partition", (7,), 6, schedules=("forward", "reverse", "random")),
        _case("one below two partitions", (11,), 6),
        _case("partitions of 1", (3,), 1),
        _case("mixed lengths, grouped heads", (9, 2), 5, (4, 2), schedules=("forward", "reverse"), late=True),
        _case("more partitions than needed", (9, 3), 4, spare=2),
        _case("a sequence without tokens", (0, 9), 4),
        _case("heads before slots", (9, 4), 7, (2, 2), hnd=True, late=True),
        _case("head_dim 64, three query heads for each of k", (7,), 5, (6, 2), head_dim=64, block_n=4, late=True),
        _case("softmax_scale of another size", (10,), 6, scale=0.4, block_n=16),
        _case("pages of 3", (11, 4), 5, (2, 1), page=3, late=True),
        _case("pages of 16, head_dim 128", (21,), 12, page=16, head_dim=128),
        _case("rising scores", (14,), 5, values="rising"),
        _case("scores near -100", (13,), 4, values="minus_100"),
        _case("scores near +100", (13,), 4, values="plus_100"),
        _case("one score of 120", (14,), 5, values="spikes"),
        _case("table that ends in -1", (10,), 4, minus_one=True),
        _case("partitions of 40", (90,), 40, late=True),
        _case("130 partitions of 1", (130,), 1, late=True),
        _case("scores of -32,512 and 32,512", (9,), 4, (2, 1), scale=0.25, level=cases.LEVEL, whole=True, late=True),
        cases.far_below((12,), partition_len=4),
        _case("keys of tiny weight", (20,), 4, faint=True, late=True),
    ),
    make_inputs=cases.inputs,
    make_run=_run,
    oracle=_oracle,
    baseline=lambda case, tensors: partials.with_partials(case, tensors, cases.baseline(case, tensors), torch.float32),
    rules={"out": "weights", "lse": "lse", "partial_out": "weights", "partial_lse": "lse", "counters": "exact"},
    unread=partials.unread,
    ledger_rule=_traffic,
    largest_score=cases.largest_score,
    probes=_probes(),
    diagnose=_diagnose,
    explain=extent.explain,
    explain_unwritten=partials.explain_unwritten,
    bound_bytes=cases.bound,
    tile=lambda case: (1, cases.head_dim(case)),
)

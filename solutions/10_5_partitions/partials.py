"""What every partition of 10.5 leaves behind, and which keys it held when that is not what it should be.

May import: verdict, evidence (as data), subjects.paged, reference, torch.
"""

import torch

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.paged import cases
from course_lib.reference import attention, paged


def num_parts(case):
    """Programs of a row that take part, for each sequence."""
    partition_len = case.options["partition_len"]
    return [max(1, -(-seq_len // partition_len)) for seq_len in case.options["seq_lens"]]


def num_partitions(case):
    """Programs of a row that are launched."""
    return max(1, -(-case.sizes["seq_len_kv"] // case.options["partition_len"])) + case.options.get("spare", 0)


def with_partials(case, tensors, whole, dtype):
    """`whole`, out and lse, with partial_out, partial_lse and counters; 0 where a partition does not take part."""
    rows, parts = tuple(tensors["q"].shape[:2]), num_partitions(case)
    out = torch.zeros(*rows, parts, cases.head_dim(case), dtype=dtype)
    lse = torch.zeros(*rows, parts, dtype=dtype)
    length = case.options["partition_len"]
    for b, seq_len in enumerate(case.options["seq_lens"]):
        k, v = (_rows(case, tensors, name, b).to(dtype) for name in ("k_pages", "v_pages"))
        q = tensors["q"][b, :, None].to(dtype)
        for part in range(num_parts(case)[b]):
            keys = slice(part * length, min(seq_len, (part + 1) * length))
            if seq_len == 0:
                lse[b, :, part] = -torch.inf
                continue
            one = attention.rounded_attention_lse(q, k[:, keys], v[:, keys], softmax_scale=cases.scale(case))
            out[b, :, part], lse[b, :, part] = one[0][:, 0], one[1][:, 0]
    counters = torch.tensor(num_parts(case), dtype=torch.float64)[:, None].expand(rows).contiguous()
    counters = counters if dtype == torch.float64 else counters.int()
    return whole | {"partial_out": out, "partial_lse": lse, "counters": counters}


def _rows(case, tensors, name, b):
    pages, seq_len = tensors[name], case.options["seq_lens"][b]
    return paged.gathered(pages, tensors["block_table"][b], seq_len, layout=cases.layout(case))


def unread(case, tensors):
    """Partials of partitions that do not take part, and each lse of scores below -1e9."""
    rows, parts = tuple(tensors["q"].shape[:2]), num_partitions(case)
    idle = torch.arange(parts)[None, None, :] >= torch.tensor(num_parts(case))[:, None, None]
    idle = idle.expand(*rows, parts).contiguous()
    partial_out = idle[..., None].expand(*rows, parts, cases.head_dim(case)).contiguous()
    far_below = cases.unread(case, tensors)
    return far_below | {"partial_lse": idle | bool(far_below), "partial_out": partial_out}


def by_partials(evidence):
    """out and lse are right, and the way to them is not the one of the contract."""
    failing = [case for case in evidence.failing() if case.comparisons]
    if failing and all(cases.lowest(case.case) is not None and _partials_right(case) for case in failing):
        return Diagnosis(
            "finite_infinity",
            f"Right for scores near 0, 100 and -100, wrong in the case {failing[0].case.name!r}, where the partials "
            f"are right and their lse lies near {cases.lowest(failing[0].case):,.0f}: the reduction takes a finite "
            "number for -inf, and this lse is below it. Only -inf says that a partition has no key.",
        )
    if failing and all(_nan_alone(case) for case in failing):
        return Diagnosis(
            "reduction_undefined",
            f"In the case {failing[0].case.name!r} the partials are right, and so is lse, but out is NaN: the "
            "reduction adds a partition whose weight is 0 and whose partial_out is undefined, and 0 times NaN is NaN. "
            "Load 0 for the partitions that do not take part: a mask without other=0.0 leaves them undefined.",
        )
    if not failing or not all(case.comparisons[name].passed for case in failing for name in ("out", "lse")):
        return None
    case = failing[0]
    length, lens = case.case.options["partition_len"], case.case.options["seq_lens"]
    for name in ("partial_lse", "partial_out"):
        wrong = case.comparisons[name]
        if not wrong.passed and wrong.index is not None:
            b, head, part = wrong.index[:3]
            first, end = part * length, min(lens[b], (part + 1) * length)
            held = _held(case, b, head, part)
            fits = f"; that fits the keys {held[0]} to {held[1]}" if held else ""
            return Diagnosis(
                "wrong_partition",
                f"out and lse are right, but in the case {case.case.name!r} partition {part} of sequence {b} must have "
                f"the keys {first} to {end - 1}; {name} of head {head} is {wrong.got:.4g} in place of "
                f"{wrong.expected:.4g}{fits}.",
            )
    wrong = case.comparisons["counters"]
    b = wrong.index[0]
    ended = all(not case.first.outputs["counters"].any() for case in failing)
    reset = " It must still hold num_parts at the end: it was set back to 0, or never counted." if ended else ""
    return Diagnosis(
        "wrong_count",
        f"Everything is right but counters: in the case {case.case.name!r} {int(wrong.expected)} of "
        f"{num_partitions(case.case)} programs of a row take part, for {lens[b]} keys in partitions of {length}, and "
        f"each counts once; the counter of sequence {b} holds {wrong.got:g}.{reset}",
    )


def _partials_right(case):
    return all(case.comparisons[name].passed for name in ("partial_out", "partial_lse"))


def _nan_alone(case):
    """Whether out is NaN for a sequence that has tokens, and all else is right."""
    others = all(each.passed for name, each in case.comparisons.items() if name != "out")
    return others and bool(case.first.outputs["out"][case.inputs["seq_lens"] > 0].isnan().any())


def by_borders(evidence):
    """A partition that holds other keys than its own, by its partial_lse and by its partial_out."""
    for case in evidence.failing_by_values():
        wrong = case.comparisons["partial_lse"]
        if wrong.passed or wrong.index is None:
            continue
        b, head, part = wrong.index
        held = _held(case, b, head, part)
        length, seq_len = case.case.options["partition_len"], case.case.options["seq_lens"][b]
        if held is None:
            return None
        return Diagnosis(
            "wrong_partition",
            f"In the case {case.case.name!r} sequence {b} has {seq_len} keys in partitions of {length}. Partition "
            f"{part} must have the keys {part * length} to {min(seq_len, (part + 1) * length) - 1}; its partials are "
            f"those of the keys {held[0]} to {held[1]}. It begins at part * partition_len and ends partition_len later "
            "or with the sequence.",
        )
    return None


def by_reduction(evidence):
    """The partials are right, and out and lse are what the first of them give."""
    case = next(iter(evidence.failing_by_values()), None)
    if case is None or not _partials_right(case) or case.comparisons["lse"].index is None:
        return None
    b, head = case.comparisons["lse"].index
    parts = num_parts(case.case)[b]
    sums = torch.logcumsumexp(case.ref["partial_lse"][b, head, :parts], 0)
    near = ((sums - case.first.outputs["lse"][b, head]).abs() < 1e-4).nonzero().flatten()
    for last in near.tolist():
        weights = torch.exp(case.ref["partial_lse"][b, head, : last + 1] - sums[last])
        out = weights @ case.ref["partial_out"][b, head, : last + 1]
        if torch.allclose(case.first.outputs["out"][b, head].double(), out, rtol=1e-3, atol=1e-4):
            return Diagnosis(
                "partitions_left_out",
                f"In the case {case.case.name!r} sequence {b} has {parts} partitions, and their partials are right; "
                f"out and lse are what the first {last + 1} of them give. All num_parts of them are reduced.",
            )
    return None


def explain_unwritten(case, name):
    """out or lse were never written though all programs that take part have counted: none took itself for the last."""
    if name not in ("out", "lse"):
        return None
    left = case.unwritten(name).flatten(2).any(dim=2) if name == "out" else case.unwritten(name)
    b, head = left.nonzero()[0].tolist()
    parts, counted = num_parts(case.case)[b], int(case.first.outputs["counters"][b, head])
    if counted != parts:
        return None
    return Diagnosis(
        "never_last",
        f"In the case {case.case.name!r} {name} of sequence {b} was never written, though its counter holds {counted}: "
        f"{'the one program that takes' if parts == 1 else f'all {parts} programs that take'} part, for "
        f"{case.case.options['seq_lens'][b]} keys in partitions of {case.case.options['partition_len']}, counted. None "
        f"took itself for the last one, arrived == num_parts - 1: is num_parts larger than {parts}?",
    )


def _held(case, b, head, part):
    """(first, last) of the range of keys that partial_lse and partial_out fit, or None."""
    k, v = (_rows(case.case, case.inputs, name, b).double() for name in ("k_pages", "v_pages"))
    q = case.inputs["q"][b, :, None].double()
    scores = attention.rounded_scores(q, k, softmax_scale=cases.scale(case.case))[head, 0]
    v = v[head * len(v) // len(q)]
    lse, out = (case.first.outputs[name][b, head, part].double() for name in ("partial_lse", "partial_out"))
    for first in range(len(scores)):
        sums = torch.logcumsumexp(scores[first:], 0)
        for last in (first + ((sums - lse).abs() < 1e-5).nonzero().flatten()).tolist():
            weights = torch.softmax(scores[first : last + 1], 0)
            if torch.allclose(weights @ v[first : last + 1], out, rtol=1e-3, atol=1e-4):
                return first, last
    return None

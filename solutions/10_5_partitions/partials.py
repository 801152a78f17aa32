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
    """Partials of partitions that do not take part."""
    rows, parts = tuple(tensors["q"].shape[:2]), num_partitions(case)
    idle = torch.arange(parts)[None, None, :] >= torch.tensor(num_parts(case))[:, None, None]
    idle = idle.expand(*rows, parts).contiguous()
    return {"partial_lse": idle, "partial_out": idle[..., None].expand(*rows, parts, cases.head_dim(case)).contiguous()}


def by_partials(evidence):
    """out and lse are right, and the way to them is not the one of the contract."""
    failing = [case for case in evidence.failing() if case.comparisons]
    if failing and all("level" in case.case.options and _partials_right(case) for case in failing):
        return Diagnosis(
            "finite_infinity",
            f"Right for scores near 0, 100 and -100, wrong in the case {failing[0].case.name!r}, where the partials "
            "are right and their lse lies near -32,512: the reduction takes a finite number for -inf, and this lse is "
            "below it. Only -inf says that a partition has no key.",
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
            return Diagnosis(
                "wrong_partition",
                f"out and lse are right, but in the case {case.case.name!r} partition {part} of sequence {b} must have "
                f"the keys {first} to {end - 1}; {name} of head {head} is {wrong.got:.4g} in place of "
                f"{wrong.expected:.4g}{_held(case, b, head, part)}.",
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


def _held(case, b, head, part):
    """ "; that fits the keys 0 to 8", or "" when partial_lse fits no range of keys."""
    k = _rows(case.case, case.inputs, "k_pages", b).double()
    q = case.inputs["q"][b, :, None].double()
    scores = attention.rounded_scores(q, k, softmax_scale=cases.scale(case.case))[head, 0]
    got = case.first.outputs["partial_lse"][b, head, part].double()
    for first in range(len(scores)):
        sums = torch.logcumsumexp(scores[first:], 0)
        hit = ((sums - got).abs() < 1e-5).nonzero()
        if len(hit):
            return f"; that fits the keys {first} to {first + int(hit[0])}"
    return ""

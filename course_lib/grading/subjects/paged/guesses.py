"""What a wrong result of chapter 10 is right for: another scale, a shorter sequence, other groups of heads.

A guess counts when all of out and lse of every failing case are what attention gives with it.

May import: verdict, evidence (as data), cases, torch.
"""

from dataclasses import replace

import torch

from ...report.verdict import Diagnosis
from . import cases

_LIMITS = sorted({1 << n for n in range(3, 14)} | {12288})


def by_guess(evidence):
    """Diagnosis of the guess that all failing cases fit, or None."""
    failing = [case for case in evidence.failing() if {"out", "lse"} <= case.comparisons.keys()]
    looks = (_by_scale, _by_length, _by_group)
    return next((found for look in looks if failing and (found := look(evidence, failing)) is not None), None)


def _fits(evidence, failing, guess):
    """Whether every case, a right one too, holds what the oracle gives for `guess(case, inputs)`.

    A guess of None says nothing of a case: then it must be right.
    """
    others = [one for one in evidence.cases if one.ran and one not in failing]
    for one in [*failing, *others]:
        changed = guess(one.case, one.inputs)
        if changed is None and one in failing:
            return False
        if changed is not None and not fits(one, evidence.exercise.oracle(*changed)):
            return False
    return True


def fits(one, expected):
    """Whether out and lse of a case are those expected, far nearer than to the right ones where they are wrong."""
    for name in ("out", "lse"):
        got, want, right = (values[name].double() for values in (one.first.outputs, expected, one.ref))
        if not torch.equal(torch.isfinite(got), torch.isfinite(want)):
            return False
        finite = torch.isfinite(want) & torch.isfinite(right)
        size = want[finite].abs().max().item() if bool(finite.any()) else 0.0
        error, off = (
            (got - other)[finite].abs().max().item() if bool(finite.any()) else 0.0 for other in (want, right)
        )
        limit = 1e-3 * max(size, 1.0 if name == "lse" else 1e-30)  # less than that float32 does not hold
        if error > limit or (not one.comparisons[name].passed and error > 0.1 * off):
            return False
    return True


def _with(case, **options):
    return replace(case, options=case.options | options)


def _by_scale(evidence, failing):
    """softmax_scale of a case that is not 1 / sqrt(head_dim)."""
    case = failing[0].case
    own = cases.head_dim(case)
    usual = own**-0.5
    fixed = _fits(evidence, failing, lambda c, t: (_with(c, scale=usual), t))
    if not fixed and not _fits(evidence, failing, lambda c, t: (_with(c, scale=cases.head_dim(c) ** -0.5), t)):
        return None
    return Diagnosis(
        "scale_ignored",
        f"softmax_scale is ignored. In the case {case.name!r} it is {cases.scale(case):.4g}, and out and lse are right "
        f"for {usual:.4g} = 1 / sqrt({own}). Multiply by the argument; it need not be 1 / sqrt(head_dim).",
    )


def _by_length(evidence, failing):
    """The tokens after a fixed number, of tokens or of pages, were left out."""
    case = failing[0].case
    if any(one.case.values not in ("normal", "step") for one in failing):
        return None  # tokens that weigh little may be missing for another reason
    page_size, seq_len = case.sizes["page_size"], max(case.options["seq_lens"])
    for limit in sorted({*_LIMITS, *(page_size * pages for pages in _LIMITS)}):
        if limit >= seq_len or not _fits(evidence, failing, lambda c, t, n=limit: _cut(c, t, n)):
            continue
        pages = f", {limit // page_size} pages of {page_size}," if limit % page_size == 0 else ""
        return Diagnosis(
            "later_tokens_left_out",
            f"In the case {case.name!r} a sequence has {seq_len:,} tokens, and out and lse are right for the first "
            f"{limit:,} of them{pages} alone. A sequence may have any number of tokens and of pages.",
        )
    return None


def _cut(case, tensors, limit):
    if int(tensors["seq_lens"].max()) <= limit:
        return None
    return case, tensors | {"seq_lens": tensors["seq_lens"].clamp(max=limit)}


def _by_group(evidence, failing):
    """Query heads in groups of a fixed size."""
    for group in (1, 2, 3, 4):
        if _fits(evidence, failing, lambda c, t, g=group: _grouped(c, t, g)):
            sizes = failing[0].case.sizes
            right = sizes["num_heads"] // sizes["num_kv_heads"]
            return Diagnosis(
                "group_fixed",
                f"In the case {failing[0].case.name!r} num_q_per_kv is {right}, and out and lse are right for query "
                f"heads that read head / {group}. Divide by the argument.",
            )
    return None


def _grouped(case, tensors, group):
    """The pools with a head for each query head, as groups of `group` would read them; None where one is missing."""
    num_heads, num_kv_heads = case.sizes["num_heads"], case.sizes["num_kv_heads"]
    heads = torch.arange(num_heads) // group
    if num_heads == num_kv_heads * group or int(heads.max()) >= num_kv_heads:
        return None
    axis = 1 if case.options.get("hnd") else 2
    pools = {name: value.index_select(axis, heads) for name, value in tensors.items() if name[1:] in _OF_HEADS}
    return replace(case, sizes=case.sizes | {"num_kv_heads": num_heads}), tensors | pools


_OF_HEADS = ("_pages", "_scales")


def by_floor(evidence):
    """Right but for scores far below a number that takes the place of minus infinity, or far above another."""
    failing = evidence.failing()
    if not failing or any(cases.lowest(one.case) is None or not one.comparisons for one in failing):
        return None
    example = next((one.case for one in failing if "level" in one.case.options), failing[0].case)
    level, full, partial, high = cases.lowest(example), set(), set(), False
    for one in failing:
        wrong = _wrong_rows(one)
        if wrong is None:
            return None
        high = high or bool(wrong[:, 1::2].any())
        for row, seq_len in zip(wrong[:, ::2], one.inputs["seq_lens"].tolist(), strict=True):
            (partial if seq_len % one.case.sizes["page_size"] else full).add(bool(row.any()))
    lower = any("level" in one.case.options for one in evidence.passing())
    usual = "near 0, 100, -100 and -32,512" if lower else "near 0, 100 and -100"
    start = f"Right for scores {usual}, wrong in the case {example.name!r}, near"
    if high:
        both = f" and {level:,.0f}" if True in full | partial else ""
        return Diagnosis("score_bounded", f"{start} {-level:,.0f}{both}: is a score kept below a number?")
    if True in partial and full == {False}:
        return Diagnosis(
            "masked_score_too_high",
            f"{start} {level:,.0f}, and there only where the last page is not full: the score of a masked slot is a "
            f"finite number, which {level:,.0f} lies below. It must be -inf.",
        )
    if True in full:
        return Diagnosis(
            "m_starts_too_high",
            f"{start} {level:,.0f}, where the last page is full too: m began at a finite number, which {level:,.0f} "
            "lies below, and every exponential is 0. m starts at -inf.",
        )
    return None


def _wrong_rows(one):
    """(batch_size, num_heads) bool: rows with a wrong lse, or with a wrong out where lse is not compared; or None."""
    if one.unread.get("lse") is None:
        return one.comparisons["lse"].wrong
    wrong = one.comparisons["out"].wrong
    return None if wrong is None else wrong.any(dim=2)


def by_faint(evidence):
    """Many keys of tiny weight look as if they were not there.

    Near -1e9 a float32 threshold of 16 below the maximum is the maximum itself: such cases say nothing else.
    """
    failing = [one for one in evidence.failing() if one.case.values != "below_1e9"]
    if not failing or any(not one.case.options.get("faint") or not one.comparisons for one in failing):
        return None
    case = failing[0]
    name, comparison = case.first_wrong
    return Diagnosis(
        "small_weights_dropped",
        f"In the case {case.case.name!r} the first of {case.case.sizes['seq_len_kv']} keys has score 0 and v = 0, half "
        f"of the others have the score {cases.FAINT[0]:.4g}, half {cases.FAINT[1]:.4g}, and v of theirs is large. "
        f"{name} is {comparison.got:.6g}, expected {comparison.expected:.6g}: keys of tiny weight were left "
        "out, or lost in a sum. They count for what they weigh together.",
    )


def by_page_size(evidence):
    """Wrong where the page size is no power of two, right below and above."""
    failing, passing = (
        [one.case.sizes["page_size"] for one in some] for some in (evidence.failing(), evidence.passing())
    )
    if not failing or not passing or any(size & (size - 1) == 0 for size in failing):
        return None
    if any(size & (size - 1) for size in passing) or not min(passing) < min(failing) <= max(failing) < max(passing):
        return None
    return Diagnosis(
        "page_size_a_power",
        f"Right with pages of {min(passing)} and of {max(passing)}, wrong with pages of {failing[0]}: page_size need "
        "not be a power of two. Divide by it; a shift or a mask of bits is right for powers of two alone.",
    )

"""10.1 Block table arithmetic: what the judge runs."""

from functools import partial

import torch

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Ref, Run
from course_lib.grading.report.verdict import Diagnosis

FAR = 1 << 27  # page numbers of a pool whose slots pass 2^31


def _case(name, start, end, page_size, **options):
    return Case(name, {"start": start, "end": end, "page_size": page_size}, "page numbers", "int64", options)


def _inputs(case, gen):
    """{"block_row": (max_pages,) int32}: random pages, then -1 past the last page of the sequence."""
    _, end, page_size = case.sizes.values()
    pages = -(-end // page_size)
    first = FAR if case.options.get("far") else 1
    order = torch.randperm(pages + 9, generator=gen)
    order = order[order != 0][:pages] + first  # page `first` is never taken: no table is the identity
    if case.options.get("page_0"):
        order[pages // 2] = 0
    return {"block_row": torch.cat((order, torch.full((2,), -1))).to(torch.int32)}


def _run(case, tensors):
    start, end, page_size = case.sizes.values()
    outputs = {"slots": ((max(end - start, 0),), "int64"), "new_pages": ((), "int64"), "unused": ((), "int64")}
    return Run(case.name, tensors, outputs, (Ref("block_row"), start, end, page_size))


def _pages(tokens, page_size):
    return -(-tokens // page_size)


def _right(case, tensors, dtype):
    start, end, page_size = case.sizes.values()
    tokens = torch.arange(start, end)
    slots = tensors["block_row"].long()[tokens // page_size] * page_size + tokens % page_size
    new_pages = _pages(end, page_size) - _pages(start, page_size)
    unused = _pages(end, page_size) * page_size - end
    return {
        "slots": slots.to(dtype or torch.int64),
        "new_pages": torch.tensor(new_pages, dtype=dtype or torch.int64),
        "unused": torch.tensor(unused, dtype=dtype or torch.int64),
    }


_SLOTS = (
    ("logical_as_physical", lambda row, t, p: t,
     "that is the token's own number: page {logical} of the sequence is page block_row[{logical}] of the pool"),
    ("int32_overflow", lambda row, t, p: (row[t // p].int() * p + (t % p).int()).long(),
     "page {page} times {page_size} is more than an int32 holds, and wrapped round: make the page int64 first"),
    ("offset_forgotten", lambda row, t, p: row[t // p] * p,
     "that is where page {page} begins; the token is number {offset} in it"),
    ("page_alone", lambda row, t, p: row[t // p], "that is the page alone; it holds {page_size} slots"),
    ("page_not_scaled", lambda row, t, p: row[t // p] + t % p,
     "that is page + offset: each page before page {page} holds {page_size} slots"),
    ("strides_swapped", lambda row, t, p: row[t // p] + t % p * len(row),
     "that is page + offset * (number of pages): the slots of a page are contiguous"),
    ("div_and_mod_swapped", lambda row, t, p: row[(t % p).clamp(max=len(row) - 1)] * p + t // p,
     "token // page_size says which page, token % page_size which slot of it; here the two are swapped"),
    ("counted_from_start", lambda row, t, p: row[(t - t[0]) // p] * p + (t - t[0]) % p,
     "that counts from token {start} as if it were token 0: {start} tokens are stored already"),
    ("off_by_one", lambda row, t, p: row[(t + 1) // p] * p + (t + 1) % p,
     "that is the slot of token {next}: the {start} tokens already stored have the numbers 0 to {last}"),
    ("off_by_one", lambda row, t, p: row[(t - 1) // p] * p + (t - 1) % p, "that is the slot of token {previous}"),
)  # fmt: skip


def _diagnose(evidence):
    looks = (_by_slots, *(partial(_by_count, *count) for count in _COUNTS))
    return next((diagnosis for look in looks if (diagnosis := look(evidence)) is not None), None)


def _wrong(evidence, name):
    return [case for case in evidence.failing() if case.comparisons and not case.comparisons[name].passed]


def _by_slots(evidence):
    """Which rule gives these slots, in every case that is wrong."""
    wrong = _wrong(evidence, "slots")
    if not wrong:
        return None
    case = next((one for one in wrong if one.case.sizes["start"]), wrong[0])  # one with tokens before, if there is one
    start, end, page_size = case.case.sizes.values()
    first = case.comparisons["slots"].index[0]
    token, got = start + first, int(case.first.outputs["slots"][first])
    row = case.inputs["block_row"].long()
    words = {
        "logical": token // page_size, "page": int(row[token // page_size]), "offset": token % page_size,
        "page_size": page_size, "start": start, "last": start - 1, "next": token + 1, "previous": token - 1,
    }  # fmt: skip
    begin = (
        f"Case {case.case.name!r}, pages of {page_size}: token {token} lies in page {token // page_size} of the "
        f"sequence, which is page {words['page']} of the pool, at offset {words['offset']}. That is slot "
        f"{int(case.ref['slots'][first])} of the pool; here it is {got}"
    )
    for code, rule, reason in _SLOTS:
        if all(_follows(one, rule) for one in wrong):
            return Diagnosis(code, f"{begin}: {reason.format(**words)}.")
    return Diagnosis("wrong_slots", f"{begin}. slot = page * page_size + token % page_size.")


def _follows(case, rule):
    start, end, page_size = case.case.sizes.values()
    try:
        expected = rule(case.inputs["block_row"].long(), torch.arange(start, end), page_size)
    except IndexError:
        return False
    return torch.equal(case.first.outputs["slots"], expected.long())


_NEW = (
    ("whole_sequence", lambda s, e, p: _pages(e, p),
     "that counts all pages of the sequence, those it holds already too"),
    ("appended_alone", lambda s, e, p: _pages(e - s, p),
     "that is ceil({new} / {p}), as if the new tokens began a page; the last page has room for {room}"),
    ("rounded_down", lambda s, e, p: e // p - s // p,
     "that rounds down; a page that is not full is a page: {after} in the end, {before} before"),
    ("rounded_down", lambda s, e, p: (e - s) // p, "that is {new} // {p}: pages are counted from the sequence's start"),
    ("one_too_many", lambda s, e, p: _pages(e, p) - _pages(s, p) + 1,
     "one page too many: {e} tokens take {after} pages, and the sequence holds {before}"),
    ("one_too_many", lambda s, e, p: e // p + 1 - _pages(s, p),
     "{e} // {p} + 1 is one too many where {e} is a multiple of {p}"),
    ("tokens_not_pages", lambda s, e, p: e - s, "that is the number of tokens"),
)  # fmt: skip


_UNUSED = (
    ("no_page_boundary", lambda s, e, p: p - e % p,
     "where the last page is full, {p} - 0 is a whole page that the sequence does not hold"),
    ("used_not_unused", lambda s, e, p: e % p, "that many slots of the last page are in use; the others are free"),
    ("new_tokens_alone", lambda s, e, p: _pages(e - s, p) * p - (e - s),
     "that leaves out the {s} tokens stored before"),
    ("before_the_append", lambda s, e, p: _pages(s, p) * p - s, "that is what was free before the append"),
    ("pages_alone", lambda s, e, p: _pages(e, p) * p, "those are all slots of its pages; {e} of them are in use"),
)  # fmt: skip


_COUNTS = (  # output, its rules, what the right number says, the code where no rule fits
    ("new_pages", _NEW, "takes {right} new pages", "pages_wrong"),
    ("unused", _UNUSED, "leaves {right} slots of its pages unused", "unused_wrong"),
)


def _by_count(name, rules, what, fallback, evidence):
    """Which rule gives these counts in every case that is wrong."""
    wrong = _wrong(evidence, name)
    if not wrong:
        return None
    case = wrong[0]
    s, e, p = case.case.sizes.values()
    got, right = case.first.outputs[name].item(), int(case.ref[name])
    words = {"s": s, "e": e, "p": p, "new": e - s, "before": _pages(s, p), "after": _pages(e, p)}
    words |= {"room": _pages(s, p) * p - s}
    begin = (
        f"A sequence grows from {s} to {e} tokens, page_size {p}: that {what.format(right=right)}; here it is {got:g}"
    )
    for code, rule, reason in rules:
        if all(one.first.outputs[name].item() == rule(*one.case.sizes.values()) for one in wrong):
            return Diagnosis(code, f"{begin}: {reason.format(**words)}.")
    return Diagnosis(fallback, f"{begin}. n tokens take ceil(n / page_size) pages.")


EXERCISE = exercise(
    __file__,
    cases=(
        _case("the first token", 0, 1, 4),
        _case("nothing appended", 6, 6, 4),
        _case("up to the end of a page", 5, 8, 4),
        _case("one beyond a page", 5, 9, 4),
        _case("from a full page on", 8, 11, 4),
        _case("a whole prompt", 0, 53, 16),
        _case("pages of one token", 3, 7, 1),
        _case("pages of 3", 17, 40, 3),
        _case("one token of many", 1000, 1001, 16),
        _case("no token yet", 0, 0, 4),
        _case("nothing appended to full pages", 8, 8, 4),
        _case("page 0 in use", 9, 14, 4, page_0=True),
        _case("pages of 600", 599, 20_000, 600),
        _case("a pool of more than 2^31 slots", 30, 40, 16, far=True),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=lambda case, tensors: _right(case, tensors, torch.float64),
    baseline=lambda case, tensors: _right(case, tensors, None),
    rules={"slots": "exact", "new_pages": "exact", "unused": "exact"},
    diagnose=_diagnose,
)

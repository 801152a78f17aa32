"""Diagnoses of a kernel that writes into a pool of pages: every number is unique, so its value says where it came from.

May import: verdict, evidence (as data), subjects.ledger, subjects.paged, torch.
"""

import re

import torch

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.ledger.moved import moved
from course_lib.grading.subjects.ledger.share import share
from course_lib.grading.subjects.paged.guesses import by_page_size
from course_lib.grading.subjects.paged.slots import padding_written

STEP = 4099  # between two numbers of a case, so that a rounded one is no other's

# what case.options["far"] says -> (page size, number of the first slot that exists; None: pages are spread over it)
_FAR = {"slots": (1 << 30, None), "pages": (None, 1 << 28), "offsets": (1 << 29, 1 << 28)}

FAR_TOKENS = ((1 << 30) + 96, (1 << 30) + 128)  # stride_k_token and stride_v_token where far is "tokens"


def page_size_of(case):
    """The page_size that the answer gets."""
    return _FAR.get(case.options.get("far"), (None, 0))[0] or case.sizes["page_size"]


def numbers_ahead(case, pages):
    """Numbers of a pool that come before its first one, and do not exist."""
    first = _FAR.get(case.options.get("far"), (None, 0))[1] or 0
    return first * pages.shape[2] * pages.shape[3]


def far_slot(case, slots):
    """The slots that the answer gets for those of the pool that exists."""
    size, first = _FAR[case.options["far"]]
    page_size = case.sizes["page_size"]
    return slots // page_size * size + slots % page_size if first is None else slots + first


def page_and_offset(case, slot):
    """(page, offset in it) of a slot, in the pool that exists."""
    size, first = _FAR.get(case.options.get("far"), (None, 0))
    return divmod(slot, size) if first is None else divmod(slot - first, case.sizes["page_size"])


def explain(fault, case, evidence):
    """Diagnosis of an access out of bounds in a late case, or where the strides of a page were not used, or None."""
    if case.case.options.get("gaps"):
        return _by_gaps(evidence.failing())
    if fault.kind != "out_of_bounds":
        return None
    if not case.case.late:
        return _by_layout(fault, case, evidence) or by_page_size(evidence)
    begin = f"Right where slots and addresses are small. In the case {case.case.name!r}"
    if case.case.options.get("any_negative"):
        return padding_written(fault, case, begin)
    if case.case.options.get("far") == "tokens":
        return _by_far_tokens(fault, case, begin)
    slot = int(case.inputs["slot_mapping"][0])
    stride = case.inputs["k_before"][0].stride(1)
    return Diagnosis(
        "int32_overflow",
        f"{begin} token 0 belongs to slot {slot:,}, number {slot * stride:,} of the pool: more than 32 bits hold. The "
        f"strides are long long, so that pages, slots and addresses can be. ({fault.message})",
        fault.line,
    )


def _by_far_tokens(fault, case, begin):
    """A token read that is not stored, or the address of the one that is, in 32 bits."""
    last = case.case.sizes["num_tokens"] - 1
    block = re.search(r"block \(\d+,(\d+),", fault.message)
    if block and int(block[1]) < last:
        words = f"token {block[1]} has slot -1, and one of its rows is read: leave before that. ({fault.message})"
        return Diagnosis("padding_read", f"{begin} {words}", fault.line)
    starts = f"{last * FAR_TOKENS[0]:,} of k and {last * FAR_TOKENS[1]:,} of v"
    return Diagnosis(
        "int32_overflow",
        f"{begin} token {last} begins at number {starts}, more than 32 bits hold: the strides of the tokens are long "
        f"long, and so is what they are multiplied to. ({fault.message})",
        fault.line,
    )


def _by_far_page(fault):
    """An access out of bounds in the case of slots beyond 2^31, and nothing wrong elsewhere."""
    return Diagnosis(
        "out_of_bounds",
        "Right where slots are small. In the case of slots beyond 2^31 page_size is 2^30, and stride_page is not "
        "page_size times the numbers of a slot: keep the slot in a long long before you divide it, and multiply the "
        f"page by stride_page. ({fault.message})",
        fault.line,
    )


def _by_layout(fault, case, evidence):
    """Right only where a page is page_size slots long and its slots are rows of all heads."""
    others = [each for each in evidence.failing() if each.comparisons]
    if case.case.options.get("far") == "slots" and not others:
        return _by_far_page(fault)
    if case.case.options.get("far") != "slots" or not all(o.case.options.get("hnd") for o in others):
        return None
    return Diagnosis(
        "layout_ignored",
        "Right where slots follow each other through the whole pool (NHD), wrong with heads before slots: there the "
        "next slot is one row further, and the next page not page_size times that. Divide the slot into a page and an "
        f"offset in it, and take each with its own stride. ({fault.message})",
        fault.line,
    )


def traffic(case, ledger):
    """Diagnosis or None: each number is written once, by lanes that share the row."""
    sizes, left = case.sizes, case.options.get("not_stored", ())
    rows = (sizes["num_tokens"] - len(left)) * sizes["num_kv_heads"]
    why = "each number of a token that is stored is written once to each pool"
    found = moved(case, ledger, written=8 * rows * sizes["head_dim"], why=why)
    turns = max(-(-sizes["head_dim"] // 32), 4 * -(-sizes["head_dim"] // 128))  # of single numbers, or of four
    why = "a block has one head of one token, and its 32 lanes share the columns"
    return found or share(case, ledger, stored=8 * turns, why=why)


def diagnose_write(evidence):
    """Diagnosis of a failing write into pages, or None."""
    failing = [case for case in evidence.failing() if case.comparisons]
    looks = (
        _by_gaps,
        _by_far_slot,
        _by_negative_slot,
        _by_slot_0,
        _by_pools,
        _by_rule,
        _by_source,
        _by_slot,
        _by_neighbours,
    )
    return next((diagnosis for look in looks if failing and (diagnosis := look(failing)) is not None), None)


def _rows(case, name):
    """Yield (token, kv_head, page, offset, expected row, row in the pool) for every stored row of a pool."""
    tensors, pages = case.inputs, case.first.outputs[name]
    rows = _given(case, "k" if name == "k_pages" else "v")
    for token, slot in enumerate(tensors["slot_mapping"].tolist()):
        if slot < 0:
            continue
        page, offset = page_and_offset(case.case, slot)
        for head in range(rows.shape[1]):
            yield token, head, page, offset, rows[token, head], pages[page, offset, head, : rows.shape[2]]


def _given(case, name):
    """(num_tokens, num_kv_heads, head_dim) of k or v, without the padding between the tokens."""
    return case.inputs[name][:, : case.case.sizes["num_kv_heads"]]


def _before(case, name):
    return case.inputs["k_before" if name == "k_pages" else "v_before"][0]


def _by_gaps(failing):
    """Wrong where the pool has gaps, and nowhere else."""
    if not all(case.case.options.get("gaps") for case in failing):
        return None
    return Diagnosis(
        "strides_ignored",
        f"Right where rows, slots and pages lie side by side; wrong in the case {failing[0].case.name!r}, where other "
        "numbers lie between them. Take the strides of pages, slots and heads as they are given, none from sizes.",
    )


def _by_far_slot(failing):
    """Nothing wrong but slots that an int does not hold."""
    if not all(case.case.options.get("far") == "slots" for case in failing):
        return None
    slot = int(max(failing[0].inputs["slot_mapping"]))
    wrapped = (slot + (1 << 31)) % (1 << 32) - (1 << 31)
    return Diagnosis(
        "int32_overflow",
        f"Right everywhere but in slots beyond 2^31: slot {slot:,} is {wrapped:,} in an int. slot_mapping is 64 bits "
        "wide, so keep what you read of it in a long long.",
    )


def _by_negative_slot(failing):
    """Only cases with tokens that are not stored fail; accesses out of bounds were reported before."""
    if not all(case.case.options.get("not_stored") for case in failing):
        return None
    case = failing[0]
    token = case.case.options["not_stored"][0]
    slot = int(case.inputs["slot_mapping"][token])
    for name in ("k_pages", "v_pages"):
        row = case.inputs["k" if name == "k_pages" else "v"][token, 0]
        hit = (case.first.outputs[name] == row[0]).nonzero()
        if len(hit):
            page, offset, head, _ = hit[0].tolist()
            return Diagnosis(
                "padding_written",
                f"Case {case.case.name!r}: slot_mapping[{token}] is {slot}, so token {token} is not stored; its row is "
                f"in slot {offset} of page {page}, head {head}.",
            )
    if all(torch.equal(right, got) for name in ("k_pages", "v_pages") for *_, right, got in _rows(case, name)):
        return None
    return Diagnosis(
        "padding_stops",
        f"Case {case.case.name!r}: token {token} has slot {slot} and is not stored, but others were left out with it. "
        "Which threads may leave?",
    )


def _by_slot_0(failing):
    """All that is wrong is the row of the token in slot 0, which was not stored."""
    for case in failing:
        wrong = [
            (name, row) for name in ("k_pages", "v_pages") for row in _rows(case, name) if not row[4].equal(row[5])
        ]
        for name, (token, head, page, offset, _, got) in wrong:
            old = _before(case, name)[page, offset, head, : len(got)]
            if int(case.inputs["slot_mapping"][token]) != 0 or not got.equal(old):
                return None
        if not wrong:
            return None
    token = failing[0].inputs["slot_mapping"].tolist().index(0)
    return Diagnosis(
        "slot_0",
        f"Case {failing[0].case.name!r}: slot_mapping[{token}] is 0, and token {token} was not stored; all tokens in "
        "other slots were, in every case. Slot 0 is a slot: only a negative one says that a token is not stored.",
    )


def _by_pools(failing):
    """K in the pool of V, or one pool untouched."""
    case = failing[0]
    for name, other, wanted in (("k_pages", "v", "k"), ("v_pages", "k", "v")):
        rows = list(_rows(case, name))
        if not rows:
            continue
        token, head, page, offset, right, got = rows[0]
        where = f"slot {offset} of page {page} in {name} must hold token {token} of {wanted}, head {head}"
        if all(torch.equal(g, _given(case, other)[t, h]) for t, h, _, _, _, g in rows):
            return Diagnosis("pools_swapped", f"Case {case.case.name!r}: {where}; it holds the one of {other}.")
        if torch.equal(case.first.outputs[name], _before(case, name)):
            return Diagnosis(
                "pool_untouched", f"Case {case.case.name!r}: {where}; nothing in {name} was changed at all."
            )
    return None


_RULES = (
    ("token_as_slot", lambda slot, token: token,
     "that is the token's own number. slot_mapping gives its slot"),
    ("off_by_one", lambda slot, token: slot + 1, "one slot further"),
    ("off_by_one", lambda slot, token: slot - 1, "one slot before"),
)  # fmt: skip


def _by_rule(failing):
    """Which slot the rows of all tokens went to instead of their own."""
    for code, rule, reason in _RULES:
        moved_to = [_moved(case, rule) for case in failing]
        case, token = next(((c, one[0]) for c, one in zip(failing, moved_to, strict=True) if one), (None, None))
        if case is None or None in moved_to:
            continue
        slot = int(case.inputs["slot_mapping"][token])
        return Diagnosis(
            code,
            f"Case {case.case.name!r}: token {token} belongs to slot {slot} of the pool, and its row of k is in slot "
            f"{rule(slot, token)}: {reason}.",
        )
    return None


def _moved(case, rule):
    """Tokens that the rule takes to another slot; None when a row is not where it would be."""
    pages, tokens = case.first.outputs["k_pages"], []
    for token, slot in enumerate(case.inputs["slot_mapping"].tolist()):
        page, offset = page_and_offset(case.case, rule(slot, token))
        if slot < 0 or not 0 <= page < len(pages) or not 0 <= offset < pages.shape[1]:
            continue
        row = _given(case, "k")[token]
        if not torch.equal(pages[page, offset, : row.shape[0], : row.shape[1]], row):
            return None
        if rule(slot, token) != slot:
            tokens.append(token)
    return tokens


def _by_source(failing):
    """The right slot holds another row of k or v."""
    for case in failing:
        for name, rows_of in (("k_pages", "k"), ("v_pages", "v")):
            for token, head, page, offset, right, got in _rows(case, name):
                if torch.equal(right, got) or not bool(
                    (got != _before(case, name)[page, offset, head, : len(got)]).any()
                ):
                    continue
                return _say_source(case, name, rows_of, (token, head, page, offset), right, got)
    return None


def _say_source(case, name, rows_of, where, right, got):
    token, head, page, offset = where
    begin = (
        f"Case {case.case.name!r}: slot {offset} of page {page} in {name}, head {head}, must hold token {token} of "
        f"{rows_of}"
    )
    wrong = int((got != right).nonzero()[0])
    if 0 < abs(int(got[wrong]) - int(right[wrong])) < STEP:
        return Diagnosis(
            "number_changed",
            f"{begin}; column {wrong} holds {int(got[wrong]):,} in place of {int(right[wrong]):,}. The numbers are int "
            "and are copied as they are: float holds whole numbers up to 16,777,216 exactly.",
        )
    rows = _given(case, rows_of)
    hit = (rows == int(got[wrong])).nonzero()
    if len(hit):
        other, other_head, d = hit[0].tolist()
        if other == token and other_head == head:
            return Diagnosis("columns_moved", f"{begin}; column {wrong} holds column {d} of that row.")
        code = "wrong_head" if other == token else "wrong_token"
        return Diagnosis(code, f"{begin}; column {wrong} holds token {other}, head {other_head}, column {d}.")
    if int(got[wrong]) == -77:
        stride = case.inputs[rows_of].stride(0)
        return Diagnosis(
            "token_stride",
            f"{begin}; it holds padding between the tokens of {rows_of}. They are {stride} numbers apart "
            f"(stride_{rows_of}_token), and a token has {rows.shape[1] * rows.shape[2]} of its own.",
        )
    if int(got[wrong]) == int(_before(case, name)[page, offset, head, wrong]):
        return Diagnosis(
            "columns_left",
            f"{begin}; from column {wrong} on it holds its old contents. A row has {len(got)} numbers, and a "
            "warp 32 lanes.",
        )
    return None


def _by_slot(failing):
    """Where the row of a token was written instead of its slot."""
    case = failing[0]
    for name, rows_of in (("k_pages", "k"), ("v_pages", "v")):
        pages = case.first.outputs[name]
        for token, head, page, offset, right, got in _rows(case, name):
            if torch.equal(right, got):
                continue
            hit = (pages == int(right[0])).nonzero()
            begin = (
                f"Case {case.case.name!r}: slot_mapping[{token}] is "
                f"{int(case.inputs['slot_mapping'][token])}, with page_size {case.case.sizes['page_size']} slot "
                f"{offset} of page {page}; row {head} of token {token} of {rows_of}"
            )
            if not len(hit):
                return Diagnosis("not_written", f"{begin} is nowhere in {name}.")
            other, other_offset, other_head, d = hit[0].tolist()
            return Diagnosis(
                "wrong_place",
                f"{begin} belongs in it and is in slot {other_offset} of page {other}, head {other_head}, from "
                f"column {d} on.",
            )
    return None


def _by_neighbours(failing):
    """Every row is in its slot, and other slots were changed as well."""
    case = failing[0]
    for name in ("k_pages", "v_pages"):
        touched = (case.first.outputs[name] != case.ref[name].int()).nonzero()
        if len(touched):
            page, offset, head, column = touched[0].tolist()
            return Diagnosis(
                "neighbours_touched",
                f"Case {case.case.name!r}: all new tokens are in their slots, but {len(touched)} other numbers of "
                f"{name} were changed, first in slot {offset} of page {page}, head {head}, column {column}. No token "
                "is mapped to it.",
            )
    return None

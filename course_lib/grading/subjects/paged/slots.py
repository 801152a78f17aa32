"""Which slots of a pool a decode kernel read: every slot has a column of its own in v, so out holds the weight of each.

May import: verdict, evidence (as data), cases, attention.diagnostics.
"""

import math

import torch

from ...report.verdict import Diagnosis
from ..attention.diagnostics import near
from . import cases as cases
from .cases import SLOT_LENS, SLOT_PAGE_SIZE, SLOT_TABLE


def padding_written(fault, case, begin):
    """Diagnosis of an access out of bounds in a case whose slot_mapping has negative numbers of any size."""
    token = case.case.options["not_stored"][0]
    slot = int(case.inputs["slot_mapping"][token])
    words = f"slot_mapping[{token}] is {slot:,}: no negative slot is stored, whichever it is"
    return Diagnosis("padding_written", f"{begin} {words}. ({fault.message})", fault.line)


def tokens_of(sequence, seq_len=None):
    """Slots of the pool that hold the tokens of a sequence of the slots probe, in their order."""
    row, p = SLOT_TABLE[sequence], SLOT_PAGE_SIZE
    return [row[t // p] * p + t % p for t in range(SLOT_LENS[sequence] if seq_len is None else seq_len)]


def _shared(table_of, lens_of):
    """Slots of each sequence by another table row or length."""

    def slots(b):
        row, seq_len, p = SLOT_TABLE[table_of(b)], SLOT_LENS[lens_of(b)], SLOT_PAGE_SIZE
        return [row[t // p] * p + t % p for t in range(seq_len) if t // p < len(row)]

    return slots


def _by_page(wanted):
    """Slots where a sequence of n tokens reads the tokens 0 to wanted(n)."""
    return lambda b: tokens_of(b, min(wanted(SLOT_LENS[b]), SLOT_PAGE_SIZE * len(SLOT_TABLE[b])))


_P = SLOT_PAGE_SIZE
_FLAT = [page for row in SLOT_TABLE for page in row]
RULES = (
    ("logical_as_physical", lambda b: list(range(SLOT_LENS[b])),
     "its number in the sequence was taken for its number in the pool; block_table[sequence][{page_of_it}] says which "
     "page of the pool it is"),
    ("last_page_in_full", _by_page(lambda n: -(-n // _P) * _P), "the last page was read to its end"),
    ("mask_in_page", _by_page(lambda n: n if n < _P else -(-n // _P) * _P),
     "the number of a slot in its page was compared with seq_len; the token's number is page * page_size + slot"),
    ("one_token_too_many", _by_page(lambda n: n + 1), "one token too many: they have the numbers 0 to seq_len - 1"),
    ("last_token_missing", _by_page(lambda n: n - 1), "the last token is missing"),
    ("last_page_dropped", _by_page(lambda n: n // _P * _P), "the last page, which is not full, was left out"),
    ("first_page_alone", _by_page(lambda n: min(n, _P)), "only the first page was read"),
    ("table_past_its_end", _by_page(lambda n: (n // _P + 1) * _P + (_P if n % _P else 0)),
     "a page more than the sequence has: that table entry is undefined"),
    ("whole_table", _by_page(lambda n: _P * 4),
     "every entry of the table was used; those past the end of the sequence are undefined"),
    ("another_length", _shared(lambda b: b, lambda b: 0), "seq_lens[0] was taken for every sequence"),
    ("another_length", _by_page(lambda n: max(SLOT_LENS)), "the longest length was taken for every sequence"),
    ("another_table", _shared(lambda b: 0, lambda b: b), "the table of sequence 0 was taken for every sequence"),
    ("table_stride", lambda b: [_FLAT[b + t // _P] * _P + t % _P for t in range(SLOT_LENS[b])],
     "row b of the table begins at b * max_pages, not at b"),
    ("offset_forgotten", lambda b: [SLOT_TABLE[b][t // _P] * _P for t in range(SLOT_LENS[b])],
     "every token was read from the first slot of its page: key % page_size is missing"),
    ("page_not_divided", lambda b: [SLOT_TABLE[b][t % _P] * _P + t // _P for t in range(SLOT_LENS[b])],
     "key / page_size says which page, key % page_size which slot; here the two are swapped"),
    ("strides_swapped", lambda b: [SLOT_TABLE[b][t // _P] + t % _P * _P for t in range(SLOT_LENS[b])],
     "stride_page and stride_slot are swapped"),
    ("pages_side_by_side", lambda b: [SLOT_TABLE[b][0] * _P + t for t in range(SLOT_LENS[b])],
     "only the first page was looked up; the pages of a sequence are not contiguous"),
)  # fmt: skip


def _weights(slots):
    """(32,) what each slot of the pool weighs when these are read."""
    weights = torch.zeros(cases.HEAD_DIM, dtype=torch.float64)
    for slot in slots:
        if 0 <= slot < len(weights):
            weights[slot] += 1.0 / len(slots)
    return weights


def by_swapped(evidence):
    """q = 0, k = 7 everywhere, v = 0 or 1: out says which of them was weighed."""
    reading = evidence.readings.get("slots of v")
    if reading is None or not all(abs(weight - 7.0) < 0.1 for row in reading for weight in row):
        return None
    return Diagnosis(
        "k_v_swapped",
        "In a probe all values in v_pages are 0 or 1, all in k_pages 7, and out is 7: the weighted sum was taken "
        "of k. The weights come from q and k, and what they weigh are the rows of v.",
    )


def by_slots(evidence):
    """q = 0: every token that is read weighs the same, in the column of its slot."""
    reading = evidence.readings.get("slots of v")
    if reading is None or not all(math.isfinite(weight) for row in reading for weight in row):
        return None
    got = torch.tensor(reading, dtype=torch.float64)
    right = torch.stack([_weights(tokens_of(b)) for b in range(len(SLOT_LENS))])
    if near_all(got, right):
        return None
    b = int(((got - right).abs().amax(dim=1) > 1e-4).nonzero()[0])
    for code, rule, reason in RULES:
        if near_all(got, torch.stack([_weights(rule(i)) for i in range(len(SLOT_LENS))])):
            return Diagnosis(code, f"{_say_slots(b, got[b])}: {reason.format(page_of_it=_page_of_it(b, got[b]))}.")
    return _by_sum(b, got[b], right[b]) or Diagnosis("wrong_slots", f"{_say_slots(b, got[b])}.")


def near_all(got, right):
    return bool(((got - right).abs() <= 1e-4).all())


def _by_sum(b, got, right):
    """The right slots, and another number of them in l, or no division at all."""
    read = got > 1e-5
    if not torch.equal(read, right > 0) or float(got[read].max() - got[read].min()) > 1e-4:
        return None
    count, weight, page = SLOT_LENS[b], float(got[read][0]), SLOT_PAGE_SIZE
    start = f"Sequence {b} of a probe has {count} tokens of equal weight, 1 / {count} each; here it is {weight:.4g}"
    if near(weight, 1.0):
        return Diagnosis("no_division", f"{start}: a plain sum. The division by l is missing.")
    seen = 1.0 / weight
    if near(seen, -(-count // page) * page):
        return Diagnosis(
            "tail_counted",
            f"{start} = 1 / {seen:.3g}: l counted the {seen - count:.0f} slots past the end as well. A masked key "
            "has the score -inf, not 0.",
        )
    if near(seen, 1.0 / count):
        return Diagnosis("multiplied_by_l", f"{start}: multiplied by l in place of divided.")
    return Diagnosis("weights_sum", f"{start}, as if there were {seen:.4g} of them. The weights must add up to 1.")


def _say_slots(b, got):
    """ "Sequence 1 has 9 tokens on the pages 5, 0, 7 (of 4): it read slot 1 of page 7, past token 8" """
    p, right = SLOT_PAGE_SIZE, tokens_of(b)
    read = [slot for slot, weight in enumerate(got.tolist()) if abs(weight) > 1e-5]
    pages = SLOT_TABLE[b][: -(-SLOT_LENS[b] // p)]
    start = (
        f"In a probe sequence {b} has {SLOT_LENS[b]} tokens on page{'s' if len(pages) > 1 else ''} "
        f"{', '.join(map(str, pages))} of the pool ({p} slots a page)"
    )
    extra, missing = [s for s in read if s not in right], [s for s in right if s not in read]
    words = []
    if extra:
        words.append(f"it read {_slot(extra[0])}{_owner(b, extra[0])}")
    if missing:
        token = right.index(missing[0])
        words.append(f"token {token}, {_slot(missing[0])}, was not read")
    if not words:
        slot = int((got - _weights(right)).abs().argmax())
        words.append(f"{_slot(slot)} weighs {got[slot]:.4g} in place of {1 / SLOT_LENS[b]:.4g}")
    return f"{start}; {', and '.join(words)}"


def _slot(slot):
    return f"slot {slot % SLOT_PAGE_SIZE} of page {slot // SLOT_PAGE_SIZE}"


def _owner(b, slot):
    """Where a slot lies that is none of the sequence's tokens."""
    page, pages = slot // SLOT_PAGE_SIZE, SLOT_TABLE[b][: -(-SLOT_LENS[b] // SLOT_PAGE_SIZE)]
    if page == pages[-1]:
        return f", past token {SLOT_LENS[b] - 1}"
    owner = next((i for i in range(len(SLOT_LENS)) if slot in tokens_of(i)), None)
    return f", which belongs to sequence {owner}" if owner is not None and owner != b else ", which no sequence holds"


def _page_of_it(b, got):
    missing = [i for i, slot in enumerate(tokens_of(b)) if abs(float(got[slot])) < 1e-5]
    return (missing[0] if missing else 0) // SLOT_PAGE_SIZE


def by_k_rule(evidence):
    """v comes from the right slots, and k from those of another rule: k of slot i gives a token the weight i + 1."""
    reading = evidence.readings.get("slots of k")
    if reading is None:
        return None
    for _, rule, reason in RULES:
        if all(_fits(row, tokens_of(b), rule(b)) for b, row in enumerate(reading)):
            slot, other = next((s, o) for s, o in zip(tokens_of(0), rule(0), strict=False) if s != o)
            return Diagnosis(
                "k_from_another_slot",
                "The rows of v come from the right slots, those of k do not. In a probe token "
                f"{tokens_of(0).index(slot)} of sequence 0 lies in {_slot(slot)}; it weighs what k of {_slot(other)} "
                f"gives: {reason.format(page_of_it=tokens_of(0).index(slot) // SLOT_PAGE_SIZE)}.",
            )
    return None


def _fits(row, right, read):
    """Whether the weights of the slots `right` are those that k of the slots `read` gives."""
    if len(right) != len(read) or right == read:
        return len(right) == len(read) and near(row[right[0]], (right[0] + 1) / sum(s + 1 for s in right), 1e-3)
    total = sum(slot + 1 for slot in read)
    return all(near(row[s], (r + 1) / total, 1e-3) for s, r in zip(right, read, strict=True))


def by_lanes(evidence):
    """v distinguishes every slot, k of slot i weighs i + 1, and all weigh the same: each lane has its own product."""
    reading = evidence.readings.get("slots of k")
    if reading is None or any(not near(row[s], 1 / len(t), 1e-3) for row, t in _rows_of(reading) for s in t if s < 31):
        return None
    return Diagnosis(
        "score_not_summed",
        "In a probe k gives the tokens weights in the ratio of 9 to 28, and in the columns 0 to 30 of out all weigh "
        "the same. Either a lane lacks the whole score: it is the sum of 32 products, one of each lane, and every lane "
        "needs all of it. Or each key was measured against itself: keys that are merged share one m.",
    )


def _rows_of(reading):
    return [(row, tokens_of(b)) for b, row in enumerate(reading)]


def by_k_slots(evidence):
    """v distinguishes every slot, and k of slot i gives it the weight i + 1."""
    reading = evidence.readings.get("slots of k")
    if reading is None:
        return None
    last, first = (reading[0][slot] for slot in (9, 27))  # sequence 0: the score falls from ln(28) to ln(9)
    if first > 0.0 and near(last / first, (10 / 28) ** math.log(2.0), 1e-3):
        return Diagnosis(
            "exp_exp2_mix",
            "In a probe a key whose score is ln(28) - ln(10) = 1.03 lower must weigh 10/28 = 0.357 as much; it weighs "
            f"{last / first:.3f}, 2 to the -1.03. exp2 needs its argument times log2(e).",
        )
    for b, row in enumerate(reading):
        right = tokens_of(b)
        total = sum(slot + 1 for slot in right)
        for token, slot in enumerate(right):
            want = (slot + 1) / total
            if not near(row[slot], want, 1e-3):
                return Diagnosis(
                    "k_from_another_slot",
                    f"The rows of v come from the right slots, those of k do not: in a probe token {token} of sequence "
                    f"{b}, {_slot(slot)}, must weigh {want:.4g} and weighs {row[slot]:.4g}. Both have the same "
                    "address in their pool.",
                )
    return None

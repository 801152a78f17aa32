"""What handing over the keys and values gives, the usual mistakes as outcomes of their own, and the bytes it may take.

May import: verdict, subjects.parallel, torch.
"""

import torch

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.guesses import first_mistake
from course_lib.grading.subjects.parallel.calls import in_words


def slots(table, seq_lens, page_size):
    """Of each token, in order of sequences and tokens: page * page_size + place in the page."""
    found = [torch.empty(0, dtype=torch.int64)]
    for row, seq_len in zip(table, seq_lens.tolist(), strict=True):
        token = torch.arange(seq_len)
        found.append(row[token // page_size] * page_size + token % page_size)
    return torch.cat(found)


def new_table(t, *, pages=None, count=lambda seq_len, page_size: -(-seq_len // page_size), rest=-1):
    """(num_seqs, max_pages): pages of rank 1, in the order of free_pages; each option is a mistake."""
    pages = t["free_pages"] if pages is None else pages
    table, taken = torch.full_like(t["table"], rest), 0
    for row, seq_len in zip(table, t["seq_lens"].tolist(), strict=True):
        part = pages[taken : taken + count(seq_len, t["kv"].shape[4])][: len(row)]
        row[: len(part)] = part
        taken += len(part)
    return table


def outcome(t, *, table=None, target=None, lens=None, seq_lens=None, keep=None):
    """{"kv_after", "table_after", "seq_lens_after"} of both ranks; each option is a mistake.

    table : what rank 1 returns; target : where it writes, if elsewhere; lens : tokens that are sent of each sequence
    seq_lens : what it returns; keep : (what was written, pool before) -> what is in the pool
    """
    page_size = t["kv"].shape[4]
    table = new_table(t) if table is None else table
    lens = t["seq_lens"] if lens is None else lens
    kv = t["kv"].clone()
    sent = kv[0].flatten(2, 3)[:, :, slots(t["table"], lens, page_size)]
    kv[1].flatten(2, 3)[:, :, slots(table if target is None else target, lens, page_size)] = sent
    if keep is not None:
        kv[1] = keep(kv[1], t["kv"][1])
    seq_lens = t["seq_lens"] if seq_lens is None else seq_lens
    return {
        "kv_after": kv,
        "table_after": torch.stack((t["table"], table)),
        "seq_lens_after": torch.stack((t["seq_lens"], seq_lens)),
    }


def _whole_pages(t):
    page_size = t["kv"].shape[4]
    return -(-t["seq_lens"] // page_size) * page_size


def _part(index):
    """Only some of the keys, values or layers are written."""

    def keep(after, before):
        kept = before.clone()
        kept[index] = after[index]
        return kept

    return keep


def _exchanged(after, before):
    return after.flip(1)


# code, words, tensors -> outcome; each sentence goes on from "It is what comes when"
_MISTAKES = (
    ("pages_of_rank_0", "rank 1 uses the page numbers of rank 0, in its pool and in the table. There these pages are "
     "somebody else's: take them from free_pages", lambda t: outcome(t, table=t["table"])),
    ("table_of_rank_0", "rank 1 returns the table of rank 0: its sequences are on pages of free_pages",
     lambda t: outcome(t, table=t["table"], target=new_table(t))),
    ("written_to_pages_of_rank_0", "the table is right, but keys and values are written where rank 0 has them",
     lambda t: outcome(t, target=t["table"])),
    ("whole_pages", "whole pages are written: behind a sequence's last token the pool stays as it was",
     lambda t: outcome(t, lens=_whole_pages(t))),
    ("lengths_of_whole_pages", "the lengths are rounded up to whole pages",
     lambda t: outcome(t, lens=_whole_pages(t), seq_lens=_whole_pages(t))),
    ("last_token_lost", "the last token of each sequence is missing",
     lambda t: outcome(t, lens=(t["seq_lens"] - 1).clamp(min=0))),
    ("last_page_lost", "a page that is not full is left out, and its tokens are written by way of page -1, the last "
     "one of the pool: round up", lambda t: outcome(t, table=new_table(t, count=lambda n, size: n // size))),
    ("page_too_many", "a sequence whose pages are full gets one more: round up, do not add 1",
     lambda t: outcome(t, table=new_table(t, count=lambda n, size: n // size + 1))),
    ("from_the_last_page", "pages are taken from the end of free_pages: they are taken in its order",
     lambda t: outcome(t, table=new_table(t, pages=t["free_pages"].flip(0)))),
    ("zeros_for_minus_1", "the rest of a row of the table is 0: it is -1, since page 0 is a page",
     lambda t: outcome(t, table=new_table(t, rest=0), target=new_table(t))),
    ("keys_alone", "keys are written and no values", lambda t: outcome(t, keep=_part((slice(None), 0)))),
    ("first_layer_alone", "the first layer alone is written", lambda t: outcome(t, keep=_part(0))),
    ("keys_for_values", "keys are where values belong, and values where keys do",
     lambda t: outcome(t, keep=_exchanged)),
)  # fmt: skip


def diagnose(evidence):
    """Diagnosis of wrong pools, tables or lengths, or None."""
    case = evidence.smallest_by_values()
    if case is None:
        return None
    name, one = case.first_wrong
    start = (
        f"Case {case.case.name!r}, lengths {case.inputs['seq_lens'].tolist()}, pages of "
        f"{case.case.sizes['page_size']}: {name.removesuffix('_after')}{list(one.index[1:])} of rank {one.index[0]} "
        f"is {one.got:.5g}, expected {one.expected:.5g}."
    )
    found = first_mistake(evidence, start, _MISTAKES, _fits)
    return found or Diagnosis("wrong_pool" if name == "kv_after" else "wrong_table", start)


def _fits(case, mistake):
    try:
        guess = mistake(case.inputs)
    except (IndexError, RuntimeError):
        return False  # this mistake cannot be made in such a case
    return all(torch.equal(case.first.outputs[name], guess[name]) for name in guess)


def tokens_once(case, ledger):
    """Diagnosis or None: messages from rank 0 to rank 1 alone, the keys and values of the tokens once."""
    layers, _, _, num_heads, head_dim, _ = case.sizes.values()
    lengths = case.options["seq_lens"]
    tokens = layers * 2 * sum(lengths) * num_heads * head_dim * 4
    most, (calls, others) = tokens + 64 * len(lengths), ledger["calls"]
    sent = sum(call["bytes"] for call in calls)
    start = f"Every value is right, but rank 0 calls {in_words(calls)}, {sent:,} bytes (case {case.name!r})"
    if others or any(call["peer"] != 1 for call in calls):
        return Diagnosis(
            "other_messages", f"{start} and rank 1 {in_words(others)}; rank 0 sends, rank 1 receives, and that is all."
        )
    if sent > most:
        return Diagnosis(
            "too_many_bytes",
            f"{start}; the keys and values of {sum(lengths)} tokens are {tokens:,} bytes, and 64 for each sequence "
            "may be beside. Send the tokens alone: no page in whole, and no pool.",
        )
    return None

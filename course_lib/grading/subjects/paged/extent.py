"""Where the memory of a case of chapter 10 begins and ends: a pool that ends with a token, pages from 2^29 on, gaps.

A case with options["cut"] ends where its last sequence does: nothing lies behind its last token in the pools, and
nothing behind its last entry in the table; it may have none. In a case with options["far"] the pages that exist have
numbers from `first_page` on, and what lies before them does not exist. There an access past the end, or to an address
that did not fit into 32 bits, leaves every tensor. Such cases are late: elsewhere the same mistake has a better
diagnosis.

In a case with options["gaps"] NaN lie between the rows, the heads, the slots and the pages of a pool: an address that
is not made of the strides given leads to other numbers.

May import: verdict, torch.
"""

import torch

from ...report.verdict import Diagnosis

FAR = 1 << 31  # numbers of slots from here on


def first_page(case):
    """The number of the first page that exists."""
    return FAR // case.sizes["page_size"] if case.options.get("far") else 0


def spaced(pool):
    """A pool (num_pages, page_size, num_kv_heads, HEAD_DIM), or with heads before slots, with NaN between its rows."""
    return torch.nn.functional.pad(pool, (0, 4, 0, 1, 0, 1), value=torch.nan)


def given(case, tensors, pools=("k_pages", "v_pages")):
    """The tensors as the answer gets them; pools (num_pages, page_size, num_kv_heads, …), `tensors` for the oracle."""
    changed, table = dict(tensors), tensors["block_table"]
    if case.options.get("gaps"):
        changed |= {name: spaced(tensors[name]) for name in pools}
    if case.options.get("far"):
        changed["block_table"] = table + first_page(case)
    if case.options.get("cut"):
        page_size, lens = case.sizes["page_size"], tensors["seq_lens"].tolist()
        used = -(-lens[-1] // page_size)
        last = max(b for b, seq_len in enumerate(lens) if seq_len)  # the last sequence that has tokens
        end = lens[last] - 1
        slots = int(table[last, end // page_size]) * page_size + end % page_size + 1
        changed["block_table"] = table.flatten()[: (len(table) - 1) * table.shape[1] + used].clone()
        changed |= {name: tensors[name].flatten(0, 1)[:slots].clone() for name in pools}
    return changed


def explain(fault, case, evidence):
    """Diagnosis of an access out of bounds that only such cases have, or None."""
    others = [one for one in evidence.cases if not (one.case.options.get("far") or one.case.options.get("cut"))]
    if fault.kind != "out_of_bounds" or not all(one.passed for one in others):
        return None
    if case.case.options.get("far"):
        first = first_page(case.case)
        return Diagnosis(
            "int32_overflow",
            f"Right where pages have small numbers. In the case {case.case.name!r} they begin at {first:,}: page "
            f"{first:,} times the numbers of a page is more than 32 bits hold. Make the page 64 bits wide before it is "
            f"multiplied. ({fault.message})",
            fault.line,
        )
    if case.case.options.get("cut"):
        seq_len, page_size = case.case.options["seq_lens"][-1], case.case.sizes["page_size"]
        if seq_len == 0 and "block_table" in fault.message:
            words = "the last sequence has no token, and an entry of the table is read for it"
            code = "table_past_its_end"
            return Diagnosis(code, f"In the case {case.case.name!r} {words}. ({fault.message})", fault.line)
        last = next(length for length in reversed(case.case.options["seq_lens"]) if length)
        where = f"a sequence of {last} tokens in pages of {page_size}"
        if "block_table" in fault.message:
            return Diagnosis(
                "table_past_its_end",
                f"The values are right, but in the case {case.case.name!r} the table ends with the last of the "
                f"{-(-last // page_size)} entries of {where}, and an entry after it is read: {fault.message}",
                fault.line,
            )
        return Diagnosis(
            "slots_past_the_end",
            f"The values are right, but in the case {case.case.name!r} the pools end with the last token of {where}, "
            f"and a slot after it is read: {fault.message}",
            fault.line,
        )
    return None

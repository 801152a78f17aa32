"""Diagnosis of gradients that count pairs: which query saw which key, which heads were added.

The inputs are those of gradients.made_case: with weights of 1, row sums and column sums of the mask.

May import: spec, verdict, diagnosis, gradients, flash_attention.cases, diagnostics of attention.
"""

import math

import torch

from ...exercise.spec import Probe
from ...judge.diagnosis import runs_of
from ...report.verdict import Diagnosis
from ..attention.diagnostics import near
from ..flash_attention.cases import BLOCK_M, BLOCK_N
from .gradients import HEAD_DIM, made_case

NUM_Q, NUM_KV, GROUP = 70, 87, 2  # the diagonal leaves a tile of keys in the last row of a tile of queries
_HEADS, _BATCHES, _KV_HEADS = 4, 2, 2


def pairs_probe(name, **columns):
    """Weights (or d_S) of 1 under a causal mask, two query heads for a key-value head.

    Parameters
    ----------
    columns : output -> the column that is read, one number a row of the first head

    Reading: output -> list of float.
    """
    case = made_case(name, NUM_Q, NUM_KV, (1, GROUP, 1))
    return Probe(name, case, lambda _inputs, outputs: columns_of(outputs, columns))


def columns_of(outputs, columns):
    """output -> the column that `columns` names, of the first head: a list with a number for each row."""
    return {name: outputs[name].double()[0, 0, :, column].tolist() for name, column in columns.items()}


def heads_probe(name, output, column, numbered):
    """Two batches, four query heads for two key-value heads; see `numbered` of gradients._made."""
    case = made_case(name, 1, 1, (_BATCHES, _HEADS, _KV_HEADS), numbered=numbered)
    return Probe(name, case, lambda _inputs, outputs: outputs[output].double()[:, :, 0, column].tolist())


def reading_of(readings, name, output):
    """What the probe `name` read from `output`, or None."""
    return (readings.get(name) or {}).get(output)


def _masks():
    """[(code, words, (NUM_Q, NUM_KV) bool)]: the pairs that each mistake counts."""
    row, key = torch.arange(NUM_Q)[:, None], torch.arange(NUM_KV)[None, :]
    offset = NUM_KV - NUM_Q
    right = key <= row + offset
    last_q, last_kv = (NUM_Q - 1) // BLOCK_M * BLOCK_M, (NUM_KV - 1) // BLOCK_N * BLOCK_N
    once = "each tile's share must be added; it was overwritten by the next one's"
    begins = "the loop ends after the first tile"
    cut = "the last tile, which is not full, is missing"
    return right, (
        ("mask_missing", "keys of the future as well: the mask belongs into the recomputed weights",
         torch.ones_like(right)),
        ("causal_off_by_one", "one too few: the key at the row's own position counts", key < row + offset),
        ("causal_off_by_one", "one key of the future: the last is row + offset", key <= row + offset + 1),
        ("causal_top_left", "the mask is aligned to the top left: add seq_len_kv - seq_len_q", key <= row),
        ("causal_reversed", "the comparison is reversed", key >= row + offset),
        ("overwritten", f"only the last tile of queries: {once}", right & (row >= last_q)),
        ("overwritten", f"only the last tile of keys: {once}", right & (key >= last_kv)),
        ("one_tile", f"only the first tile of queries: {begins}", right & (row < BLOCK_M)),
        ("one_tile", f"only the first tile of keys: {begins}", right & (key < BLOCK_N)),
        ("tail_dropped", f"queries: {cut}", right & (row < last_q)),
        ("tail_dropped", f"keys: {cut}", right & (key < last_kv)),
    )  # fmt: skip


def say_pairs(reading, what, dim, group=GROUP):
    """Diagnosis from counts of pairs, or None.

    Parameters
    ----------
    reading : list of float or None; sums of the mask along `dim`, times `group`
    what : str, how the sentence calls it: "d_v"
    dim : int, 0 for a count a key (d_k, d_v), 1 for a count a query (d_q)
    """
    if reading is None or any(math.isnan(value) for value in reading):
        return None
    got, (right, masks) = torch.tensor(reading, dtype=torch.float64), _masks()
    wanted = group * right.sum(dim=dim).double()
    if _alike(got, wanted):
        return None
    at = int((~torch.isclose(got, wanted, rtol=1e-3)).nonzero()[0])
    who, whom = ("key", "queries, both heads of the group together,") if dim == 0 else ("query", "keys")
    start = (
        f"{NUM_Q} queries, {NUM_KV} keys, causal, every pair with weight 1: {what} of {who} {at} must count "
        f"{wanted[at]:g} {whom} and counts {got[at]:.4g}"
    )
    if group > 1 and _alike(got, wanted / group):
        return Diagnosis("group_not_summed", f"{start}: one query head of {group}. Heads that share k and v add up.")
    for code, words, mask in masks:
        for heads in {group, 1}:
            if _alike(got, heads * mask.sum(dim=dim).double()):
                return Diagnosis(code, f"{start}: {words}.")
    return _say_counts(got, wanted, at, start, what, who)


def _say_counts(got, wanted, at, start, what, who):
    """Diagnosis from counts that no mask explains: none, an offset, a factor, too few, or others."""
    if not bool(got.any()):
        return Diagnosis(
            "nothing_counted", f"{start}: nothing at all. d_q is a sum of rows of k, d_k one of rows of q."
        )
    if _alike(got - wanted, torch.full_like(got, got[0] - wanted[0])):
        return Diagnosis("not_zeroed", f"{start}, {got[0] - wanted[0]:+.4g} everywhere: a sum does not begin with 0.")
    ratio = (got[at] / wanted[at]).item()
    if _alike(got, ratio * wanted):
        text = f"{start}: everything is {ratio:.4g} times what it must be."
        if what == "d_v" and near(ratio, HEAD_DIM**-0.5):
            text += " That is softmax_scale: the scores take it, and d_v = P^T d_out does not."
        return Diagnosis("wrong_factor", text)
    low = (got < wanted - 0.5).nonzero().flatten().tolist()
    if low and bool((got <= wanted + 0.5).all()):
        return Diagnosis(
            "tile_skipped",
            f"{start}; too few for {who} {runs_of(low)}. A tile was skipped in which a query sees a key: compare its "
            "last query with its first key.",
        )
    return Diagnosis("wrong_pairs", f"{start}.")


def nearly_right_heads(reading):
    """Whether a gradient of q, k marked by 10 * batch + head, differs from the right one by rounding at most."""
    if reading is None:
        return False
    right = torch.tensor([[10.0 * b + h // GROUP for h in range(_HEADS)] for b in range(_BATCHES)])
    return bool(torch.isclose(torch.tensor(reading, dtype=right.dtype), right, rtol=1e-2).all())


def by_pairs(readings, what, dim, heads, group=GROUP):
    """`say_pairs` of the probe "pairs"; when heads of a group are missing, `say_group` of `heads` names them."""
    found = say_pairs(reading_of(readings, "pairs", what), what, dim, group)
    if found is None or found.code == "group_not_summed":
        return say_group(readings.get(heads), what) or found
    return found


def _alike(got, wanted):
    return bool(torch.isclose(got, wanted, rtol=1e-3, atol=1e-3).all())


def say_group(reading, what):
    """Diagnosis from a gradient of k or v whose query heads h in batch b are marked by 2^(h + 4 b), or None."""
    if reading is None or any(math.isnan(value) for row in reading for value in row):
        return None
    mark = [[2.0 ** (h + 4 * b) for h in range(_HEADS)] for b in range(_BATCHES)]
    right = [[sum(row[h] for h in _members(kv)) for kv in range(_KV_HEADS)] for row in mark]
    if bool(torch.isclose(torch.tensor(reading), torch.tensor(right), rtol=1e-2).all()):  # 2^7 in bfloat16 is 2^7
        return None
    start = (
        f"4 query heads, 2 key-value heads: {what} of the two in batch 0 must come from the query heads 0, 1 and 2, 3; "
        f"it comes from {_named(reading[0][0])} and {_named(reading[0][1])}"
    )
    table = (
        ("gqa_modulo", "that is h % 2. Neighbouring query heads share: h // 2", lambda kv: (kv, kv + 2)),
        ("group_not_summed", "one head of each group; the others must be added", lambda kv: (2 * kv,)),
        ("overwritten", "the last head of each group: its share overwrote the others", lambda kv: (2 * kv + 1,)),
        ("gqa_ignored", "the key-value head's own number was taken for a query head", lambda kv: (kv,)),
    )
    for code, words, heads in table:
        if _alike(torch.tensor(reading[0]), torch.tensor([sum(mark[0][h] for h in heads(kv)) for kv in (0, 1)])):
            return Diagnosis(code, f"{start}: {words}.")
    if _alike(torch.tensor(reading[0]), torch.tensor(right[0])):
        return Diagnosis(
            "batch_stride",
            f"{start}, which is right; in batch 1 it is not: {what} of its first head comes from "
            f"{_named(reading[1][0], batches=True)}. A batch entry has num_heads query heads.",
        )
    return Diagnosis("wrong_heads", f"{start}.")


def _members(kv_head):
    return range(kv_head * GROUP, (kv_head + 1) * GROUP)


def _named(value, batches=False):
    """ "0, 1" from 3: the query heads whose marks add up to `value`."""
    if value != int(value) or not 0 < value < 2 ** (_HEADS * _BATCHES):
        return f"none of them (the marks add up to {value:.4g})"
    heads = [bit for bit in range(_HEADS * _BATCHES) if int(value) >> bit & 1]
    if batches:
        return ", ".join(f"head {bit % _HEADS} of batch {bit // _HEADS}" for bit in heads)
    return ", ".join(str(bit) for bit in heads)


def by_undefined(evidence):
    """Diagnosis of NaN where a tile is not full and right numbers where all are, or None."""
    failing = [c for case in evidence.failing() for c in case.comparisons.values() if not c.passed]
    if not failing or failing[0].got == failing[0].got or not evidence.readings.get("whole tiles"):
        return None
    pairs = evidence.readings.get("pairs", {}).values()  # its tiles are not all full
    if not any(math.isnan(value) for column in pairs for value in column):
        return None
    return Diagnosis(
        "undefined_places",
        f"NaN in the case {evidence.failing()[0].case.name!r}, and right numbers where all tiles are full. What a "
        "masked load leaves out is undefined unless you say other=0.0, and 0 times NaN is NaN.",
    )


def by_empty_rows(evidence):
    """Only cases with queries that see no key fail."""
    failing = evidence.failing()
    if not failing or any(
        c.case.sizes["seq_len_q"] <= c.case.sizes["seq_len_kv"] or not c.case.options["causal"] for c in failing
    ):
        return None
    case = failing[0]
    empty = case.case.sizes["seq_len_q"] - case.case.sizes["seq_len_kv"]
    name, comparison = case.first_wrong
    return Diagnosis(
        "masked_row",
        f"Only the case {case.case.name!r} is wrong, where the first {empty} queries see no key and have lse = -inf. "
        f"{name} is {comparison.got:.4g} instead of {comparison.expected:.4g}. exp(-inf - -inf) is NaN and exp(score + "
        "inf) infinite: choose 0 with tl.where after the exponential.",
    )


def _mostly_wrong(case):
    wrong = case.first_wrong[1].wrong
    return wrong is None or bool(wrong.double().mean() >= 0.5)


def by_large_scores(evidence):
    """Ordinary scores right, those near +-100 wrong in most elements: a few are a matter of tiles."""
    far = evidence.failing("plus_100", "minus_100", "spikes")
    if not far or evidence.failing("normal") or not any(_mostly_wrong(case) for case in far):
        return None
    return Diagnosis(
        "no_max",
        f"Right for scores near 0, wrong in the case {far[0].case.name!r}: exp(100) is more than float32 holds. "
        "exp(score - lse) never exceeds 1; exp(score) / exp(lse) does on the way.",
    )

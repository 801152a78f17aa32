"""Which head and which keys each row of an attention has read: grouped heads, the causal mask, rows that see nothing.

May import: spec, verdict, evidence (as data), diagnosis, reference, flash_attention.cases, cases and diagnostics of
attention.
"""

import math

import torch

from ....reference.attention import of_each_query_head
from ...exercise.spec import Probe
from ...judge.diagnosis import worst_element
from ...report.verdict import Diagnosis
from ..attention.cases import scale_of
from ..attention.diagnostics import near
from .cases import BLOCK_M, tiles
from .cases import BLOCK_N as TILE


def head_probe(case):
    """v of key-value head h in batch b is 10 b + h, so that every output names the head it was read from."""
    return Probe("heads", case, lambda _inputs, outputs: outputs["out"].double()[:, :, 0, 0].tolist())


def by_heads(evidence):
    seen = evidence.readings.get("heads")
    if seen is None or any(math.isnan(value) for row in seen for value in row):
        return None
    sizes = next(p.case for p in evidence.exercise.probes if p.name == "heads").sizes
    num_kv, per_kv = sizes["num_kv_heads"], sizes["num_heads"] // sizes["num_kv_heads"]
    right = [[10.0 * b + h // per_kv for h in range(sizes["num_heads"])] for b in range(sizes["batch_size"])]
    if torch.allclose(torch.tensor(seen), torch.tensor(right), atol=1e-3):
        return None
    shown = [round(value, 3) for value in seen[0]]
    start = (
        f"{sizes['num_heads']} query heads, {num_kv} key-value heads: the heads of batch 0 must read "
        f"{[int(value) for value in right[0]]} and read {[f'{value:g}' for value in shown]}".replace("'", "")
    )
    if torch.allclose(torch.tensor(seen[0]), torch.tensor([float(h % num_kv) for h in range(len(seen[0]))]), atol=1e-3):
        return Diagnosis("gqa_modulo", f"{start}: that is h % {num_kv}. Neighbouring query heads share: h / {per_kv}.")
    if torch.allclose(torch.tensor(seen[0]), torch.tensor(right[0]), atol=1e-3):
        why = "One batch entry of k and v has num_kv_heads heads, not num_heads."
        if torch.allclose(torch.tensor(seen[1]), torch.tensor(seen[0]), atol=1e-3):
            why = "These are the heads of batch 0: the batch entry is missing from the addresses of k and v."
        return Diagnosis(
            "batch_stride",
            f"Batch 0 reads the right heads; batch 1 reads head {seen[1][0]:g} where {right[1][0]:g} is right (10 * "
            f"batch + head). {why}",
        )
    if all(any(abs(value - one) < 1e-3 for row in right for one in row) for value in seen[0]):
        return Diagnosis("wrong_head", f"{start}. Query head h reads key-value head h / num_q_per_kv.")
    return None


def seen_probe(case):
    """Equal scores under a causal mask, v = 1, 2, 3, …: how many keys each row saw, if they are the first ones."""
    return Probe("seen", case, lambda _inputs, outputs: (2.0 * outputs["out"].double()[0, 0, :, 0] - 1.0).tolist())


def read_seen(evidence):
    """(keys that each row saw, seq_len_q, seq_len_kv, rows that saw wrong ones) of `seen_probe`; None without any."""
    seen = evidence.readings.get("seen")
    if seen is None or any(math.isnan(value) for value in seen):
        return None
    sizes = next(p.case for p in evidence.exercise.probes if p.name == "seen").sizes
    num_q, num_kv = sizes["seq_len_q"], sizes["seq_len_kv"]
    wrong = [row for row, keys in enumerate(seen) if not near(keys, row + num_kv - num_q + 1)]
    return (seen, num_q, num_kv, wrong) if wrong else None


def by_rule(seen, rules, start):
    """Diagnosis of the first of the rules (code, row -> keys that it saw, words) that holds in all rows, or None."""
    for code, rule, words in rules:
        if all(near(keys, rule(row)) for row, keys in enumerate(seen)):
            return Diagnosis(code, f"{start}: {words}.")
    return None


def by_padding(seen, num_kv, wrong, tile, start):
    """Diagnosis of rows that counted the elements between the last key and the end of its tile, with v = 0, or None."""
    padded, offset = -(-num_kv // tile) * tile - num_kv, num_kv - len(seen)
    if all(near((seen[r] + 1) / 2, (n := r + offset + 1) * (n + 1) / 2 / (n + padded)) for r in wrong):
        return Diagnosis("tail_counted", f"{start}: {padded} elements beyond the last key were counted, with v = 0.")
    return None


def by_seen(evidence):
    reading = read_seen(evidence)
    if reading is None:
        return None
    seen, num_q, num_kv, wrong = reading
    offset, row = num_kv - num_q, wrong[0]
    start = (
        f"Equal scores, seq_len_q = {num_q}, seq_len_kv = {num_kv}: row {row} may see {row + offset + 1} keys and saw "
        f"{seen[row]:.4g}"
    )
    ruled = by_rule(seen, _key_rules(offset, num_kv), start)
    if ruled is not None:
        return ruled
    found = _by_tiles(seen, wrong, offset, num_kv, start)
    if found is not None or seen[row] > 2 * num_kv:
        return found  # no mean of that many keys: not a matter of which ones
    return Diagnosis("wrong_keys", f"{start}.")


def _key_rules(offset, num_kv):
    """[(code, row -> keys that it saw, words)]: the mistakes that have one rule for all rows."""
    return (
        (
            "causal_off_by_one",
            lambda r: r + offset,
            "one too few in every row: the key at the row's own position counts",
        ),
        ("causal_off_by_one", lambda r: min(r + offset + 2, num_kv), "one key of the future: the last is row + offset"),
        ("causal_top_left", lambda r: r + 1, "the mask is aligned to the top left: add seq_len_kv - seq_len_q"),
        ("causal_missing", lambda r: num_kv, "every key, those of the future too"),
        ("causal_reversed", lambda r: num_kv - r - offset, "the comparison is reversed"),
    )


def _by_tiles(seen, wrong, offset, num_kv, start):
    """Diagnosis of whole tiles that were seen, padded or skipped, or None; `wrong` lists the rows that are."""
    num_q = len(seen)
    if all(near(seen[r], min(_visited(r, offset, num_kv), num_kv)) for r in range(min(BLOCK_M, num_q))):
        return Diagnosis(
            "mask_in_tile",
            f"{start}: all keys of the tiles that were not skipped. Inside a tile that the diagonal crosses, give the "
            "keys beyond row + offset the score -inf.",
        )
    padded = by_padding(seen, num_kv, wrong, TILE, start)
    if padded is not None:
        return padded
    if all(keys < r + offset + 1 for r, keys in enumerate(seen) if r in wrong) and len(wrong) < num_q:
        return Diagnosis(
            "tile_skipped",
            f"{start}; {num_q - len(wrong)} other rows are right. A tile of queries was skipped although its last rows "
            "see keys of this tile: round the first row down to a whole tile, and compare with kv_start - offset.",
        )
    return None


def _visited(row, offset, num_kv):
    """Keys in the K/V tiles that the query tile of `row` visits."""
    q_start = row // BLOCK_M * BLOCK_M
    return sum(TILE for kv_start in range(0, num_kv, TILE) if max(kv_start - offset, 0) // BLOCK_M * BLOCK_M <= q_start)


def wrong_masked_rows(evidence):
    """(case, output, its wrong rows) of the first failing case where only rows without keys are wrong; else None."""
    for case in evidence.failing():
        empty = torch.isneginf(case.ref["lse"])
        for name, comparison in case.comparisons.items():
            if comparison.passed or comparison.wrong is None or not bool(empty.any()):
                continue
            rows = comparison.wrong.any(dim=-1) if name == "out" else comparison.wrong
            return None if bool((rows & ~empty).any()) else (case, name, rows)
    return None


def by_masked_rows(evidence):
    """Only rows that see nothing are wrong."""
    masked = wrong_masked_rows(evidence)
    if masked is None:
        return None
    case, name, rows = masked
    got, expected = worst_element(case)
    return Diagnosis(
        "masked_row",
        f"Row {int(rows.nonzero()[0, -1])} of the case {case.case.name!r} sees no key: out must be 0 and lse -inf. "
        f"{name} is {got:.4g} there instead of {expected:g}. Is it 0 / 0, or a large negative number in place of -inf?",
    )


def by_longer_queries(evidence):
    """Wrong under a causal mask where there are more queries than keys, and nowhere else."""
    failing = evidence.failing()
    if not failing or not all(case.case.sizes["seq_len_q"] > case.case.sizes["seq_len_kv"] for case in failing):
        return None
    case = failing[0]
    lse, empty = case.first.outputs["lse"].double(), torch.isneginf(case.ref["lse"])
    seeing = empty & ~torch.isneginf(lse)
    if not bool(seeing.any()):
        return None
    num_q, num_kv, row = *(case.case.sizes[name] for name in ("seq_len_q", "seq_len_kv")), int(seeing.nonzero()[0, -1])
    start = (
        f"Right with at least as many keys as queries; with {num_q} queries and {num_kv} keys row {row} sees no key, "
        f"and its lse is {lse[tuple(seeing.nonzero()[0])].item():.4g} instead of -inf"
    )
    first = tiles(case.case)[1]  # rows that see no key of a second tile, which may be skipped
    if torch.allclose(lse[..., :first], _top_left_lse(case)[..., :first], rtol=1e-3, atol=1e-3):
        return Diagnosis(
            "causal_top_left",
            f"{start}. That comes when row r sees the keys 0 to r: the mask is aligned to the top left there. "
            "seq_len_kv - seq_len_q is negative then, and counts all the same.",
        )
    return Diagnosis(
        "longer_queries",
        f"{start}. Does seq_len_kv - seq_len_q, which is negative then, count in `visible` and in the first row?",
    )


def _top_left_lse(case):
    """lse of a case when row r sees the keys 0 to r."""
    q, k = (case.inputs[name].double() for name in ("q", "k"))
    scores = q @ of_each_query_head(k, q).mT * scale_of(case.case, case.case.sizes["head_dim"])
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(hidden, -math.inf).logsumexp(dim=-1)

"""Which keys each row saw, and which key-value head each query head read: diagnoses of attention with several heads.

May import: spec, verdict, evidence (as data), reference, attention.diagnostics.
"""

import math

from ...exercise.spec import Case, Probe
from ...report.verdict import Diagnosis
from .diagnostics import near

# (name, seq_len_q, seq_len_kv, causal): as many rows as see something, rows that see nothing, and no mask
MASKS = (("rows and keys", 4, 9, 1), ("rows without keys", 6, 3, 1), ("no mask", 4, 9, 0))


def visible(q_row, seq_len_q, seq_len_kv, causal):
    """Keys that a row may see: the first ones."""
    return min(max(q_row + seq_len_kv - seq_len_q + 1, 0), seq_len_kv) if causal else seq_len_kv


_RULES = (
    ("causal_off_by_one", lambda q, n, keys: q + keys - n,
     "the row's own position, key q_row + seq_len_kv - seq_len_q, is visible too"),
    ("causal_off_by_one", lambda q, n, keys: min(q + keys - n + 2, keys),
     "that is one key of the future; the last visible key is q_row + seq_len_kv - seq_len_q itself"),
    ("causal_top_left", lambda q, n, keys: min(q + 1, keys),
     "the mask is aligned to the top left. The last query sees every key: add seq_len_kv - seq_len_q"),
    ("causal_missing", lambda q, n, keys: keys, "every key counts, those of the future too"),
    ("causal_reversed", lambda q, n, keys: min(max(q - keys + n + 1, 0), keys),
     "the offset has the wrong sign; it is seq_len_kv - seq_len_q"),
)  # fmt: skip


def say_rows(name, seen):
    """Diagnosis from how many keys each row saw, or None.

    Parameters
    ----------
    name : str, of a probe in MASKS
    seen : list of float, one a row; NaN or 0 in rows that see nothing are judged elsewhere
    """
    _, seq_len_q, seq_len_kv, causal = next(mask for mask in MASKS if mask[0] == name)
    right = [visible(q, seq_len_q, seq_len_kv, causal) for q in range(seq_len_q)]
    wrong = [q for q, value in enumerate(seen) if right[q] > 0 and not near(value, right[q])]
    if not wrong or any(not math.isfinite(seen[q]) for q in range(seq_len_q) if right[q] > 0):
        return None
    q_row = wrong[0]
    start = (
        f"Equal scores, seq_len_q = {seq_len_q}, seq_len_kv = {seq_len_kv}, causal = {causal}: row {q_row} saw "
        f"{seen[q_row]:.4g} keys, it may see {right[q_row]}"
    )
    if max(seen) > seq_len_kv + 0.5:
        return Diagnosis("tail_counted", f"{start}: positions past the end of the row were counted as keys.")
    if not any(seen):
        why = "Has the offset seq_len_kv - seq_len_q the wrong sign, or is a tile left out that is not full?"
        return Diagnosis("keys_missing", f"{start}. {why}")
    if not causal:
        return Diagnosis("mask_always", f"{start}: with causal = 0 every row sees every key.")
    for code, rule, reason in _RULES:
        expected = [max(rule(q, seq_len_q, seq_len_kv), 0) for q in range(seq_len_q)]
        if all(near(seen[q], expected[q]) or right[q] < 1 and not seen[q] > 0 for q in range(seq_len_q)):
            return Diagnosis(code, f"{start}: {reason}.")
    return Diagnosis("wrong_keys", f"{start}.")


def head_map(num_heads, num_kv_heads, batch_size=2, of="v"):
    """q = 0 and v = the number of its head, counted through the batch from 1. Reading: what each query head got.

    With of="k" scores and lse tell the head of k: its keys all have the number of the head as their scaled score.
    """
    sizes = {"batch_size": batch_size, "num_heads": num_heads, "num_kv_heads": num_kv_heads}
    sizes |= {"seq_len_q": 3, "seq_len_kv": 5, "head_dim": 4}

    def read(_inputs, outputs):
        lse = outputs.get("lse")
        got = outputs["out"].double()[:, :, 0, 0] if of == "v" else lse.double()[:, :, 0] - math.log(5)
        return {"num_kv_heads": num_kv_heads, "got": got.tolist()}

    name = "head map" if of == "v" else f"{of} head map"
    return Probe(name, Case(name, sizes, "zeros", options={of: "head_numbers"}), read)


_MAPS = (
    ("head_modulo", lambda b, h, heads, kv: b * kv + h % kv,
     "that is head % num_kv_heads. Neighbouring query heads share: head / (num_heads / num_kv_heads)"),
    ("batch_forgotten", lambda b, h, heads, kv: h // (heads // kv),
     "every batch entry reads the heads of the first one; add batch * num_kv_heads"),
    ("head_forgotten", lambda b, h, heads, kv: b * kv,
     "every query head reads the first head of its batch entry"),
    ("head_not_grouped", lambda b, h, heads, kv: b * kv + h,
     "the query head's own number was used; it must be divided by num_heads / num_kv_heads"),
    ("batch_stride", lambda b, h, heads, kv: b + h // (heads // kv),
     "a batch entry is num_kv_heads heads further, not one"),
)  # fmt: skip


def say_heads(reading, of=""):
    """Diagnosis from the reading of `head_map`, or None; `of`: the tensor, where another one is read rightly."""
    if reading is None:
        return None
    got, kv = reading["got"], reading["num_kv_heads"]
    batch_size, heads = len(got), len(got[0])
    pairs = [(b, h) for b in range(batch_size) for h in range(heads)]
    right = {(b, h): b * kv + h // (heads // kv) + 1 for b, h in pairs}
    wrong = [pair for pair in pairs if not near(got[pair[0]][pair[1]], right[pair])]
    if not wrong:
        return None
    b, h = wrong[0]
    read = " ".join(f"{value:.4g}" for value in got[b])
    want = " ".join(str(right[b, head]) for head in range(heads))
    start = f"{heads} query heads, {kv} key-value heads: in batch entry {b} the query heads must read the heads {want}"
    start += f"{f' of {of}' if of else ''} (counted through the batch from 1); they read {read}"
    for code, rule, reason in _MAPS:
        if all(near(got[i][j], rule(i, j, heads, kv) + 1) for i, j in pairs):
            return Diagnosis(code, f"{start}: {reason}.")
    sources = [divmod(row, batch_size) for row in range(len(pairs))]  # (head, batch) of row head * batch_size + batch
    if all(near(got[i][j], right[b, h]) for (i, j), (h, b) in zip(pairs, sources, strict=True)):
        reason = "the rows are numbered head * batch_size + batch; row batch * num_heads + head is right"
        return Diagnosis("rows_transposed", f"{start}: {reason}.")
    if not all(near(value, max(round(value), 1)) for row in got for value in row if math.isfinite(value)):
        return None  # no number of a head: something else is wrong
    return Diagnosis("wrong_heads", f"{start}.")

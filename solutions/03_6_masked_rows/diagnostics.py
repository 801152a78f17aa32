"""What a masked softmax says about the mistake that made it: which keys each row saw."""

import math

import torch

from course_lib.grading.exercise.spec import Probe
from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.softmax.cases import masked_case
from course_lib.grading.subjects.softmax.diagnostics import by_height, by_masked_rows, by_shift
from course_lib.grading.subjects.softmax.lse import say_lse
from course_lib.grading.subjects.softmax.sums import by_steps, near, say_count

LENS = (33, 21, 3)  # shorter than seq_len_kv, shorter still, shorter than the queries
NUM_Q, NUM_KV = 6, 40


def _seen(_inputs, outputs):
    """Keys that each row saw, from equal scores: 1/weight of its first key, and how many weights are not 0."""
    out = outputs["out"].double()
    return {
        "weights": (out != 0).sum(dim=-1).tolist(),
        "sums": _inverse(out[..., 0]).tolist(),
        "lse": outputs["lse"].tolist(),
    }


def _inverse(weights):
    return torch.where(weights == 0, torch.zeros_like(weights), 1.0 / weights)


def _step_reading(at):
    def read(_inputs, outputs):
        row = outputs["out"].double()[0, -1]
        return {"at": at, "num_cols": row.numel(), "first": row[0].item(), "last": row[-1].item()}

    return read


def _last_lse(_inputs, outputs):
    return outputs["lse"].double()[0, -1].item()


def mask_probes():
    """Probes for (scores, seq_lens_kv, out, lse): who saw which key, steps, and a single key."""
    single = masked_case("one score", 1, 1, 1, (1,), "ones", unseen=0.0)
    strides = masked_case("step between strides", 1, 1, 64, (64,), "step", unseen=0.0)
    lanes = masked_case("step between lanes", 1, 1, 32, (32,), "step", unseen=0.0)
    strides.options["at"], lanes.options["at"] = 32, 16
    return (
        Probe("seen", masked_case("seen", len(LENS), NUM_Q, NUM_KV, LENS, "zeros", unseen=0.0), _seen),
        Probe("one score", single, _last_lse),
        Probe(strides.name, strides, _step_reading(32)),
        Probe(lanes.name, lanes, _step_reading(16)),
    )


def visible(length, q_row):
    """Keys that row `q_row` of the probe may see."""
    return max(min(q_row + length - NUM_Q + 1, NUM_KV), 0)


def diagnose_masked(evidence):
    """Diagnosis of a failing masked softmax, or None."""
    seen = evidence.readings.get("seen")
    looks = (
        lambda: _by_rule(seen),
        lambda: _lse(seen, evidence.readings.get("one score")),
        lambda: by_steps(evidence),
        lambda: _reads_masked(evidence),
        lambda: _empty(seen),
        lambda: by_shift(evidence),
        lambda: by_height(evidence),
        lambda: by_masked_rows(evidence),
    )
    return next((found for look in looks if (found := look()) is not None), None)


_RULES = (
    (
        "causal_off_by_one",
        lambda length, q_row: visible(length, q_row) - 1,
        "the key at the row's own position is visible too: k <= q_row + seq_lens_kv[b] - seq_len_q",
    ),
    (
        "causal_off_by_one",
        lambda length, q_row: visible(length, q_row) + 1,
        "that is one key of the future: the last visible key is q_row + seq_lens_kv[b] - seq_len_q itself",
    ),
    (
        "causal_top_left",
        lambda length, q_row: min(q_row + 1, length),
        "the mask is aligned to the top left; the last query sees every valid key, so add seq_lens_kv[b] - seq_len_q",
    ),
    (
        "causal_top_left",
        lambda length, q_row: q_row + 1,
        "the mask is aligned to the top left; the last query sees every valid key, so add seq_lens_kv[b] - seq_len_q",
    ),
    (
        "length_ignored",
        lambda length, q_row: visible(NUM_KV, q_row),
        "seq_lens_kv[b] was not used: the offset is seq_lens_kv[b] - seq_len_q, not seq_len_kv - seq_len_q",
    ),
    (
        "length_of_another",
        lambda length, q_row: visible(LENS[0], q_row),
        "the length of batch entry 0 was used for every entry",
    ),
    ("causal_missing", lambda length, q_row: length, "every valid key counts, those of the future too"),
    ("mask_missing", lambda length, q_row: NUM_KV, "every key counts, whether the row may see it or not"),
)


def _by_rule(seen):
    """The mask rule that explains what every row saw."""
    if seen is None or any(math.isnan(value) for rows in seen["sums"] for value in rows):
        return None
    observed = {(b, q): seen["sums"][b][q] for b in range(len(LENS)) for q in range(NUM_Q)}
    full = {key: value for key, value in observed.items() if visible(LENS[key[0]], key[1]) > 1}
    wrong = [key for key, value in full.items() if not near(value, visible(LENS[key[0]], key[1]))]
    if not wrong:
        return None
    if all(near(value, 1.0) for value in full.values()):
        return say_count(1.0, visible(LENS[0], 0), NUM_KV, "row")
    b, q_row = wrong[0]
    start = (
        f"Equal scores, seq_len_q = {NUM_Q}, seq_lens_kv[{b}] = {LENS[b]}: row {q_row} saw {_keys(full[b, q_row])}, "
        "it may see "
        f"{visible(LENS[b], q_row)}"
    )
    for code, rule, reason in _RULES:
        if all(_explains(rule(LENS[b], q), value) for (b, q), value in full.items()):
            return Diagnosis(code, f"{start}: {reason}.")
    return Diagnosis("wrong_keys", f"{start}.")


def _keys(count):
    return "1 key" if near(count, 1.0) else f"{count:.4g} keys"


def _explains(keys, seen):
    return keys < 1 or near(seen, min(keys, NUM_KV))


def _empty(seen):
    """Rows that see nothing: weights, then log-sum-exp."""
    if seen is None:
        return None
    for b, length in enumerate(LENS):
        for q_row in range(NUM_Q):
            if visible(length, q_row) > 0:
                continue
            weights, lse = seen["weights"][b][q_row], seen["lse"][b][q_row]
            start = f"With seq_len_q = {NUM_Q} and seq_lens_kv[{b}] = {length}, row {q_row} sees no key"
            if weights:
                return Diagnosis(
                    "masked_row",
                    f"{start}, and yet {weights} of its weights are not 0; the contract "
                    "asks for 0 "
                    "everywhere. Is it 0 / 0, or a large negative number in place of -inf?",
                )
            if lse != -math.inf:
                return Diagnosis("masked_row", f"{start}; its lse must be -inf and is {lse:.4g}.")
    return None


def _reads_masked(evidence):
    """The probes, where masked keys hold 0, are right; an ordinary case, where they hold something else, is not."""
    normal = evidence.failing("normal")
    square = [case for case in normal if case.case.sizes["seq_len_q"] <= min(case.case.options["seq_lens_kv"])]
    if not square or square[0].elements <= 2:  # a single key: nothing is masked there
        return None
    case = square[0].case
    hidden = case.options["unseen"]
    start = f"Right when the keys that a row may not see hold 0, wrong when they hold {hidden} (case {case.name!r})"
    why = "They enter the maximum or the sum: leave them out with a condition."
    if math.isnan(hidden):
        if not any(bool(output.isnan().any()) for output in square[0].first.outputs.values()):
            return None  # the NaN was not read
        why = (
            "NaN times 0 and NaN plus -inf are NaN: choose with a condition instead of multiplying by the mask or "
            "adding it."
        )
    return Diagnosis("reads_masked", f"{start}. {why}")


def _lse(seen, single):
    return None if seen is None else say_lse(seen["lse"][0][NUM_Q - 1], LENS[0], single)

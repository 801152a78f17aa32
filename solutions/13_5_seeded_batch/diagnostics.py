"""What wrong tokens of 13.5 look like, in words and numbers.

May import: verdict, torch.
"""

import torch

from course_lib.grading.report.verdict import Diagnosis

from .outcomes import MISTAKES, bordering, calls_of, noise_of, number, outcome, probs_of, rows_of

FEW_DIGITS = 0.02  # of the whole: what sums in half precision are off by in short rows; in float32 it is far less
SHORT = 100  # tokens of a short row
NEAR = 1e-6  # of the whole: a guess is not held to what lies nearer to a border
MANY = 0.98  # of the rows of a case, that a guess must fit
FEW_ROWS = 7  # fewer right ones say nothing of those after them
CHI_SQUARE = 18.47  # of four degrees of freedom: passed by chance once in 1,000
BY_CHANCE = "500 seeds, five tokens"  # the case whose tokens are counted


def diagnose(evidence):
    """Diagnosis of wrong tokens, or of a global generator that was used."""
    failing = [one for one in evidence.failing() if one.ran and one.comparisons]
    if not failing or len(failing) < len(evidence.failing()):
        return None
    wrong = [one for one in failing if not one.comparisons["tokens"].passed]
    wrong.sort(key=lambda one: abs(one.case.sizes["num_tokens"] - 5))  # five tokens are the easiest to read
    if any(not one.comparisons["changed"].passed for one in failing):
        return _global(failing, wrong)
    start = _say(wrong[0])
    # wrong and small cases first: they exclude most mistakes
    small_first = sorted(evidence.cases, key=lambda one: (one.passed, one.inputs["logits"].numel()))
    for code, words, options in MISTAKES:
        if all(_fits(one, options) for one in small_first):
            return Diagnosis(code, f"{start} It is what comes when {words}.")
    code, words = _rounded(wrong) or _masked(wrong) or _unsteady(wrong) or _late(wrong) or _counted(evidence.cases)
    return Diagnosis(code, f"{start} {words}".strip())


def _fits(one, options):
    """Whether the tokens of a case are those of a guess in all rows away from a border, but for a few."""
    got = one.first.outputs["tokens"]
    wrong = (outcome(one.inputs, **options) != got) & ~bordering(one.inputs, NEAR)
    return int(wrong.sum()) <= round((1.0 - MANY) * len(got))


def _global(failing, wrong):
    one = next(one for one in failing if not one.comparisons["changed"].passed)
    changed = one.first.outputs["changed"]
    words = (
        f"Case {one.case.name!r}: {int(changed.sum())} of {len(changed)} calls changed the state of torch's global "
        "generator, which every other part of the program draws from."
    )
    if not wrong:
        return Diagnosis("global_state", f"{words} The tokens are right: take the numbers from `stream`.")
    return Diagnosis("global_generator", f"{_say(wrong[0])} {words} A row's noise is of its seed and step alone.")


def _places(t):
    """(call, row of the inputs) of each token."""
    return [(call, row) for call, rows in enumerate(rows_of(t)) for row in rows]


def _say(one):
    """The facts of the first wrong token of a case."""
    index, t = int(one.comparisons["tokens"].index[0]), one.inputs
    call, row = _places(t)[index]
    seed, step = int(t["seeds"][row]), int(t["steps"][row])
    got, want = (int(tokens[index]) for tokens in (one.first.outputs["tokens"], outcome(t)))
    wrong = one.comparisons["tokens"].wrong
    return (
        f"Case {one.case.name!r}, call {call} with {len(calls_of(t)[call]) or len(t['seeds'])} rows: the row of seed "
        f"{seed}, step {step}, temperature {float(t['temperatures'][row]):.3g} and so noise {number(seed, step):.4f} "
        f"gives token {got} and should give {want}; {int(wrong.sum())} of {wrong.numel()} tokens are wrong."
    )


def _rounded(wrong):
    """Tokens beside a border that the noise is near to: sums in fewer digits."""
    far = [_distance(one) for one in wrong if one.inputs["logits"].shape[1] <= SHORT]
    far = max(far, default=1.0)
    if far > FEW_DIGITS:
        return None
    return "rounded_sums", (
        f"Every wrong token of a row with up to {SHORT} is next to the right one, and the noise at most {far:.1g} from "
        f"the border between them: rounding to float32 or half precision. Draw in float64."
    )


def _distance(one):
    """The largest distance of a row's noise from the share of its wrong token; 1 where that has no probability."""
    t, got, wrong = one.inputs, one.first.outputs["tokens"], one.comparisons["tokens"].wrong
    rows = torch.tensor([row for _, row in _places(t)])[wrong]
    index = got[wrong].clamp(0, t["logits"].shape[1] - 1)[:, None]
    probs, noise = probs_of(t)[rows], noise_of(t)[rows]
    share = probs.gather(1, index)[:, 0]
    end = probs.cumsum(1).gather(1, index)[:, 0]
    far = torch.maximum(end - share - noise, noise - end).clamp(min=0.0)
    return float(torch.where((share > 0) & (t["temperatures"][rows] > 0), far, 1.0).max())


def _masked(wrong):
    """A token whose logit is -inf."""
    for one in wrong:
        for (_, row), token in zip(_places(one.inputs), one.first.outputs["tokens"].tolist(), strict=True):
            logits = one.inputs["logits"][row]
            if 0 <= token < len(logits) and float(logits[token]) == -float("inf"):
                words = f"Case {one.case.name!r}: token {token} is drawn and has the logit -inf, probability 0."
                return "masked_drawn", words
    return None


def _unsteady(wrong):
    """The same row with different tokens in two calls."""
    for one in wrong:
        seen = {}
        for (call, row), token in zip(_places(one.inputs), one.first.outputs["tokens"].tolist(), strict=True):
            before, other = seen.setdefault(row, (call, token))
            if other != token:
                return "depends_on_call", (
                    f"Case {one.case.name!r}: the same row gives token {other} in call {before} and {token} in call "
                    f"{call}. Its noise depends on the batch or on what was called before."
                )
    return None


def _late(wrong):
    """Wrong rows that all have later steps than the right ones of their cases."""
    steps = torch.cat([one.inputs["steps"] for one in wrong])
    bad = torch.cat([one.comparisons["tokens"].wrong[: len(one.inputs["steps"])] for one in wrong])  # one call has all
    if not bool(bad.any()):
        return None
    early = steps < steps[bad].min()
    late = int((~early).sum())
    if int(early.sum()) < FEW_ROWS or 2 * int(bad.sum()) < late:
        return None
    return "late_steps", (
        f"In the cases that fail every row up to step {int(steps[early].max())} is right, and of the {late} rows from "
        f"step {int(steps[bad].min())} on {int(bad.sum())} are wrong: was the step limited, or a stream of fewer "
        "numbers made?"
    )


def _counted(cases):
    """How often each token came, against its probability."""
    one = next(one for one in cases if one.case.name == BY_CHANCE)
    if one.passed:
        return "wrong_token", ""
    tokens, probs = one.first.outputs["tokens"][: len(one.inputs["seeds"])], probs_of(one.inputs)[0]
    counts = torch.bincount(tokens.clamp(0, 4), minlength=5).double()
    chi_square = float(((counts - len(tokens) * probs) ** 2 / (len(tokens) * probs)).sum())
    facts = f"Over {len(tokens)} seeds the tokens come {counts.long().tolist()} times, chi-square {chi_square:.1f}"
    if chi_square > CHI_SQUARE:
        return "wrong_token", f"{facts}; {CHI_SQUARE} is passed by chance once in 1,000."
    return "other_noise", f"{facts}: the probabilities are right, and the numbers not those of `stream`, number `step`."

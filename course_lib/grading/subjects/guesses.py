"""What a wrong result is right for: each mistake as an oracle of its own, compared with all that an answer gave.

May import: verdict, evidence (as data), torch.
"""

import math

import torch

from ..report.verdict import Diagnosis


def by_guess(evidence, guesses):
    """Diagnosis of the first guess that every failing case fits, and every right one too; None when there is none.

    Parameters
    ----------
    evidence : Evidence
    guesses : list of (code, words, oracle); oracle: (case, inputs) -> the outputs that this mistake gives, float64, or
        None where it says nothing
    """
    wrong = [one for one in evidence.cases if not one.passed]
    if not wrong or any(one.faults or one.refusal or not one.ran or not one.comparisons for one in wrong):
        return None
    small_first = sorted(evidence.cases, key=lambda one: (one.passed, one.elements))  # the first excludes most guesses
    for code, words, oracle in guesses:
        if all(_agrees(one, oracle) for one in small_first):
            return Diagnosis(code, f"{_seen(wrong[0])} {words}")
    return None


def _agrees(one, oracle):
    """Whether a case is as the guess says; a case of which it says nothing must be right."""
    guess = oracle(one.case, one.inputs)
    return one.passed if guess is None else _fits(one, guess)


def first_mistake(evidence, start, mistakes, fits):
    """Diagnosis of the first mistake that fits all cases, those that pass too; None when there is none.

    Parameters
    ----------
    start : str, what was seen
    mistakes : rows (code, words, mistake); "It is what comes when" goes before words
    fits : function (case of the evidence, mistake) -> bool
    """
    cases = [*evidence.failing(), *evidence.passing()]
    for code, words, mistake in mistakes:
        if all(fits(one, mistake) for one in cases):
            return Diagnosis(code, f"{start} It is what comes when {words}.")
    return None


def by_low_scores(evidence):
    """Diagnosis of a mask that is not low enough, where the cases with the option `low` alone fail; else None."""
    failing = [one.case for one in evidence.failing()]
    if not failing or not all("low" in case.options for case in failing):
        return None
    return Diagnosis(
        "masked_too_high",
        "Right for scores near 0, wrong where all are near -16384: a number such as -1e4 in place of -inf is "
        "larger than these, and a hidden key with it gets all the weight.",
    )


def _fits(one, guess):
    """Whether all outputs of a case are those of the guess, far nearer than to the right ones where they are wrong."""
    return all(_near(one, name, want.double()) for name, want in guess.items())


def _near(one, name, want):
    got, right = one.first.outputs[name].double(), one.ref[name].double()
    finite = torch.isfinite(want)
    if not torch.equal(torch.isfinite(got), finite):
        return False
    if not bool(finite.any()):
        return True
    error = (got - want)[finite].abs()
    limit = torch.as_tensor(one.comparisons[name].tolerance.each, dtype=torch.float64)
    if bool((error <= 2.0 * limit.expand_as(want)[finite]).all()):
        return True
    size = want[finite].abs().max().item()
    off = (got - right)[finite & torch.isfinite(right)].abs()
    return error.max().item() <= min(2e-3 * size, 0.1 * off.max().item() if off.numel() else math.inf)


def _seen(one):
    """The first wrong number of a case, in words."""
    name, comparison = one.first_wrong
    place = ", ".join(str(i) for i in comparison.index)
    return (
        f"In the case {one.case.name!r} {name}[{place}] is {comparison.got:.5g} in place of {comparison.expected:.5g}."
    )

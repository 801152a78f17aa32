"""The cases of an exercise with their numbers: inputs, float64 reference, baseline and tolerances, for one hidden seed.

May import: exercise.inputs, tolerance, processes.protocol, torch.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ..exercise import inputs
from ..processes.protocol import Run
from .tolerance import Tolerance, ToleranceTooWideError, require_small, tolerance

DRAWS = 4  # of a case: a single one is too wide for 1.4 % of the seeds, where it comes near the limit


@dataclass(frozen=True)
class Prepared:
    """A case with its numbers: everything the judge knows before the answer runs."""

    case: Any
    inputs: dict[str, Any]
    ref: dict[str, Any]
    base: dict[str, Any]
    run: Run
    unread: dict[str, Any]  # output -> bool tensor: elements that may hold anything
    tolerances: dict[str, Tolerance] = field(default_factory=dict)


def prepare(exercise, seed):
    """Inputs, float64 reference and baseline of every case, for one hidden seed.

    Parameters
    ----------
    exercise : Exercise
    seed : int

    Returns
    -------
    list of Prepared, one a case, in the exercise's order
    """
    return [_drawn(exercise, case, seed, f"case {number}") for number, case in enumerate(exercise.cases)]


def _drawn(exercise, case, seed, name):
    """One case as Prepared, drawn again where the baseline's rounding happens to make a tolerance too wide.

    Scores of +-12,000 come near the limit: of 500 seeds up to 7 would not tell right from wrong.

    Raises
    ------
    ToleranceTooWideError  each of DRAWS draws does
    """
    for draw in range(DRAWS):
        prepared = prepare_case(exercise, case, seed, name, *(["draw", str(draw)] if draw else []))
        try:
            return replace(prepared, tolerances=tolerances(exercise, prepared))
        except ToleranceTooWideError as error:
            last = error
    raise last


def inputs_and_run(exercise, case, seed, *salt):
    """(inputs, Run) of one case or probe. `salt` names it and gives it inputs of its own."""
    tensors = exercise.make_inputs(case, inputs.generator(seed, exercise.id, *salt))
    return tensors, replace(exercise.make_run(case, tensors), name=" ".join(salt), schedules=case.schedules)


def prepare_case(exercise, case, seed, *salt):
    """One case as Prepared, without tolerances; see `inputs_and_run`."""
    tensors, run = inputs_and_run(exercise, case, seed, *salt)
    unread = exercise.unread(case, tensors) if exercise.unread else {}
    ref, base = exercise.oracle(case, tensors), exercise.baseline(case, tensors)
    return Prepared(case, tensors, ref, base, run, unread)


def dtype_of(run, output):
    """The torch dtype of an output of a run."""
    return getattr(torch, run.outputs[output][1])


def tolerances(exercise, prepared):
    """output -> Tolerance, small beside the values it judges; without `largest_score` no score term is added."""
    case, run = prepared.case, prepared.run
    score = exercise.largest_score(case, prepared.inputs) if exercise.largest_score else None
    terms = exercise.terms(case, prepared.inputs) if exercise.terms else {}
    length = max(case.sizes.values(), default=1)  # no sum of a contract has more terms along one axis
    found = {}
    for (name, right), rounded in zip(prepared.ref.items(), prepared.base.values(), strict=True):
        rule, only = exercise.rules[name], {"terms": terms.get(name), "unread": prepared.unread.get(name)}
        inside = {"largest_score": score, "length": length}
        found[name] = tolerance(right, rounded, dtype_of(run, name), rule, **inside, **only)
        try:
            require_small(found[name], right, rounded, rule, **only)
        except ToleranceTooWideError as error:
            raise ToleranceTooWideError(f"{exercise.id}, case {case.name!r}, output {name}: {error}") from None
    return found

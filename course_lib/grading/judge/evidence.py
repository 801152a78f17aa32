"""What a grading has seen: one record a case, with comparisons, and the readings of the probes. `diagnose` reads it.

May import: exercise.spec, comparison, processes.protocol, report.verdict, torch.
"""

from dataclasses import dataclass, field
from typing import Any

import torch

from ..exercise.spec import Case, Exercise
from ..processes.protocol import RunResult
from ..report.verdict import Diagnosis
from .comparison import Comparison

SECOND_POISON = -2048.0  # exact in every dtype of the course; the first poison is NaN


@dataclass
class CaseEvidence:
    """One case: what went in, what came out, what should have."""

    case: Case
    inputs: dict[str, Any]
    ref: dict[str, Any]
    first: RunResult  # outputs were NaN before
    second: RunResult | None  # outputs were SECOND_POISON before; None for Python answers
    comparisons: dict[str, Comparison] = field(default_factory=dict)
    refusal: Diagnosis | None = None  # of exercises that judge a property (`accept`) or the traffic (`ledger_rule`)
    unread: dict[str, Any] = field(default_factory=dict)  # output -> bool tensor: elements that may hold anything
    differing: str = ""  # schedule, or "second run", whose outputs are wrong while the first run's are right

    @property
    def faults(self):
        """Faults and findings of the case, the fault that ended a run first."""
        runs = [run for run in (self.first, self.second) if run is not None]
        return [run.fault for run in runs if run.fault] + [finding for run in runs for finding in run.findings]

    @property
    def ran(self):
        """Whether there are outputs to look at."""
        return self.first.outputs is not None and self.first.fault is None

    @property
    def passed(self):
        right = self.refusal is None and all(comparison.passed for comparison in self.comparisons.values())
        return bool(self.ran and right and not self.faults and not self.differing and not self.inputs_changed)

    @property
    def first_wrong(self):
        """(name, Comparison) of the first output that is wrong; StopIteration where all are right."""
        return next((name, comparison) for name, comparison in self.comparisons.items() if not comparison.passed)

    @property
    def inputs_changed(self):
        """A Change for each input that one of the runs has changed."""
        return self.first.inputs_changed or (self.second.inputs_changed if self.second is not None else ())

    @property
    def elements(self):
        """Size of the case, to find the smallest failing one."""
        return sum(output.numel() for output in self.ref.values())

    def unwritten(self, name):
        """Bool tensor: elements of output `name` that still hold both poisons; None when that cannot be known."""
        if self.second is None or not self.ran or self.second.outputs is None:
            return None
        first, second = self.first.outputs[name], self.second.outputs[name]
        if not first.dtype.is_floating_point:
            return None
        left = torch.isnan(first) & (second == SECOND_POISON)
        return left & ~self.unread[name] if name in self.unread else left


def read_alone(out, ref, unread):
    """`out` with the reference at the elements that may hold anything; as it is when it has another shape."""
    if unread is None or out is None or out.shape != ref.shape:
        return out
    return torch.where(unread, ref.to(out.dtype), out)


@dataclass
class Evidence:
    """Everything that a diagnosis may look at; never the answer's text."""

    exercise: Exercise
    cases: list[CaseEvidence]
    readings: dict[str, Any] = field(default_factory=dict)  # probe name -> what its `read` gave

    def __post_init__(self):
        """Right values are not enough where the exercise asks for a way: refuse what its ledger rule refuses.

        Wrong values come first: as long as a case has some, no way is judged.
        """
        rule = self.exercise.ledger_rule
        if rule is None:
            return
        if self.exercise.accept is None:
            for case in self.cases:
                case.refusal = None  # of an earlier stage, with fewer cases
        if not all(case.passed for case in self.cases):
            return
        for case in self.cases:
            if case.first.ledger is not None:
                case.refusal = rule(case.case, case.first.ledger)

    def failing(self, *values):
        """Failing cases, of the named distributions only when some are named; smallest first."""
        chosen = [c for c in self.cases if not c.passed and (not values or c.case.values in values)]
        return sorted(chosen, key=lambda c: c.elements)

    def failing_by_values(self):
        """Failing cases, smallest first, where every one of them ran to its end; else none: a fault says more."""
        failing = self.failing()
        return failing if all(case.ran for case in failing) else []

    def smallest_by_values(self):
        """The smallest of `failing_by_values`, or None."""
        return next(iter(self.failing_by_values()), None)

    def passing(self, *values):
        """Passing cases, of the named distributions only when some are named."""
        return [c for c in self.cases if c.passed and (not values or c.case.values in values)]

    def fails_only(self, *values):
        """Whether some case of these distributions fails and every case of another one passes."""
        failing = {c.case.values for c in self.failing()}
        return bool(failing) and failing <= set(values)

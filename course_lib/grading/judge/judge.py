"""Judges one answer: makes inputs, reference and baseline, has a child run the answer, compares, and finds words.

The child runs the answer and sends back outputs and findings; only this module says PASS.

May import: protocol, verdict, spec, evidence, inputs, tolerance, diagnosis, remarks, isolation, torch.
"""

import math
import re
import secrets
import time
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ..exercise import inputs
from ..processes.protocol import ChildTask, Run, RunResult
from ..report.states import FAIL, NOT_STARTED, NOT_VERIFIED_HERE, PASS
from ..report.verdict import CaseOutcome, FirstWrong, Verdict
from . import diagnosis, remarks
from .evidence import SECOND_POISON, CaseEvidence, Evidence, read_alone
from .tolerance import Tolerance, ToleranceTooWideError, require_small, tolerance, within

WALL_SECONDS = {"cpu": 20.0, "gpu": 60.0}
_MAP_LIMIT = 128  # rows and columns of an error map that a verdict carries
_UNCHECKED = (
    "Races, bounds and barriers were not checked: that takes the SIMT machine, which cannot run here "
    "(`course doctor` says what it lacks)."
)


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
    return [_prepare_case(exercise, case, seed, f"case {number}") for number, case in enumerate(exercise.cases)]


def judge(
    exercise, answer_text, *, engine="cpu", seed=None, run_task=None, filename="answer", first_line=1, prepared=None
):
    """The verdict on one answer.

    Parameters
    ----------
    exercise : Exercise
    answer_text : str, the whole text of the answer
    engine : str, "cpu" or "gpu". A GPU shows no race and no stray read, and undefined numbers are often right there: so
        every answer is first judged on the CPU, where each access is checked, and runs on a GPU when it has passed.
    seed : int or None; None draws a new one, so that no answer can be fitted to the inputs
    run_task : callable, ChildTask -> ChildResult; default isolation.run_task
    filename, first_line : where the text stands for the learner
    prepared : what `prepare(exercise, seed)` gave, to judge many answers on the same inputs

    Returns
    -------
    Verdict
    """
    started = time.perf_counter()
    verdict = Verdict(exercise=exercise.id, state=FAIL, engine="cpu")
    if not_started(exercise, answer_text):
        verdict.state = NOT_STARTED
        mend = f"TODO {exercise.id}: mend" in answer_text
        verdict.hint = (
            f"Mend the code below the line that says {exercise.id}, delete that line, then check again."
            if mend
            else f"Replace the line that says {exercise.id} with your code, then check again."
        )
        return verdict
    seed = secrets.randbits(62) if seed is None else seed
    session = _Session(exercise, answer_text, run_task or _isolated(), filename, first_line)
    prepared = prepared or prepare(exercise, seed)
    result, evidence = session.collect(prepared)
    missing, checked = _missing_here(result), evidence
    if engine == "gpu" and exercise.language != "python" and (missing or _passed(result, evidence)):
        verdict.engine = session.engine = "gpu"
        result, evidence = session.collect(prepared)
        for case, before in zip(evidence.cases, checked.cases, strict=True):
            case.first.ledger = before.first.ledger  # a GPU counts nothing
        verdict.remarks = [_UNCHECKED] if missing else []
        missing = _missing_here(result)
    verdict.printed = result.printed
    if missing is not None:
        verdict.state, verdict.missing = NOT_VERIFIED_HERE, missing
    elif _passed(result, evidence):
        _say_pass(verdict, exercise, evidence)
    else:
        _say_fail(verdict, session, result, evidence, seed)
    verdict.seconds = time.perf_counter() - started
    return verdict


def not_started(exercise, text):
    """Whether the text is still the starter: it holds the stub of this exercise."""
    mark = re.escape(exercise.id)
    return bool(re.search(rf"//\s*TODO {mark}\b|#\s*TODO {mark}\b|raise NotImplementedError\(['\"]{mark}['\"]\)", text))


def _passed(result, evidence):
    return result.fault is None and all(case.passed for case in evidence.cases)


def _isolated():
    from ..processes.isolation import run_task

    return run_task


def _prepare_case(exercise, case, seed, *salt):
    tensors = exercise.make_inputs(case, inputs.generator(seed, exercise.id, *salt))
    run = replace(exercise.make_run(case, tensors), name=" ".join(salt), schedules=case.schedules)
    unread = exercise.unread(case, tensors) if exercise.unread else {}
    ref, base = exercise.oracle(case, tensors), exercise.baseline(case, tensors)
    prepared = Prepared(case, tensors, ref, base, run, unread)
    return replace(prepared, tolerances=_tolerances(exercise, prepared))


def _dtype(run, output):
    return getattr(torch, run.outputs[output][1])


def _tolerances(exercise, prepared):
    """output -> Tolerance, small beside the values it judges; without `largest_score` no score term is added."""
    case, run = prepared.case, prepared.run
    score = exercise.largest_score(case, prepared.inputs) if exercise.largest_score else None
    terms = exercise.terms(case, prepared.inputs) if exercise.terms else {}
    found = {}
    for (name, right), rounded in zip(prepared.ref.items(), prepared.base.values(), strict=True):
        rule, only = exercise.rules[name], {"terms": terms.get(name), "unread": prepared.unread.get(name)}
        found[name] = tolerance(right, rounded, _dtype(run, name), rule, largest_score=score, **only)
        try:
            require_small(found[name], right, rounded, rule, **only)
        except ToleranceTooWideError as error:
            raise ToleranceTooWideError(f"{exercise.id}, case {case.name!r}, output {name}: {error}") from None
    return found


class _Session:
    """One answer against one engine, the CPU at first: builds tasks and turns their results into evidence."""

    def __init__(self, exercise, text, run_task, filename, first_line):
        self.exercise, self.text, self.run_task, self.engine = exercise, text, run_task, "cpu"
        self.where = {"filename": filename, "first_line": first_line}

    def task(self, runs):
        exercise = self.exercise
        return ChildTask(
            exercise.language,
            self.text,
            exercise.entry,
            tuple(runs),
            engine=self.engine,
            wall_seconds=WALL_SECONDS[self.engine],
            forbidden=exercise.forbidden,
            watched=exercise.language == "python" and exercise.ledger_rule is not None,
            **self.where,
        )

    def collect(self, prepared):
        """Run every case, twice where poison may tell more, and compare. Returns (ChildResult, Evidence)."""
        twice = self.exercise.language != "python"
        runs = [p.run if self.engine == "cpu" else replace(p.run, schedules=()) for p in prepared]
        if twice:
            runs += [
                replace(run, name=run.name + " again", poison=SECOND_POISON, schedules=(), repeats=run.name)
                for run in runs
            ]
        result = self.run_task(self.task(runs))
        by_name = {run.name: run for run in result.runs}
        cases = []
        for p in prepared:
            first = by_name.get(p.run.name) or RunResult(p.run.name)
            second = (by_name.get(p.run.name + " again") or RunResult(p.run.name)) if twice else None
            cases.append(self._compare(p, first, second))
        return result, Evidence(self.exercise, cases)

    def _compare(self, p, first, second):
        case = CaseEvidence(p.case, p.inputs, p.ref, first, second, unread=p.unread)
        if not case.ran:
            return case
        if self.exercise.accept is not None:
            case.refusal = self.exercise.accept(p.case, p.inputs, first.outputs)
            return case
        case.comparisons = self._comparisons(p, first.outputs)
        others = dict(first.schedule_outputs)
        if second is not None and second.outputs is not None:
            others["second run"] = second.outputs
        for name, outputs in others.items():
            again = self._comparisons(p, outputs)
            if all(c.passed for c in case.comparisons.values()) and not all(c.passed for c in again.values()):
                case.differing, case.comparisons = name, again
        return case

    def _comparisons(self, p, outputs):
        found = {}
        for name, ref in p.ref.items():
            out = read_alone(outputs.get(name), ref, p.unread.get(name))
            found[name] = within(out, ref, _dtype(p.run, name), p.tolerances[name])
        return found

    def probe(self, evidence, seed):
        """Run the exercise's probes and put their readings into the evidence."""
        probes = self.exercise.probes
        if not probes or not any(case.ran for case in evidence.cases):
            return
        prepared = [_prepare_case(self.exercise, probe.case, seed, f"probe {probe.name}") for probe in probes]
        result = self.run_task(self.task([replace(p.run, schedules=()) for p in prepared]))
        by_name = {run.name: run for run in result.runs}
        for probe, p in zip(probes, prepared, strict=True):
            run = by_name.get(p.run.name)
            if run is not None and run.fault is None and run.outputs is not None:
                evidence.readings[probe.name] = probe.read(p.inputs, run.outputs)


def _missing_here(result):
    """What this machine lacks to run the answer, in words, or None."""
    faults = [result.fault, *(run.fault for run in result.runs)]
    return next((f.message for f in faults if f is not None and f.kind == "not_verified_here"), None)


def _say_pass(verdict, exercise, evidence):
    verdict.state = PASS
    verdict.cases = [_outcome(case) for case in evidence.cases]
    verdict.explanation = exercise.explanation
    ledgers = [case for case in evidence.cases if case.first.ledger is not None]
    if ledgers:
        chosen = max(ledgers, key=lambda case: case.elements)
        verdict.ledger = chosen.first.ledger
        if exercise.bound_bytes is not None:
            fewest, why = exercise.bound_bytes(chosen.case)
            verdict.bound = {"bytes": fewest, "why": why, "case": chosen.case.name}
            verdict.remarks += remarks.from_ledger(exercise, chosen.case, chosen.first.ledger, fewest)


def _say_fail(verdict, session, result, evidence, seed):
    exercise = session.exercise
    verdict.cases = [_outcome(case) for case in evidence.cases if case.ran or case.faults]
    verdict.diagnosis = diagnosis.diagnose(evidence, result.fault, lambda: session.probe(evidence, seed))
    verdict.hint = exercise.hints[0]
    refused = [case for case in evidence.failing() if case.refusal is not None and case.first.ledger is not None]
    if refused and exercise.ledger_rule is not None:
        verdict.ledger = refused[-1].first.ledger  # of the largest case, as the diagnosis
    failing = [case for case in evidence.failing() if any(not c.passed for c in case.comparisons.values())]
    if failing:
        _point_at_values(verdict, exercise, failing[0])


def _point_at_values(verdict, exercise, case):
    """First wrong element and error map of the smallest case whose values are wrong."""
    name, wrong = next((n, c) for n, c in case.comparisons.items() if not c.passed)
    if wrong.index is None:
        return
    verdict.first_wrong = FirstWrong(case.case.name, name, wrong.index, wrong.got, wrong.expected, wrong.allowed)
    ratio = wrong.ratio.reshape(-1, wrong.ratio.shape[-1]) if wrong.ratio.dim() > 1 else wrong.ratio.reshape(1, -1)
    tile = exercise.tile(case.case) if exercise.tile else tuple(ratio.shape)
    top, left = _window(wrong.index, wrong.ratio.shape, tile)
    cut = ratio[top : top + _MAP_LIMIT, left : left + _MAP_LIMIT].clamp(max=1e6).tolist()
    verdict.error_map = {"case": case.case.name, "output": name, "ratio": cut, "tile": tile, "first": (top, left)}


def _window(index, shape, tile):
    """First row and column of an error map that holds the first wrong element; 0 where it lies within the limit."""
    if not index:
        return 0, 0
    row = 0
    for number, size in zip(index[:-1], shape[:-1], strict=True):
        row = row * size + number  # rows of the axes before the last one, one after the other
    starts = []
    for at, size in zip((row, index[-1]), tile, strict=True):
        grid = size if 0 < size < _MAP_LIMIT else _MAP_LIMIT
        starts.append(0 if at < _MAP_LIMIT else at // grid * grid)
    return tuple(starts)


def _outcome(case):
    shape = " x ".join(str(size) for size in case.case.sizes.values())
    shape = f"{shape}, {case.case.dtype}" if shape else case.case.dtype
    errors = [c for c in case.comparisons.values() if not math.isnan(c.max_error)]
    worst = max(errors, key=lambda c: (not c.passed, c.max_error), default=None)
    outcome = CaseOutcome(case.case.name, shape, case.passed)
    if worst is not None:
        error, allowed = worst.nearest
        outcome = replace(outcome, max_error=error, tolerance=allowed)
    return replace(outcome, note="" if case.passed else diagnosis.case_note(case))

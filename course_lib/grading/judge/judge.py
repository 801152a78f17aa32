"""Judges one answer: prepares the cases, has a child run the answer, compares, and puts the result into words.

The child sends back outputs and findings; only this module says PASS.

May import: compiled, diagnosis, prepare, remarks, session, processes.isolation, report.states, report.verdict.
"""

import math
import re
import secrets
import time
from dataclasses import replace

from ..processes import isolation
from ..report.states import FAIL, NOT_STARTED, NOT_VERIFIED_HERE, PASS
from ..report.verdict import CaseOutcome, FirstWrong, Verdict
from . import compiled, diagnosis, remarks
from .prepare import prepare
from .session import Session

_MAP_LIMIT = 128  # rows and columns of an error map that a verdict carries
_BEFORE_THE_TASK = ("compile_error", "missing_function", "wrong_signature")  # the first hint says nothing of these
_UNCHECKED = (
    "Races, bounds and barriers were not checked: that takes the SIMT machine, which cannot run here "
    "(`course doctor` says what it lacks)."
)


def judge(
    exercise, answer_text, *, engine="cpu", seed=None, run_task=None, compile_task=None, filename="answer",
    first_line=1, prepared=None,
):  # fmt: skip
    """The verdict on one answer.

    Parameters
    ----------
    exercise : Exercise
    answer_text : str, the whole text of the answer
    engine : "cpu" or "gpu". A GPU shows no race and no stray read, so an answer first passes on the CPU, where each
        access is checked
    seed : int or None; None draws a new one, so that no answer can be fitted to the inputs
    run_task, compile_task : callables, ChildTask -> ChildResult; default isolation.run_task. The second compiles a
        passing answer for a GPU; with a run_task of its own, None leaves that out
    filename, first_line : where the text begins for the learner
    prepared : what `prepare(exercise, seed)` gave, to judge many answers on the same inputs

    Returns a Verdict.
    """
    started, verdict = time.perf_counter(), Verdict(exercise=exercise.id, state=FAIL, engine="cpu")
    if not_started(exercise, answer_text):
        verdict.state, verdict.hint = NOT_STARTED, _first_step(exercise, answer_text)
        return verdict
    seed = secrets.randbits(62) if seed is None else seed
    compile_task = isolation.run_task if run_task is None else compile_task
    session = Session(exercise, answer_text, run_task or isolation.run_task, filename, first_line)
    prepared = prepared or prepare(exercise, seed)
    result, evidence = _collect(verdict, session, prepared, engine)
    verdict.printed, verdict.missing = result.printed, _missing_here(result)
    if verdict.missing is None and _passed(result, evidence):
        _say_pass(verdict, exercise, evidence)
        _look_at_compiled(verdict, session, prepared, compile_task)
    elif verdict.missing is None:
        _say_fail(verdict, session, result, evidence, seed)
    else:
        verdict.state = NOT_VERIFIED_HERE
    verdict.seconds = time.perf_counter() - started
    return verdict


def _collect(verdict, session, prepared, engine):
    """(result, evidence) of a run on the CPU; of one on a GPU where that is asked for and the first one allows it."""
    result, checked = session.collect(prepared)
    missing = _missing_here(result)
    if engine != "gpu" or session.exercise.language == "python" or not (missing or _passed(result, checked)):
        return result, checked
    verdict.engine = session.engine = "gpu"
    result, evidence = session.collect(prepared)
    ledgers = {case.case.name: case.first.ledger for case in checked.cases}
    for case in evidence.cases:
        case.first.ledger = ledgers[case.case.name]  # a GPU counts nothing
    verdict.remarks = [_UNCHECKED] if missing else []
    return result, evidence


def _first_step(exercise, answer_text):
    """What to do with a starter that nothing was done to."""
    if f"TODO {exercise.id}: mend" in answer_text:
        return f"Mend the code below the line that says {exercise.id}, delete that line, then check again."
    return f"Replace the line that says {exercise.id} with your code, then check again."


def not_started(exercise, text):
    """Whether the text is still the starter: it holds the stub of this exercise."""
    mark = re.escape(exercise.id)
    return bool(re.search(rf"//\s*TODO {mark}\b|#\s*TODO {mark}\b|raise NotImplementedError\(['\"]{mark}['\"]\)", text))


def _passed(result, evidence):
    return result.fault is None and all(case.passed for case in evidence.cases)


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


def _look_at_compiled(verdict, session, prepared, compile_task):
    """Put into the verdict of a right kernel what a compiler for GPUs says of it."""
    if verdict.engine != "cpu" or session.exercise.language == "python" or compile_task is None:
        return
    failed, said = compiled.look(session, prepared, compile_task)
    verdict.remarks += said
    if failed is not None:
        verdict.state, verdict.diagnosis, verdict.explanation = FAIL, failed, ""


def _say_fail(verdict, session, result, evidence, seed):
    exercise = session.exercise
    verdict.cases = [_outcome(case) for case in evidence.cases if case.ran or case.faults]
    verdict.diagnosis = diagnosis.diagnose(evidence, result.fault, lambda: session.probe(evidence, seed))
    if verdict.diagnosis.code not in _BEFORE_THE_TASK:
        verdict.hint = exercise.hints[0]
    refused = [case for case in evidence.failing() if case.refusal is not None and case.first.ledger is not None]
    if refused and exercise.ledger_rule is not None:
        verdict.ledger = refused[-1].first.ledger  # of the largest case, as the diagnosis
    failing = [case for case in evidence.failing() if any(not c.passed for c in case.comparisons.values())]
    if failing:
        _point_at_values(verdict, exercise, failing[0])


def _point_at_values(verdict, exercise, case):
    """First wrong element and error map of the smallest case whose values are wrong."""
    name, wrong = case.first_wrong
    if wrong.index is None:
        return
    verdict.first_wrong = FirstWrong(case.case.name, name, wrong.index, wrong.got, wrong.expected, wrong.allowed)
    ratio = wrong.ratio.clamp(max=1e6).masked_fill(wrong.is_nan, math.nan)
    ratio = ratio.reshape(-1, ratio.shape[-1]) if ratio.dim() > 1 else ratio.reshape(1, -1)
    tile = exercise.tile(case.case) if exercise.tile else tuple(ratio.shape)
    top, left = _window(wrong.index, wrong.ratio.shape, tile)
    cut = ratio[top : top + _MAP_LIMIT, left : left + _MAP_LIMIT].tolist()
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

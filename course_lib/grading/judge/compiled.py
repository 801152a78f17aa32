"""An answer that is right on the CPU is compiled for a GPU too, which takes less than the SIMT machine does.

The SIMT machine takes what g++ takes, and Triton's interpreter what Python takes: arrays of variable length, lambdas of
the device, a `break`. Only an answer that passes everything else is compiled, once for each text. Of the course's own
answers a table says which texts compile with which compilers.

May import: errors, cuda.notes, cuda.source, cuda.steps, processes.protocol, report.verdict.
"""

import csv
import functools
import hashlib
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import torch

from ...cuda import notes, source, steps
from ...errors import CourseError
from ..processes.protocol import MapRef, Ref
from ..report.verdict import Diagnosis

WALL_SECONDS = 60.0
SHIPPED = Path(steps.KERNELS_ROOT).parent / "benchmarks" / "results" / "cpu" / "compiled_answers.csv"
_NODE = re.compile(r"unsupported AST node type: (\w+)")
_USUAL = ("sm_90", "sm_80", "sm_90a")  # the first one that the exercise promises


def architecture(exercise):
    """An architecture that the reference answer promises ("Needs" in its header): sm_90, else its oldest."""
    path = Path(steps.KERNELS_ROOT).parent / exercise.solution.partition("#")[0]
    try:
        promised = steps.architectures(path.read_text(encoding="utf-8"))
    except (OSError, CourseError):
        return _USUAL[0]
    return next((arch for arch in _USUAL if arch in promised), promised[0])


def look(session, prepared, run_task):
    """Compile an answer for a GPU.

    Parameters
    ----------
    session : Session
    prepared : list of Prepared; the largest case gives the constants and the types of the arguments
    run_task : callable, ChildTask -> ChildResult

    Returns
    -------
    (Diagnosis or None, list of remarks); (None, []) where this machine has no such compiler
    """
    task = _task(session, prepared)
    if (known := _shipped().get(_digest(task))) is not None:
        found = {"fault": "", "line": None, "notes": known}
    else:
        path = _cached(task)
        found = _read(path) or _compile(task, run_task, path)
    if found["fault"]:
        return Diagnosis("gpu_compile", found["fault"], found["line"]), []
    return None, [f"Right, but for {task.arch} {notes.meaning(code)}" for code in notes.codes(found["notes"])]


def shipped_row(session, prepared):
    """The row of the table of shipped answers, for one that compiles: {"exercise", "digest", "notes"}.

    Raises
    ------
    CourseError  an answer that has not been judged here before, or one that does not compile
    """
    task = _task(session, prepared)
    known = _shipped().get(_digest(task))
    found = {"fault": "", "notes": known} if known is not None else _read(_cached(task))
    if found is None or found["fault"]:
        raise CourseError(f"{session.exercise.id}: {found['fault'] if found else 'judge this answer first'}")
    return {"exercise": session.exercise.id, "digest": _digest(task), "notes": found["notes"]}


@functools.cache
def _shipped():
    """{digest: notes} of the answers that the course ships; empty without the table."""
    try:
        with open(SHIPPED, newline="", encoding="utf-8") as file:
            return {row["digest"]: row["notes"] for row in csv.DictReader(line for line in file if line[0] != "#")}
    except OSError:
        return {}


def _task(session, prepared):
    """What the child compiles: the largest case's constants and types, without data."""
    largest = max(prepared, key=lambda p: sum(output.numel() for output in p.ref.values()))
    return replace(
        session.task([_without_data(largest.run)]),
        engine="compile",
        arch=architecture(session.exercise),
        wall_seconds=WALL_SECONDS,
        watched=False,
    )


def _compile(task, run_task, path):
    result = run_task(task)
    fault = result.fault or result.runs[0].fault
    found = {"fault": "", "line": None, "notes": result.runs[0].returned or ""}
    if fault is not None and fault.kind != "compile_error":
        return found  # the compiler is missing, or it took too long: nothing is known
    if fault is not None:
        found |= {"fault": _sentence(task, fault), "line": fault.line}
    _write(path, found)
    return found


def _sentence(task, fault):
    said = _NODE.sub(lambda match: f"Triton compiles no `{match[1].lower()}`", fault.message.strip().rstrip("."))
    return f"Right on the CPU, but it does not compile for a GPU ({task.arch}): {said}."


def _without_data(run):
    """A run whose tensors have their dtype and no element: a compiler needs no more."""
    named = {argument.name for argument in run.arguments if isinstance(argument, Ref | MapRef)}
    inputs = {name: value.new_empty(0) for name, value in run.inputs.items() if isinstance(value, torch.Tensor)}
    inputs |= {name: torch.empty(0, dtype=getattr(torch, dtype)) for name, (_, dtype) in run.outputs.items()}
    return replace(
        run,
        name="compile",
        inputs={name: value for name, value in inputs.items() if name in named},
        outputs={},
        contents={},
        schedules=(),
    )


def _cached(task):
    """The file that holds what is known of this text, where it stands: a compiler's sentence names the line."""
    root = Path(os.environ.get("COURSE_CACHE_DIR") or Path.home() / ".cache" / "attention-kernel-by-kernel")
    return root / "compiled" / f"{_digest(task, task.filename, task.first_line)}.json"


def _digest(task, *where):
    """Of the text, the headers that it includes, what it is compiled with, and by which compilers."""
    text = source.with_headers_digest(task.source, filename=task.filename) if task.language == "cuda" else task.source
    run = task.runs[0]
    types = [(name, str(value.dtype)) for name, value in run.inputs.items()]
    arguments = [one.name if isinstance(one, Ref | MapRef) else type(one).__name__ for one in run.arguments]
    what = (task.language, text, task.entry, *where, task.arch, types, arguments)
    what += (sorted(run.constants.items()), _versions())
    return hashlib.sha256(repr(what).encode()).hexdigest()[:32]


def _versions():
    from importlib.metadata import PackageNotFoundError, version

    found = []
    for package in ("triton", "nvidia-cuda-nvrtc", "cuda-bindings"):
        try:
            found.append(version(package))
        except PackageNotFoundError:
            found.append("")
    return found


def _read(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _write(path, found):
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(f".{os.getpid()}")
        scratch.write_text(json.dumps(found), encoding="utf-8")
        scratch.replace(path)
    except OSError:
        pass  # without a cache the next verdict compiles again

"""Run mutants: is a mistake found by a finding of the SIMT machine, by wrong values, or by nothing?

A step of kernels_cu runs on its examples (course_lib/ops/examples), an answer on the cases of its exercise.

May import: everything.
"""

import os
from dataclasses import dataclass

import torch

from ..cuda import mutations
from ..cuda.kernel import Kernel
from ..cuda.simt import KINDS
from ..cuda.simt.machine import SCHEDULES
from ..errors import CompileError, CourseError

FINDING, VALUES, NOTHING = "finding", "values", "nothing"
NOT_RUN, NOT_COMPILED = "not run", "does not compile"  # neither says anything about the tests
STEP_LIMIT = 1_000_000  # basic blocks of a thread, for loops that a mistake makes endless
TIME_LIMIT_S = "20"  # of a launch
SEED = 1
_RELATIVE = {torch.float16: 2**-7, torch.bfloat16: 2**-5, torch.float32: 2**-10, torch.float64: 2**-30}


@dataclass(frozen=True)
class Row:
    """What became of one mutant.

    Attributes
    ----------
    file : str, of the line; "" for the file that was asked for
    line : int
    kind, mutation : str
    found_by : str, FINDING, VALUES, NOTHING, NOT_RUN or NOT_COMPILED
    detail : str, the kind of the finding and the schedule of the run that found it
    """

    file: str
    line: int
    kind: str
    mutation: str
    found_by: str
    detail: str = ""


def rows(subject, *, kinds=mutations.KINDS, lines=None, headers=False, without=()):
    """Yield a Row for every mutation of a subject.

    Parameters
    ----------
    subject : Examples or Cases
    kinds : names of mutations.KINDS
    lines : set of int or None; only these lines of the file
    headers : bool; the course headers that the file includes too
    without : (file, line, mutation) that are left out
    """
    text, origin = mutations.with_headers(subject.text) if headers else (subject.text, lambda line: ("", line))
    for one in mutations.mutations(text, kinds):
        file, line = origin(one.line)
        if (lines and (file or line not in lines)) or (file, line, one.what) in without:
            continue
        found_by, detail = judged(subject, text, one)
        yield Row(file, line, one.kind, one.what, found_by, detail)


def judged(subject, text, mutation):
    """Return (found by, detail). A survivor counts only when the mutated place is reached at all."""
    try:
        found_by, detail = subject.run(mutation.of(text))
        if found_by == NOTHING:
            trapped = "__trap()" if mutation.statement else f"(__trap(), {text[mutation.start : mutation.end]})"
            if subject.run(mutation.of(text, trapped), SCHEDULES[:1])[0] == NOTHING:
                return NOT_RUN, ""
    except CompileError:
        return NOT_COMPILED, ""
    return found_by, detail


class Examples:
    """The examples of one step.

    Attributes
    ----------
    text : str, of its file

    Raises
    ------
    CourseError  no example launches the file, or the file itself has findings
    """

    def __init__(self, stem, text, filename):
        from ..ops.examples import examples

        os.environ.setdefault("COURSE_TIME_LIMIT_S", TIME_LIMIT_S)
        self.text = text
        chosen = [one for one in examples("cpu") if (one.stem, one.language) == (stem, "cuda")]
        if not chosen:
            raise CourseError(f"no example launches {stem}; course_lib/ops/examples has one for each step")
        self._launches = [_Launches(one.plan().launches, filename) for one in chosen]
        for one, launches in zip(chosen, self._launches, strict=True):
            launches.run_unchanged(one.name)

    def run(self, text, schedules=SCHEDULES):
        """Return (found by, detail) of a text of the file."""
        for launches in self._launches:
            for schedule in schedules:
                found_by, detail = launches.run(text, schedule)
                if found_by != NOTHING:
                    return found_by, detail
        return NOTHING, ""


class _Launches:
    """The launches of one example, and their results without a mistake."""

    def __init__(self, launches, filename):
        self._launches, self._filename = launches, filename
        arguments = [getattr(value, "tensor", value) for launch in launches for value in launch.arguments]
        tensors = {value.data_ptr(): value for value in arguments if isinstance(value, torch.Tensor)}
        self._tensors = list(tensors.values())
        self._before = [tensor.clone() for tensor in self._tensors]
        self._marked, self._wanted = True, {}

    def run_unchanged(self, name):
        """Store the results of every schedule. CourseError when there are findings."""
        for schedule in SCHEDULES:
            findings = self._findings(None, schedule)
            if self._marked and findings and {one.kind for one in findings} == {"uninitialised_read"}:
                self._marked = False  # a kernel that changes its tensors in place
                findings = self._findings(None, schedule)
            if findings:
                raise CourseError(f"{name} has a finding without any mistake, so mutants say nothing: {findings[0]}")
            self._wanted[schedule] = [tensor.clone() for tensor in self._tensors]

    def run(self, text, schedule):
        findings = self._findings(text, schedule)
        if findings:
            return FINDING, f"{findings[0].kind}, {schedule}"
        if any(map(differs, self._tensors, self._wanted[schedule])):
            return VALUES, schedule
        return NOTHING, ""

    def _findings(self, text, schedule):
        """Run every launch, in order, up to one with findings. `text` replaces that of the file's kernels."""
        for tensor, before in zip(self._tensors, self._before, strict=True):
            tensor.copy_(before)
        for launch in self._launches:
            kernel = launch.function
            if text is not None and kernel.filename == self._filename:
                kernel = Kernel(text, kernel.name, defines=kernel.defines, filename=kernel.filename)
            report = kernel.profile(
                launch.grid, launch.block, *launch.arguments, shared_bytes=launch.shared_bytes, schedule=schedule,
                step_limit=STEP_LIMIT, outputs=launch.outputs if self._marked else (),
            )  # fmt: skip
            if report.findings:
                return report.findings
        return []


def differs(got, wanted):
    """Whether two tensors differ by more than another order of summation would explain."""
    if not got.is_floating_point():
        return not torch.equal(got, wanted)
    a, b = got.double(), wanted.double()
    if not torch.equal(torch.isfinite(a), torch.isfinite(b)):
        return True
    a, b = a[torch.isfinite(b)], b[torch.isfinite(b)]
    limit = _RELATIVE.get(got.dtype, 2**-3) * b.abs().max() if len(b) else 0.0
    return bool(((a - b).abs() > limit).any())


class Cases:
    """The cases of an exercise, for an answer in CUDA.

    Raises
    ------
    CourseError  an exercise in another language, or an answer that does not pass
    """

    def __init__(self, exercise_id, answer):
        from ..grading.exercise import registry

        exercise = registry.get_document(exercise_id)
        if exercise.language != "cuda":
            raise CourseError(f"exercise {exercise.id} is answered in {exercise.language}; mutate takes CUDA C++")
        self.text, self._id, self._filename = answer.text, exercise.id, answer.filename
        verdict = self._verdict(self.text)
        if not verdict.passed:
            raise CourseError(
                f"the answer to {exercise.id} does not pass ({verdict.state}), so mutants say nothing; first: course "
                f"grade {exercise.id} {answer.filename}"
            )

    def run(self, text, schedules=SCHEDULES):
        """Return (found by, detail) of an answer; the judge picks the schedules."""
        verdict = self._verdict(text)
        if verdict.passed:
            return NOTHING, ""
        code = verdict.diagnosis.code if verdict.diagnosis else verdict.state.lower()
        if code == "compile_error":
            return NOT_COMPILED, ""
        return (FINDING if code in KINDS else VALUES), code

    def _verdict(self, text):
        from ..grading.answer.text import Answer
        from ..grading.judge import client

        return client.grade(self._id, Answer(text, self._filename), engine="cpu", seed=SEED)

"""08.7 Read a SASS listing: what the judge runs."""

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Run
from course_lib.grading.report.verdict import Diagnosis

from .readings import QUESTIONS, A


def _accept(_case, _inputs, outputs):
    """None when all twelve numbers are right; otherwise the Diagnosis of the first wrong one."""
    for number, question in enumerate(QUESTIONS, 1):
        got = int(outputs[question.name])
        if got != question.right:
            return _diagnosis(number, question, got)
    return None


def _diagnosis(number, question, got):
    start = f"Number {number}, {question.name}: {got} is not right"
    if got in question.misread:
        code, words = question.misread[got]
        return Diagnosis(code, f"{start}. {words}")
    if question.line and got in A.code:
        return Diagnosis("other_line", f"{start}: line {got} of a is {A.code[got]} Look for {question.where}.")
    if question.line:
        return Diagnosis("no_such_line", f"{start}: a shows no line {got}. Look for {question.where}.")
    return Diagnosis("wrong_reading", f"{start}. It is read from {question.where}.")


EXERCISE = exercise(
    __file__,
    cases=(Case("the listings", {}),),
    make_inputs=lambda case, gen: {},
    make_run=lambda case, tensors: Run(case.name, {}, {one.name: ((), "int64") for one in QUESTIONS}, ()),
    accept=_accept,
)

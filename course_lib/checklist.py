"""What every exercise must pass, ours and a teacher's: it is complete, and each of its answers gets the right verdict.

Starter: NOT STARTED. Solution and right answers: PASS. Every wrong answer: FAIL with its own diagnosis.

May import: everything of the course but cli; used by cli, benchmarks and tests.
"""

import re
from dataclasses import dataclass

from .book.regions import included, solved, starter
from .grading.exercise import registry, submissions
from .grading.judge.judge import judge, not_started
from .grading.judge.prepare import prepare

MIN_WRONG, MIN_RIGHT = 3, 1
MAX_WORDS = 90  # of a paragraph or a point of a list
TRITON_HEAD = "import triton\nimport triton.language as tl\n\n\n"


@dataclass(frozen=True)
class Row:
    """One answer, what it must get and what it got."""

    exercise: str
    kind: str  # "starter", "solution", "wrong", "right"
    name: str
    expected: str  # a state, and for wrong answers the diagnosis's code
    got: str
    sentence: str
    as_expected: bool


def solution_text(exercise):
    """The solved answer as a learner would send it."""
    return _headed(exercise, solved(included(exercise.solution, registry.ROOT)))


def starter_text(exercise):
    """The text that the learner begins with."""
    return _headed(exercise, starter(included(exercise.solution, registry.ROOT), exercise.id, exercise.language))


def _headed(exercise, text):
    return TRITON_HEAD + text if exercise.language == "triton" else text


def answers(exercise):
    """Yield (kind, name, text, Wrong or Right or None) for every answer that the exercise ships."""
    solution = solution_text(exercise)
    yield "starter", "starter", starter_text(exercise), None
    yield "solution", "solution", solution, None
    for kind in ("wrong", "right"):
        for submission in submissions.load(kind, exercise.id):
            yield kind, submission.name, submissions.edited(solution, submission), submission


def judge_all(exercise, *, seed, engine="cpu"):
    """Yield a Row for every answer to `exercise`, all on the inputs of one seed."""
    prepared = prepare(exercise, seed)
    for answer in answers(exercise):
        yield judge_one(exercise, answer, seed=seed, engine=engine, prepared=prepared)


def judge_one(exercise, answer, *, seed, engine, prepared):
    """The Row for one of `answers(exercise)`, on the inputs that `prepare(exercise, seed)` gave."""
    kind, name, text, submission = answer
    verdict = judge(exercise, text, seed=seed, engine=engine, prepared=prepared)
    return row_of(exercise.id, kind, name, submission, verdict)


def row_of(exercise_id, kind, name, submission, verdict):
    """The Row for a verdict."""
    code = verdict.diagnosis.code if verdict.diagnosis else ""
    sentence = verdict.diagnosis.sentence if verdict.diagnosis else " ".join(verdict.remarks)
    got = f"{verdict.state} {code}".strip()
    if kind == "wrong":
        expected = f"FAIL {submission.diagnosis}"
        return Row(exercise_id, kind, name, expected, got, sentence, got == expected and submission.says in sentence)
    expected = "NOT STARTED" if kind == "starter" else "PASS"
    remarked = submission is None or not submission.remark or submission.remark in sentence
    return Row(exercise_id, kind, name, expected, got, sentence, got == expected and remarked)


def score(rows):
    """One line: how many wrong answers were killed with their diagnosis, how many right ones were refused."""
    wrong = [row for row in rows if row.kind == "wrong"]
    right = [row for row in rows if row.kind in ("solution", "right")]
    killed, alarms = sum(row.as_expected for row in wrong), sum(not row.as_expected for row in right)
    return f"killed {killed}/{len(wrong)}, false alarms {alarms}/{len(right)}"


def incomplete(exercise):
    """One sentence for each thing that the exercise lacks."""
    sentences = []

    def require(held, sentence):
        if not held:
            sentences.append(f"{exercise.id}: {sentence}")

    hints, names = exercise.hints, [case.name for case in exercise.cases]
    text = included(exercise.solution, registry.ROOT)
    require(len(set(hints)) == 3 and all(len(hint) > 30 for hint in hints), "three different hints of a sentence each")
    require(len(exercise.contract) > 80, "a contract that says shapes, dtypes and what is guaranteed")
    require(_longest(exercise.contract) <= MAX_WORDS, f"a contract in paragraphs of at most {MAX_WORDS} words each")
    require(len(exercise.explanation) > 80, "an explanation of what the learner has built")
    require(exercise.size_lines > 0 and exercise.minutes > 0, "size_lines and minutes above 0")
    require(names and len(set(names)) == len(names), "cases, each with a name of its own")
    require(exercise.entry in text, f"the answer must define {exercise.entry}")
    require(not not_started(exercise, text), "the solution must not read as a starter")
    require(not_started(exercise, starter(text, exercise.id, exercise.language)), "the starter must be one")
    for kind, file, least in (("wrong", "wrong.md", MIN_WRONG), ("right", "right.py", MIN_RIGHT)):
        shipped = [submission.name for submission in submissions.load(kind, exercise.id)]
        require(len(shipped) >= least, f"at least {least} {kind} answers; {file} has {len(shipped)}")
        require(len(set(shipped)) == len(shipped), f"two answers of {file} have one name")
    return sentences


def _longest(text):
    """Words of the longest paragraph or point of a list, as Markdown divides the text; a table is none."""
    parts = re.split(r"\n\s*\n|\n\s*(?=[-|] ?)", text)
    return max(len(part.split()) for part in parts)

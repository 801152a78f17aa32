"""A made-up class: learners who hand in what the exercises ship, in every layout that `course cohort` reads.

Solutions, right answers, known wrong ones and untouched starters, as work/ folders, notebooks in folders and notebooks
with their learner's name; every 40th notebook is damaged, one answer tries what the list of refused names knows and one
what only the sandbox holds. Every text has its learner's name in it, so that none is judged once for two.
"""

import json
import random
import re
import textwrap

from benchmarks import ROOT
from course_lib import checklist
from course_lib.grading.exercise import registry

CHAPTER = "03"  # a notebook holds all its exercises
SHARES = {"solution": 30, "right": 20, "wrong": 35, "starter": 15}  # per cent
DAMAGED_EVERY = 40  # notebooks
_ESCAPE = """
_reached = []
for _path in ({solution!r}, {secret!r}):
    try:
        _reached.append(bytes(torch.from_file(_path, size=16, dtype=torch.uint8).tolist()))
    except RuntimeError:
        pass
try:
    torch.from_file({left!r}, shared=True, size=4).fill_(1.0)
except RuntimeError:
    pass
print("REACHED" if _reached else "nothing", _reached)
"""


class Class:
    """The made-up class in a folder, and what each answer must get: {(learner, exercise): (state, diagnosis)}."""

    def __init__(self, folder, learners, exercises, seed=11):
        self.folder, self.exercises, self.expected, self.escapes = folder / "in", exercises, {}, []
        self.secret, self.left = folder / "secret.txt", folder / "left.bin"
        self.secret.write_text("of another learner\n")
        self._draw = random.Random(seed)
        self._known = {name: _known(name) for name in exercises}
        for number in range(learners):
            self._hand_in(f"learner{number:04}", number)

    def _hand_in(self, name, number):
        texts = {exercise: self._answer(name, exercise) for exercise in self.exercises}
        if number in (1, 2):
            texts[self.exercises[0]] = self._escape(name, by_os=number == 1)
        if number % 3 == 0:
            for exercise, text in texts.items():
                _put(self.folder / name / "work" / "answers" / exercise / "2026-01-31T09-15-02.py", text)
            return
        path = self.folder / (
            f"{name}_{CHAPTER}_exercises.ipynb" if number % 3 == 1 else f"{name}/hw/{CHAPTER}_exercises.ipynb"
        )
        text = _notebook(texts)
        if number % DAMAGED_EVERY == DAMAGED_EVERY - 1:
            text, self.expected = text[: len(text) // 2], {k: v for k, v in self.expected.items() if k[0] != name}
        _put(path, text)

    def _answer(self, learner, exercise):
        [kind] = self._draw.choices(list(SHARES), list(SHARES.values()))
        text, state, code = self._draw.choice(self._known[exercise][kind])
        self.expected[learner, exercise] = state, code
        return _within(exercise, text, f"# by {learner}")

    def _escape(self, learner, by_os):
        exercise = self.exercises[0]
        solution = self._known[exercise]["solution"][0][0]
        self.escapes.append((learner, exercise))
        if by_os:
            self.expected[learner, exercise] = "FAIL", "refused"
            return _within(exercise, solution, f"import os; os.system('touch {self.left}')  # by {learner}")
        self.expected[learner, exercise] = "PASS", ""
        task = str(registry.folder_of(exercise) / "task.py")
        attack = _ESCAPE.format(solution=task, secret=str(self.secret), left=str(self.left))
        return _within(exercise, solution, f"# by {learner}\n{attack}")


def _known(exercise_id):
    """{kind: [(text, state, diagnosis)]} of the answers that an exercise ships."""
    found = {kind: [] for kind in SHARES}
    for kind, _, text, submission in checklist.answers(registry.get(exercise_id)):
        state = {"starter": "NOT STARTED", "wrong": "FAIL"}.get(kind, "PASS")
        if _head(exercise_id).search(text):
            found[kind].append((text, state, submission.diagnosis if kind == "wrong" else ""))
    return found


def _head(exercise_id):
    """The line that begins the function of an exercise."""
    return re.compile(rf"^def {registry.get(exercise_id).entry}\(.*:$", re.MULTILINE)


def _within(exercise_id, text, lines):
    """The answer with lines put at the beginning of its function: a notebook's answer is the function alone."""
    return _head(exercise_id).sub(lambda head: f"{head[0]}\n{textwrap.indent(lines, '    ')}", text, count=1)


def _notebook(texts):
    plain = json.loads((ROOT / "exercises" / f"{CHAPTER}_exercises.ipynb").read_text())
    for cell in plain["cells"]:
        if text := texts.get(cell["metadata"].get("exercise")):
            cell["source"] = text.splitlines(True)
    return json.dumps(plain)


def _put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)

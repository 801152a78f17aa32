"""`check` and `hint`: what a notebook calls. Both send text to the judge and keep records in work/.

May import: errors, answer.text, exercise.registry, judge.client, records.work, report.hints, report.states.
"""

import os

from ..errors import CheckFailed
from .answer.text import extract
from .judge import client
from .records import work
from .report.states import PASS


def check(exercise_id, answer, *, seed=None, expect=None):
    """Judge an answer.

    Parameters
    ----------
    exercise_id : str, "03.2"
    answer : the kernel that %%cuda made, a @triton.jit function, a Python function, or the answer's text
    seed : int or None; None, the rule, draws new inputs every time
    expect : str or None; a state, for a page that shows a verdict: COURSE_STRICT asks for this state then, and nothing
        is recorded

    Returns
    -------
    Verdict; a notebook shows it as a card

    Raises
    ------
    CheckFailed  COURSE_STRICT=1 is set and the verdict is not PASS (or not `expect`)
    CourseError  the answer has no text that can be taken along, or the exercise does not exist
    """
    text = extract(answer)
    verdict = client.grade(exercise_id, text, seed=seed)
    if expect is None:
        work.record(verdict, text)
    wanted = expect or PASS
    if os.environ.get("COURSE_STRICT") == "1" and verdict.state != wanted:
        raise CheckFailed(f"{exercise_id} must be {wanted} under COURSE_STRICT=1.\n{verdict}", verdict)
    return verdict


def hint(exercise_id, *, seen=0):
    """Show one more of the three hints of an exercise, together with those already shown.

    Parameters
    ----------
    exercise_id : str, "03.2"
    seen : int, how many the reader has in view, which may be more than are recorded (a card with expect="FAIL")

    Returns
    -------
    Hints; a notebook shows it as a card
    """
    from .exercise import registry

    exercise = registry.get_document(exercise_id)
    level = work.next_hint(exercise_id, len(exercise.hints), seen)
    from .report.hints import Hints

    return Hints(exercise_id, exercise.title, tuple(exercise.hints[:level]), len(exercise.hints))

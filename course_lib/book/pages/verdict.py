"""README's verdict: the card of one known wrong answer, as `course grade` prints it.

May import: errors; the command line runs as a process.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from ...errors import CourseError

EXERCISE = "03.2"
SOLUTION = "kernels_cu/softmax/03_online_warp.cu"
RIGHT = "l = l * exp_shifted(m, m_new) + exp_shifted(score, m_new);"
WRONG = "l += exp_shifted(score, m_new);"


def verdict_card(root):
    """A code block with the card of the answer that does not rescale the sum; time, hint and list of cases left out."""
    source = (Path(root) / SOLUTION).read_text(encoding="utf-8")
    if source.count(RIGHT) != 1:
        raise CourseError(f"{SOLUTION}: expected one line {RIGHT!r}, which README's wrong answer changes")
    printed = _grade(source.replace(RIGHT, WRONG), root)
    card = re.sub(r" · [\d.]+ s\b", "", printed, count=1)
    card = re.sub(r"(?m)^  [✔✘] .*\n", "", card)  # one line a case
    card = re.sub(r"\n{3,}", "\n\n", card.partition("\n  Hint:")[0]).strip("\n")
    return f"```text\n{card}\n```"


def _grade(text, root):
    """What `course grade` prints of an answer that fails."""
    environment = {**os.environ, "COURSE_ENGINE": "cpu", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.cu"
        answer.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "course_lib.cli", "grade", EXERCISE, str(answer), "--seed", "0"]
        result = subprocess.run(
            command, cwd=root, env={**environment, "COURSE_WORK_DIR": folder}, capture_output=True, text=True
        )
    if result.returncode != 1:
        raise CourseError(f"course grade ended with {result.returncode}; expected 1, a FAIL: {result.stderr}")
    return result.stdout

"""What all tests share. No test touches a learner's answers: work/ is a scratch folder for the whole run."""

import os
import tempfile
from pathlib import Path

import pytest

import course_lib  # noqa: F401  chooses Triton's interpreter before any test imports triton

_work = tempfile.TemporaryDirectory(prefix="course-work-")
os.environ["COURSE_WORK_DIR"] = _work.name  # set here, so that notebook kernels and judges inherit it


@pytest.fixture(scope="session")
def root():
    """The repository's root, a Path."""
    return Path(__file__).resolve().parents[1]

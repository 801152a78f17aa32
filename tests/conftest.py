"""What all tests share. No test touches a learner's answers: work/ is a scratch folder for the whole run."""

import os
import re
import tempfile
from pathlib import Path

import pytest

# a worker is one of several: BLAS threads that spin on two busy cores made one interpreted test take 28 s, not 0.5 s
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import course_lib  # noqa: E402, F401  chooses Triton's interpreter before any test imports triton

_work = tempfile.TemporaryDirectory(prefix="course-work-")
os.environ["COURSE_WORK_DIR"] = _work.name  # set here, so that notebook kernels and judges inherit it


@pytest.fixture(scope="session")
def root():
    """The repository's root, a Path."""
    return Path(__file__).resolve().parents[1]


@pytest.hookimpl(optionalhook=True)  # pytest-xdist may be missing where only the tests of the GPU run
def pytest_xdist_make_scheduler(config, log):
    """Workers take whole files, except that the kill table is taken exercise by exercise."""
    from xdist.scheduler import LoadFileScheduling

    class ByFileOrExercise(LoadFileScheduling):
        def _split_scope(self, nodeid):
            exercise = re.search(r"/test_kill_table\.py::.*\[(\d\d\.\d+)\]$", nodeid)
            return f"kill table {exercise[1]}" if exercise else super()._split_scope(nodeid)

    return ByFileOrExercise(config, log) if config.getvalue("dist") == "loadfile" else None

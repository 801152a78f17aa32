"""What all tests share. No test touches a learner's answers: work/ is a scratch folder for the whole run."""

import gc
import os
import re
import tempfile
from pathlib import Path

import pytest
import without_grammars  # noqa: F401  before any test imports jsonschema

# a worker is one of several: BLAS threads that spin on two busy cores made one interpreted test take 28 s, not 0.5 s
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import compiled_before as compiled  # noqa: E402

import course_lib  # noqa: E402, F401  chooses Triton's interpreter before any test imports triton

# files of few tests that take long; their names may go on
LONG = (
    "tests/grading/test_escapes",
    "tests/notebooks/test_browser",
    "tests/simt/test_aarch64",
    "tests/simt/test_flash_attention_3_",
    "tests/unit/test_gate",  # when a compiler or a header has changed
    "tests/unit/test_hosted",
    "tests/unit/test_viz_player",
)
gc.disable()  # until all tests are collected
_work = tempfile.TemporaryDirectory(prefix="course-work-")
os.environ["COURSE_WORK_DIR"] = _work.name  # set here, so that notebook kernels and judges inherit it


compiled_before = compiled.compiled_before  # a fixture


def pytest_addoption(parser):
    compiled.add_options(parser)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    compiled.forget_failed(item.config, report)
    return report


def pytest_sessionfinish(session):
    compiled.store(session.config)


@pytest.fixture(scope="session")
def root():
    """The repository's root, a Path."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def browser():
    """A running browser (chromium.py)."""
    from chromium import running

    with running() as browser:
        yield browser


@pytest.hookimpl(optionalhook=True)  # pytest-xdist may be missing where only the tests of the GPU run
def pytest_xdist_make_scheduler(config, log):
    """Workers take whole files, those with most tests first; but before them the kill table an exercise at a time, the
    starters a chapter at a time, and LONG: few tests that take long, which would leave one worker without work at the
    end.
    """
    from xdist.scheduler import LoadFileScheduling

    class LongOnesFirst(LoadFileScheduling):
        def _split_scope(self, nodeid):
            part = re.search(r"/test_(?:kill_table|starters)\.py::.*\[(\d\d[._]\w+)\]$", nodeid)
            return f"part {part[1]}" if part else super()._split_scope(nodeid)

        def _assign_work_unit(self, node):
            for scope in self.workqueue:
                if scope.startswith(("part ", *LONG)):
                    self.workqueue.move_to_end(scope, last=False)
                    break
            super()._assign_work_unit(node)

    return LongOnesFirst(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop():
    """Modules and collected tests are no garbage: a collection need not walk through them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()

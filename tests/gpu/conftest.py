"""Tests of the real GPU: `make test-gpu`. Without one they are not collected, rather than counted as passed."""

import sys
from pathlib import Path

import pytest

from course_lib.device import has_gpu

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

if not has_gpu():
    collect_ignore_glob = ["test_*.py"]


def pytest_collection_modifyitems(items):
    """Everything in this folder needs a GPU."""
    for item in items:
        if Path(item.fspath).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.gpu)

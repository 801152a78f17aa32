"""Tests of the real GPU: `make test-gpu`. Without one they are not collected, rather than counted as passed."""

from pathlib import Path

import pytest

from course_lib.device import has_gpu

if not has_gpu():
    collect_ignore_glob = ["test_*.py"]


def pytest_collection_modifyitems(items):
    """Everything in this folder needs a GPU."""
    for item in items:
        if Path(item.fspath).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.gpu)

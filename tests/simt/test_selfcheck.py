"""The machine refuses a compiler whose instrumentation it cannot rely on, instead of calling every kernel clean."""

import sys

import pytest

from course_lib.cuda.simt import selfcheck
from course_lib.errors import ToolchainError

builder = sys.modules["course_lib.cuda.simt.build"]


@pytest.fixture
def fresh_passes(monkeypatch):
    """As if this compiler had never been asked."""
    key = f"test-{id(object())}"
    monkeypatch.setattr(selfcheck, "checked_key", lambda: key)
    yield
    (builder.cache_dir() / f"passed-{key}").unlink(missing_ok=True)


def test_it_passes_and_remembers(fresh_passes, monkeypatch):
    selfcheck.self_check()
    monkeypatch.setattr(selfcheck, "_profile", lambda name: pytest.fail("asked twice"))
    selfcheck.self_check()


@pytest.mark.parametrize("left_out", ["-fsanitize=thread", "-fsanitize-coverage"])
def test_missing_instrumentation_is_refused(fresh_passes, monkeypatch, left_out):
    flags = builder._flags
    monkeypatch.setattr(
        builder, "_flags", lambda mode: tuple(one for one in flags(mode) if not one.startswith(left_out))
    )
    with pytest.raises(ToolchainError, match="self-test failed"):
        selfcheck.self_check()

"""What the tests of mistakes on the SIMT machine share: a line by its text, a finding by kind, line and sentence."""

import re

import pytest

from course_lib.cuda import nvrtc
from course_lib.errors import CompileError


def line_of(source, text):
    """The number of the one line of `source` that holds `text`."""
    (number,) = [number for number, line in enumerate(source.splitlines(), 1) if text in line]
    return number


def require_finding(report, source, kind, text, sentence):
    """A finding of the report has this kind, is at the line that holds `text` (any if None) and matches `sentence`."""
    found = [one for one in report.of_kind(kind) if text is None or one.line == line_of(source, text)]
    assert any(re.search(sentence, one.message) for one in found), str(report)


def require_refused(source, arch, sentence):
    """`source` does not compile for `arch`; the error matches `sentence`."""
    with pytest.raises(CompileError, match=sentence):
        nvrtc.compile_cubin(source, arch=arch)

"""Kernels with one line taken out, so that a test can ask whether the machine finds what is missing."""

import re

from course_lib import cuda
from course_lib.cuda.source import KERNELS_ROOT

SHARED = ("common/decode_merge.cuh", "common/last_block.cuh")  # headers whose lines count as the kernel's own


def without_line(function, line):
    """The kernel of a launch, compiled without the one line that contains `line`.

    Parameters
    ----------
    function : Kernel, as in ``launch.function``
    line : str, part of exactly one line of the file or of a header in SHARED that it includes
    """
    source = function.source
    for header in SHARED:
        text = (KERNELS_ROOT / header).read_text(encoding="utf-8").replace("#pragma once\n", "")
        source = re.sub(rf'^#include "{re.escape(header)}".*$', lambda _, text=text: text, source, flags=re.MULTILINE)
    (whole,) = (text for text in source.splitlines() if line in text)
    return cuda.compile(source.replace(whole, ""), function.name, defines=function.defines)

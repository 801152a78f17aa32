"""Two fixtures: run a CUDA text on the SIMT machine under observation, or fast."""

import pytest
import torch

from course_lib.cuda import simt
from course_lib.cuda.signature import parse

_built = {}


def _module(source, name, mode, defines=None):
    key = (source, name, mode, str(defines))
    if key not in _built:
        _built[key] = simt.build(source, name, parse(source, name), mode=mode, defines=defines)
    return _built[key]


@pytest.fixture(scope="session")
def profile():
    """profile(source, name, grid, block, *arguments, **options) -> Report"""

    def run(source, name, grid, block, *arguments, shared_bytes=0, defines=None, **options):
        module = _module(source, name, "checked", defines)
        return module.profile(grid, block, list(arguments), shared_bytes, **options)

    return run


@pytest.fixture(scope="session")
def launch():
    """launch(source, name, grid, block, *arguments, shared_bytes=0)"""

    def run(source, name, grid, block, *arguments, shared_bytes=0, defines=None):
        return _module(source, name, "fast", defines).launch(grid, block, list(arguments), shared_bytes)

    return run


@pytest.fixture
def zeros():
    """zeros(n, dtype) -> tensor"""
    return lambda *size, dtype=torch.float32: torch.zeros(*size, dtype=dtype)

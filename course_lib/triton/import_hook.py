"""Import hook: adapts modules of triton right after they have been imported.

The course corrects the interpreter (bf16, see _bf16.py), records its accesses and counts launches. All of that must be
in place before the first kernel runs, wherever the import comes from, and ``import course_lib`` must not import triton.
So a meta path finder watches three modules of triton and passes each, once executed, to _private.adapt.

May import: the standard library; _private only when triton is imported.
"""

import importlib.abc
import importlib.util
import sys

WATCHED = ("triton.runtime.jit", "triton.runtime.interpreter", "triton.runtime.autotuner")


class _TritonFinder(importlib.abc.MetaPathFinder):
    def __init__(self, names):
        self.pending = set(names)

    def find_spec(self, fullname, path=None, target=None):
        if fullname not in self.pending:
            return None
        self.pending.discard(fullname)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_then_adapt(module):
            execute(module)
            _adapt(module)

        spec.loader.exec_module = execute_then_adapt
        return spec


def install():
    """Adapt the watched modules that are imported already and watch for the others. A second call changes nothing."""
    if any(_name(type(finder)) == _name(_TritonFinder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _TritonFinder(name for name in WATCHED if name not in sys.modules))
    for name in WATCHED:
        if name in sys.modules:
            _adapt(sys.modules[name])


def _name(kind):
    """Return the full name of a class: other packages install finders of the same short name."""
    return f"{kind.__module__}.{kind.__qualname__}"


def _adapt(module):
    from . import _private

    _private.adapt(module)

"""Act right after a module of triton has been imported, without importing it here.

The course corrects the interpreter (bf16, see _bf16.py), records its accesses and counts launches. All of that must be
in place before the first kernel runs, however triton comes in, and ``import course_lib`` must stay light. So a finder
waits for two modules of triton and hands each, once executed, to _private.py.

May import: the standard library; _private only when triton comes in.
"""

import importlib.abc
import importlib.util
import sys

WATCHED = ("triton.runtime.jit", "triton.runtime.interpreter")


class _Watcher(importlib.abc.MetaPathFinder):
    def __init__(self, names):
        self.waiting = set(names)

    def find_spec(self, fullname, path=None, target=None):
        if fullname not in self.waiting:
            return None
        self.waiting.discard(fullname)
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
    """Adapt triton's modules that are already there, and wait for the others. Calling it twice changes nothing."""
    if any(type(finder).__name__ == _Watcher.__name__ for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _Watcher(name for name in WATCHED if name not in sys.modules))
    for name in WATCHED:
        if name in sys.modules:
            _adapt(sys.modules[name])


def _adapt(module):
    from . import _private

    _private.adapt(module)

"""What an exercise forbids: callables that raise, and operators of torch that are refused by whichever name they ran.

`torch.softmax`, `Tensor.softmax`, `torch.nn.Softmax`, `torch.special.softmax` and `torch.ops.aten._softmax` all end in
one operator of torch, so the operator is what a Python answer is held to.

May import: faults, torch.
"""

import contextlib
import functools
import threading
from fnmatch import fnmatchcase

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .faults import ForbiddenCall

_OPERATORS = "aten."


class Off:
    """Refuses what an exercise's `forbidden` names, and remembers that it was called.

    Parameters
    ----------
    names : tuple of str; "aten.*softmax*" is a pattern for operators of torch, refused inside ``off.operators()``;
        another name is a callable, "triton.language.softmax", replaced from now on
    """

    def __init__(self, names):
        self.error, self.here = None, threading.local()
        self.patterns = tuple(name for name in names if name.startswith(_OPERATORS))
        self.refuses = functools.cache(self._refuses)  # an answer calls few operators, and each often
        if self.patterns:
            self._follow_threads()
        for name in names:
            if name not in self.patterns:
                self._replace(name)

    @contextlib.contextmanager
    def operators(self, watch=None):
        """A context in which the operators raise, in threads that are started in it as well.

        watch : Watch or None; it sees the operators too, and has them looked at: a second mode would cost each of them
            half as much time again
        """
        if not self.patterns:
            with watch or contextlib.nullcontext():
                yield
            return
        if watch is not None:
            watch.look_first = self.look
        self.here.refusing = True
        try:
            with watch or _Refusing(self):
                yield
        finally:
            self.here.refusing = False

    def look(self, func, args):
        """Raise if `func`, an operator that is about to run with `args`, is one of them."""
        name = func.overloadpacket.__name__
        if "index" in name and len(args) > 1 and isinstance(args[1], list | tuple) and any(map(_is_mask, args[1])):
            name = "index_by_mask"  # how many numbers it takes depends on values
        if self.refuses(name):
            self.refuse(f"torch's {name.strip('_')} (operator {_OPERATORS}{name})")

    def _refuses(self, name):
        """Whether a pattern names this operator."""
        return any(fnmatchcase(_OPERATORS + name, pattern) for pattern in self.patterns)

    def refuse(self, name):
        """Raise, now and in `check`."""
        self.error = ForbiddenCall(f"{name} is off limits in this exercise: write that step yourself.")
        raise self.error

    def check(self):
        """Raise even though the answer swallowed the exception; it still knows its line."""
        if self.error is not None:
            raise self.error

    def _follow_threads(self):
        """A dispatch mode holds in one thread alone: a thread that is started inside `operators` gets its own."""
        start = threading.Thread.start

        def start_refusing(thread):
            if getattr(self.here, "refusing", False):
                thread.run = self.operators()(thread.run)
            start(thread)

        threading.Thread.start = start_refusing

    def _replace(self, name):
        *path, last = name.split(".")
        owner = functools.reduce(getattr, path[1:], __import__(path[0]))
        setattr(owner, last, lambda *_args, **_kwargs: self.refuse(name))


def _is_mask(index):
    return getattr(index, "dtype", None) in (torch.bool, torch.uint8)


class _Refusing(TorchDispatchMode):
    def __init__(self, off):
        super().__init__()
        self.off = off

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # else the first operator imports torch.compile's machinery, which takes more than a second

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.off.look(func, args)
        return func(*args, **(kwargs or {}))

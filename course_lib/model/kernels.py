"""Which function runs each operation of a model.

May import: errors, expect, model.torch_kernels, model.course_kernels inside a function (it loads the course's engines).
"""

from .. import expect
from ..errors import UnsupportedError
from . import torch_kernels

OPERATIONS = (
    "embedding", "layer_norm", "rms_norm", "add_rms_norm", "linear", "packed_linear", "gelu", "swiglu", "rope",
    "append", "attention", "decode", "sample", "greedy", "cross_entropy",
)  # fmt: skip
BACKENDS = ("torch", "course", "fast")


class Kernels:
    """One function for each of OPERATIONS, as attributes.

    Attributes
    ----------
    sources : dict, operation -> who made the function that runs: "torch", "course", "naive", or "yours (09.6)"
    few_tokens : bool; a step of few tokens runs in five launches a layer, see `model.few_tokens`
    """

    def __init__(self, backend="torch", *, few_tokens=None, **others):
        """backend : one of BACKENDS; "fast" is the course's kernels, and torch's library for the matrix products.
        few_tokens : bool, or None: True where all operations are the course's, apart from matrix products
        others : operation -> another backend for it; attention="naive" keeps all scores in memory"""
        for name in (backend, *others.values()):
            expect.word("backend", name, error=UnsupportedError)
        if few_tokens is not None:
            expect.flag("few_tokens", few_tokens, error=UnsupportedError)
        self.sources, self.few_tokens = {}, backend != "torch" and not others if few_tokens is None else few_tokens
        for operation in OPERATIONS:
            name = "torch" if (backend, operation) == ("fast", "linear") else backend
            self._take(operation, "course" if name == "fast" else name)
        for operation, name in others.items():
            if operation not in OPERATIONS:
                raise UnsupportedError(f"{operation!r} is no operation; there are {', '.join(OPERATIONS)}.")
            self._take(operation, name)

    def _take(self, operation, backend):
        self.put(operation, _function(operation, backend), backend)

    def counts(self, operation):
        """Whether `sample` or `greedy` also counts and keeps the token, as `ops.sampling.sample` does."""
        return self.sources[operation] == "course"

    def put(self, operation, function, source):
        """Let `function` run an operation; `source` says whose it is."""
        setattr(self, operation, function)
        self.sources[operation] = source


def _function(operation, backend):
    if backend == "torch":
        return getattr(torch_kernels, operation)
    if (operation, backend) == ("attention", "naive"):
        return torch_kernels.naive_attention
    if backend == "course":
        from . import course_kernels

        return getattr(course_kernels, operation)
    raise UnsupportedError(
        f"{backend!r} has no {operation}; choose one of {', '.join(BACKENDS)}, for attention also naive."
    )

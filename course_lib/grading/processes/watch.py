"""What a torch answer makes while it runs: the ledger of exercises that ask for tiles.

Right values do not tell whether an answer held all weights of a row at once. The operators do: an exponential of a
whole row of scores, a product that adds up a whole row of them, or memory. Views are not counted: they hold nothing
of their own.

May import: torch.
"""

import functools
import math
import sys
import tracemalloc
import weakref

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_EXPONENTIALS = ("exp", "exp2", "expm1", "pow", "sigmoid")
_FILLS = ("fill", "zero")  # in place, before there is anything to overwrite
_DOORS = ("numpy", "tolist", "__array__", "__dlpack__")  # by which many numbers leave torch at once
_SUMS = ("sum", "mean")
_PRODUCTS = {"mm": 0, "bmm": 0, "mv": 0, "dot": 0, "addmm": 1, "baddbmm": 1, "addbmm": 1, "addmv": 1}  # left operand


class Watch(TorchDispatchMode):
    """Counts inside ``with Watch() as watch:``; `watch.ledger()` tells.

    Attributes
    ----------
    exponentials : most numbers that one operator took an exponential of
    longest : the longest axis of such a tensor
    terms : most terms that one matrix product added up for an element
    added : the same of a sum, a mean or a convolution
    doubles : most numbers of a float64 tensor that an operator made
    multiply_adds : of all matrix products together
    multiplied : numbers that all other multiplications made together
    left : numbers that left torch for numpy arrays and lists
    overwritten : numbers of a tensor's memory -> most numbers that operators wrote into one such memory in place
    tensor_bytes : most bytes that tensors made by operators held at one time
    object_bytes : the same of Python objects and numpy arrays, from the first number on that left torch: counting them
        makes every operator three times as slow
    held_bytes : most of both together, looked at after each operator
    look_first : function (operator, arguments) that is called before each operator, or None
    """

    def __init__(self):
        super().__init__()
        self.look_first = None
        self.exponentials, self.longest, self.terms, self.multiply_adds = 0, 0, 0, 0
        self.added, self.doubles = 0, 0
        self.multiplied, self.left = 0, 0
        self.overwritten = {}
        self.tensor_bytes, self.object_bytes, self.held_bytes = 0, 0, 0
        self._alive = 0
        self._storages = {}  # id -> (weak reference, bytes of it that count)
        self._written = {}  # id -> numbers written in place

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # else the first operator imports torch.compile's machinery, which takes more than a second

    def __enter__(self):
        self._doors = {name: getattr(Tensor, name) for name in _DOORS}
        for name, door in self._doors.items():
            setattr(Tensor, name, self._counting(door))
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self.object_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        for name, door in self._doors.items():
            setattr(Tensor, name, door)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self._know_all(args, counts=False)
        if self.look_first is not None:
            self.look_first(func, args)
        full_name = func.overloadpacket.__name__
        name = full_name.rstrip("_")
        if name == "_local_scalar_dense":
            tracemalloc.start()
        made = func(*args, **(kwargs or {}))
        if tracemalloc.is_tracing():
            # torch makes a new str for each look at an attribute, and Python's cache of attributes keeps up to 4,096 of
            # them: not the answer's memory
            sys._clear_type_cache()
        self._know_all((made,), counts=True)
        self.held_bytes = max(self.held_bytes, self._alive + tracemalloc.get_traced_memory()[0])
        if name in _EXPONENTIALS and isinstance(made, Tensor):
            self.exponentials = max(self.exponentials, math.prod(made.shape))
            self.longest = max(self.longest, *made.shape, 1)
        if name in _PRODUCTS:
            terms = args[_PRODUCTS[name]].shape[-1]
            self.terms = max(self.terms, terms)
            self.multiply_adds += made.numel() * terms
        if name == "mul":
            self.multiplied += made.numel()
        if name in _SUMS and isinstance(made, Tensor):
            self.added = max(self.added, args[0].numel() // max(made.numel(), 1))
        if name == "convolution":
            self.added = max(self.added, math.prod(args[1].shape[1:]))
        if isinstance(made, Tensor) and made.dtype == torch.float64:
            self.doubles = max(self.doubles, made.numel())
        if full_name.endswith("_") and name not in _FILLS:
            self._write(made)
        return made

    def _counting(self, door):
        """A method of Tensor that begins to count the memory of Python objects and numpy arrays."""

        @functools.wraps(door)
        def through(tensor, *args, **kwargs):
            tracemalloc.start()
            self.left += tensor.numel()
            return door(tensor, *args, **kwargs)

        return through

    def _write(self, tensor):
        """Count what an operator wrote in place: `tensor` is a view of the memory, or all of it."""
        storage = tensor.untyped_storage()
        key, size = id(storage), storage.nbytes() // tensor.element_size()
        self._written[key] = self._written.get(key, 0) + tensor.numel()
        self.overwritten[size] = max(self.overwritten.get(size, 0), self._written[key])

    def _know_all(self, values, *, counts):
        """`_know` for the tensors among the arguments or results of an operator, those in its lists too."""
        for value in values:
            if isinstance(value, Tensor):
                self._know(value, counts)
            elif isinstance(value, tuple | list):
                self._know_all(value, counts=counts)

    def _know(self, tensor, counts):
        """Count the memory of a tensor that an operator made; what no operator made is an input."""
        if tensor.layout is not torch.strided:
            return
        storage = tensor.untyped_storage()
        key = id(storage)
        if key in self._storages:
            return
        size = storage.nbytes() if counts else 0
        self._storages[key] = weakref.ref(storage, lambda _: self._forget(key)), size
        self._alive += size
        self.tensor_bytes = max(self.tensor_bytes, self._alive)

    def _forget(self, key):
        self._alive -= self._storages.pop(key)[1]
        self._written.pop(key, None)

    def ledger(self):
        """The counts, as a dict for RunResult.ledger."""
        counts = ("exponentials", "longest", "terms", "multiply_adds", "multiplied", "left", "added", "doubles")
        found = {name: getattr(self, name) for name in (*counts, "tensor_bytes", "object_bytes", "held_bytes")}
        return found | {"overwritten": {str(size): written for size, written in self.overwritten.items()}}

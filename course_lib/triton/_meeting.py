"""Where two operands of Triton's interpreter meet: when they are plain, and what type their result has.

May import: _shapes, numpy.
"""

import numpy as np

from . import _shapes

FLOATS = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64}
INTS = {f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_LARGEST = {"fp16": 65504, "bf16": 3e38, "fp32": 3e38, "fp64": 1e308}
_WORD = range(-(2**31), 2**31)
_INDICES = {"int32", "int64"}
_MANY = 4096  # entries, after which a cache is emptied


def dtypes(names):
    """NumPy's type for each name of the language's."""
    return {name: np.dtype(kind) for name, kind in names.items()}


def by_builtin(owner, quick):
    """Replace the names by what this version of the language has under them."""
    return {getattr(owner, name): made for name, made in quick.items() if hasattr(owner, name)}


def is_quiet(value, name):
    """True for a number that the floating type of that name holds, so that NumPy does not warn of an overflow."""
    largest = _LARGEST.get(name, 0)
    return -largest <= value <= largest or value - value != 0  # the second: inf and NaN


class Meeting:
    """What two operands become: their handles and the type of the result."""

    def __init__(self, interpreter):
        self.interpreter, self.core = interpreter, interpreter.tl.core
        self.semantic, self.builder = interpreter.interpreter_semantic, interpreter.interpreter_builder
        self.tensor, self.pointer = self.core.tensor, self.core.pointer_type
        self.block_of = _shapes.maker(self.core)
        self._constants, self._joined = {}, {}

    def of(self, lhs, rhs, kinds):
        """(handle, handle, type of the result) of two tensors of one type in `kinds`; None: the language's own way."""
        dtype = lhs.dtype
        if rhs.dtype is not dtype:
            if {dtype.name, rhs.dtype.name} != _INDICES:
                return None
            return self.of(self._wide(lhs), self._wide(rhs), kinds)
        expected = kinds.get(dtype.name)
        if expected is None:
            return None
        left, right = lhs.handle, rhs.handle
        x, y = left.data, right.data
        if x.dtype is not expected or y.dtype is not expected:
            return None
        own, other = lhs.type, rhs.type
        if own is other:
            return left, right, own
        if own is dtype or other is dtype:
            scalar, whole = (left, y) if own is dtype else (right, x)
            # a scalar that is spread makes the result contiguous; and it is spread in its handle's type
            if scalar.dtype is not dtype or not (expected.kind != "f" or whole.flags.c_contiguous):
                return None
            return left, right, other if own is dtype else own
        sizes = self.joined(x.shape, y.shape)
        if sizes is None:
            return None
        return left, right, own if sizes == x.shape else other if sizes == y.shape else self.block_of(dtype, sizes)

    def either(self, lhs, rhs, kinds):
        """`of` where one of the two may be a Python number."""
        if lhs.__class__ is not self.tensor and rhs.__class__ is self.tensor:
            lhs = self.number(lhs, rhs.dtype)
        elif rhs.__class__ is not self.tensor and lhs.__class__ is self.tensor:
            rhs = self.number(rhs, lhs.dtype)
        both = lhs.__class__ is self.tensor and rhs.__class__ is self.tensor
        return self.of(lhs, rhs, kinds) if both else None

    def _wide(self, index):
        """int32 meets int64."""
        return index if index.dtype.name == "int64" else self.to(index, self.core.int64)

    def to(self, operand, dtype):
        """A tensor in another type."""
        kind = dtype if operand.type is operand.dtype else operand.type.with_element_ty(dtype)
        return self.tensor(self.builder.cast_impl(operand.handle, dtype), kind)

    def joined(self, first, second):
        """The shape of two blocks of one rank together, or None."""
        if first == second:
            return first
        key = first, second
        if key not in self._joined:
            fits = len(first) == len(second) and all(a == b or 1 in (a, b) for a, b in zip(first, second, strict=True))
            self._joined[key] = tuple(map(max, first, second)) if fits else None
        return self._joined[key]

    def number(self, value, dtype):
        """A Python number as a scalar tensor of the other operand's type; None where the language must look."""
        kind = value.__class__
        if dtype.name in FLOATS:
            if kind not in (float, int) or not is_quiet(value, dtype.name):
                return None
        elif kind is not int or value not in _WORD or dtype.name not in ("int32", "int64"):
            return None
        return self._constant(value, kind, dtype)

    def compared(self, value, dtype):
        """The same of a number that is compared, which has a type of its own, int32 or float32, and may widen both."""
        kind = value.__class__
        if kind is int:
            plain = value in _WORD and dtype.name in ("int32", "int64", "fp32")
        else:
            plain = kind is float and dtype.name == "fp32" and self.semantic.to_tensor(value).dtype is dtype
        return self._constant(value, kind, dtype) if plain else None

    def _constant(self, value, kind, dtype):
        key = value, kind, dtype.name
        if key not in self._constants:
            if len(self._constants) == _MANY:
                self._constants.clear()
            self._constants[key] = self.semantic.scalar_constant(value, dtype)
        return self._constants[key]

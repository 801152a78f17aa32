"""Operators of tensors in one step where both operands are plain: one type, and shapes that meet.

The language looks at types, casts, broadcasts and wraps each operand before the builder computes; of a tile of 16 x 16
the arithmetic is a tenth of the time. NumPy broadcasts by itself, so here the handles go to the builder as they are.
What is not covered, and what must be refused, goes the language's own way.

May import: _meeting, numpy.
"""

import numpy as np

from ._meeting import FLOATS, INTS, Meeting, by_builtin, dtypes

_ARITHMETIC = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide}
_COMPARISONS = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
_CASTS = {"fp32", "fp64", "int32", "int64"}  # plain between each other, and fp16 from and to fp32


def replacements(interpreter):
    """Return builtin -> function that makes the quick one of the language's own, for operators of a tensor."""
    meeting, masks = Meeting(interpreter), {"int1": np.dtype(bool)}
    floats, ints = dtypes(FLOATS), dtypes(INTS)
    wraps = {} if meeting.builder.options.sanitize_overflow else ints  # else each result is checked
    members, exact = {}, {name: floats[name] for name in ("fp32", "fp64")}
    for name, function in _ARITHMETIC.items():
        kinds = exact if name == "truediv" else floats | wraps
        members[f"__{name}__"] = _operator(meeting, function, kinds)
        members[f"__r{name}__"] = _operator(meeting, function, kinds, swap=True)
    for name, function in _COMPARISONS.items():
        members[f"__{name}__"] = _operator(meeting, function, floats | ints, numbers="compared", boolean=True)
    for name, function in (("and", np.bitwise_and), ("or", np.bitwise_or)):
        members[f"__{name}__"] = _operator(meeting, function, ints | masks, numbers=None)
    members["__add__"] = _pointer_or(meeting, members["__add__"])
    members |= {"__mod__": _operator(meeting, np.fmod, ints), "__floordiv__": _division(meeting, ints)}
    members |= {"__neg__": _negation(meeting, floats | wraps), "__invert__": _inversion(meeting)}
    members |= {"__getitem__": _indexing(meeting), "to": _conversion(meeting)}
    return by_builtin(meeting.tensor, members)


def _operator(meeting, function, kinds, numbers="number", boolean=False, swap=False):
    """An operator of two operands. `numbers`: the method of `meeting` that reads a Python number, if one may."""
    tensor, of, block_of, int1 = meeting.tensor, meeting.of, meeting.block_of, meeting.core.int1
    binary_op = meeting.builder.binary_op
    read = getattr(meeting, numbers) if numbers else lambda value, dtype: None
    constexpr = meeting.core.constexpr

    def quick(own):
        def operate(self, other, **options):
            operand = other
            if other.__class__ is not tensor:
                operand = read(other.value if other.__class__ is constexpr else other, self.dtype)
            if operand is None:
                return own(self, other, **options)
            met = of(operand, self, kinds) if swap else of(self, operand, kinds)
            if met is None:
                return own(self, other, **options)
            left, right, kind = met
            handle = binary_op(left, right, function)
            if boolean:
                kind = block_of(int1, handle.data.shape) if kind.__class__ is meeting.core.block_type else int1
            return tensor(handle, kind)

        return operate

    return quick


def _pointer_or(meeting, otherwise):
    """Addition: a pointer and an offset, or what `otherwise` makes quick."""
    tensor, pointer, create_addptr = meeting.tensor, meeting.pointer, meeting.builder.create_addptr
    offsets = dtypes({"int32": "int32", "int64": "int64"})

    def quick(own):
        add = otherwise(own)

        def operate(self, other, **options):
            dtype = self.dtype
            if dtype.__class__ is not pointer:
                return add(self, other, **options)
            if other.__class__ is not tensor:
                other_ = meeting.compared(other, meeting.core.int32) if other.__class__ is int else None
                return own(self, other, **options) if other_ is None else operate(self, other_)
            kind = moved(self, other, dtype)
            if kind is None:
                return own(self, other, **options)
            return tensor(create_addptr(self.handle, other.handle), kind)

        return operate

    def moved(base, offset, dtype):
        y = offset.handle.data
        if y.dtype is not offsets.get(offset.dtype.name):
            return None
        if offset.type is offset.dtype:
            return base.type
        if base.type is dtype:
            return meeting.block_of(dtype, y.shape)
        x = base.handle.data
        sizes = meeting.joined(x.shape, y.shape)
        return base.type if sizes == x.shape else None if sizes is None else meeting.block_of(dtype, sizes)

    return quick


def _negation(meeting, kinds):
    def quick(own):
        def negate(self, **options):
            met = None
            if self.dtype.name in kinds:
                met = meeting.of(meeting.semantic.scalar_constant(0, self.dtype), self, kinds)
            if met is None:
                return own(self, **options)
            return meeting.tensor(meeting.builder.binary_op(met[0], met[1], np.subtract), met[2])

        return negate

    return quick


def _inversion(meeting):
    """``~mask``: exclusive or with True."""

    def quick(own):
        true = meeting.interpreter.TensorHandle(np.full(1, True), meeting.core.int1)

        def invert(self, **options):
            if self.dtype is not meeting.core.int1 or self.handle.data.dtype != np.bool_:
                return own(self, **options)
            return meeting.tensor(meeting.builder.binary_op(self.handle, true, np.bitwise_xor), self.type)

        return invert

    return quick


def _indexing(meeting):
    """``x[:, None]`` and ``x[None, :]`` of a vector."""
    handle, whole = meeting.interpreter.TensorHandle, slice(None)

    def quick(own):
        def index(self, slices, **options):
            data = self.handle.data
            if slices.__class__ is not tuple or len(slices) != 2 or data.ndim != 1 or self.type is self.dtype:
                return own(self, slices, **options)
            if slices[1] is None and slices[0].__class__ is slice and slices[0] == whole:
                data = data.reshape((data.shape[0], 1))
            elif slices[0] is None and slices[1].__class__ is slice and slices[1] == whole:
                data = data.reshape((1, data.shape[0]))
            else:
                return own(self, slices, **options)
            return meeting.tensor(handle(data, self.handle.dtype.scalar), meeting.block_of(self.dtype, data.shape))

        return index

    return quick


def _conversion(meeting):
    """``x.to(dtype)`` between types that NumPy casts as the language does."""

    def quick(own):
        def to(self, dtype, *rest, **options):
            if rest or options or dtype.__class__ is not meeting.core.dtype:
                return own(self, dtype, *rest, **options)
            source, target = self.dtype.name, dtype.name
            if source == target:
                return self
            if not ({source, target} <= _CASTS or {source, target} == {"fp16", "fp32"}):
                return own(self, dtype)
            return meeting.to(self, dtype)

        return to

    return quick


def _division(meeting, kinds):
    """``//`` of whole numbers."""

    def quick(own):
        def divide(self, other, **options):
            met = meeting.either(self, other, kinds)
            if met is None:
                return own(self, other, **options)
            return meeting.tensor(meeting.builder.create_sdiv(met[0], met[1]), met[2])

        return divide

    return quick

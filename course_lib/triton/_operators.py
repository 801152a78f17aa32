"""Operators of tensors in one step where both operands are plain: one type, and shapes that meet.

The language looks at types, casts, broadcasts and wraps each operand before the builder computes; of a tile of 16 x 16
the arithmetic is a tenth of the time. NumPy broadcasts by itself, so here the handles go to the builder as they are.
What is not covered, and what must be refused, goes the language's own way.

May import: _shapes, numpy.
"""

import numpy as np

from . import _shapes

_FLOATS = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64}
_LARGEST = {"fp16": 65504, "bf16": 3e38, "fp32": 3e38, "fp64": 1e308}
_INTS = {f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_ARITHMETIC = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide}
_COMPARISONS = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
_WORD = range(-(2**31), 2**31)
_CASTS = {"fp32", "fp64", "int32", "int64"}  # plain between each other, and fp16 from and to fp32
_INDICES = {"int32", "int64"}
_MANY = 4096


def replacements(interpreter):
    """Return builtin -> function that makes the quick one of the language's own, for builtins with a quick one."""
    core, meeting = interpreter.tl.core, Meeting(interpreter)
    floats, ints, masks = _dtypes(_FLOATS), _dtypes(_INTS), {"int1": np.dtype(bool)}
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
    functions = {
        "maximum": _extreme(meeting, "maximum", np.maximum),
        "minimum": _extreme(meeting, "minimum", np.minimum),
        "where": _choice(meeting, floats | ints),
    }
    return by_builtin(core.tensor, members) | by_builtin(core, functions)


def by_builtin(owner, quick):
    """Replace the names by what this version of the language has under them."""
    return {getattr(owner, name): made for name, made in quick.items() if hasattr(owner, name)}


def is_quiet(value, name):
    """True for a number that the floating type of that name holds, so that NumPy does not warn of an overflow."""
    largest = _LARGEST.get(name, 0)
    return -largest <= value <= largest or value - value != 0  # the second: inf and NaN


def _dtypes(names):
    return {name: np.dtype(kind) for name, kind in names.items()}


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
        if dtype.name in _FLOATS:
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
            plain = kind is float and dtype.name == "fp32" and self.semantic.to_tensor_type(value) is dtype
        return self._constant(value, kind, dtype) if plain else None

    def _constant(self, value, kind, dtype):
        key = value, kind, dtype.name
        if key not in self._constants:
            if len(self._constants) == _MANY:
                self._constants.clear()
            self._constants[key] = self.semantic.scalar_constant(value, dtype)
        return self._constants[key]


def _operator(meeting, function, kinds, numbers="number", boolean=False, swap=False):
    """An operator of two operands. `numbers`: the method of `meeting` that reads a Python number, if one may."""
    tensor, of, block_of, int1 = meeting.tensor, meeting.of, meeting.block_of, meeting.core.int1
    binary_op = meeting.builder.binary_op
    read = getattr(meeting, numbers) if numbers else lambda value, dtype: None

    def quick(own):
        def operate(self, other, **options):
            operand = other if other.__class__ is tensor else read(other, self.dtype)
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
    offsets = _dtypes({"int32": "int32", "int64": "int64"})

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


def _extreme(meeting, name, function):
    """tl.maximum and tl.minimum of whole numbers, and of floats of one shape."""
    floats, ints = _dtypes({"fp32": "f4", "fp64": "f8"}), _dtypes({"int32": "i4", "int64": "i8"})

    def quick(own):
        def extreme(x, y, *rest, **options):
            if rest or options or x.__class__ is not meeting.tensor or y.__class__ is not meeting.tensor:
                return own(x, y, *rest, **options)
            if met := meeting.of(x, y, ints):
                return meeting.tensor(meeting.builder.binary_op(met[0], met[1], function), met[2])
            if x.type is y.type and (met := meeting.of(x, y, floats)):
                compute = getattr(meeting.builder, f"create_{name[:3]}numf")
                return meeting.tensor(compute(met[0], met[1]), met[2])
            return own(x, y)

        return extreme

    return quick


def _choice(meeting, kinds):
    """tl.where of a block of masks, where one at most of the values is a Python number."""
    tensor, block_type = meeting.tensor, meeting.core.block_type

    def quick(own):
        def where(condition, x, y, **options):
            met = kind = None
            if condition.__class__ is tensor and condition.type.__class__ is block_type:
                met = meeting.either(x, y, kinds)
            if met is not None:
                kind = chosen(condition, met[2])
            if kind is None:
                return own(condition, x, y, **options)
            return tensor(meeting.builder.create_select(condition.handle, met[0], met[1]), kind)

        return where

    def chosen(condition, kind):
        """The type of the result, or None."""
        data = condition.handle.data
        if data.dtype != np.bool_ or not data.flags.c_contiguous:
            return None
        if kind.__class__ is not block_type:
            return meeting.block_of(kind, data.shape)
        sizes = tuple(_shapes.values(kind.shape))
        together = meeting.joined(data.shape, sizes)
        if together is None:
            return None
        return kind if together == sizes else meeting.block_of(kind.element_ty, together)

    return quick

"""Functions of the language in one step where their arguments are plain: tl.where, tl.exp, tl.arange and their like.

May import: _meeting, _shapes, numpy.
"""

import numpy as np

from . import _shapes
from ._meeting import FLOATS, INTS, Meeting, by_builtin, dtypes

_OF_ONE = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt")
_MANY = 4096  # entries, after which a cache is emptied


def replacements(interpreter):
    """Return builtin -> function that makes the quick one of the language's own."""
    meeting = Meeting(interpreter)
    functions = {
        "maximum": _extreme(meeting, "maximum", np.maximum),
        "minimum": _extreme(meeting, "minimum", np.minimum),
        "where": _choice(meeting, dtypes(FLOATS | INTS)),
        "arange": _arange(meeting),
        "trans": _trans(meeting),
    }
    of_one = {name: _of_one(meeting, name) for name in _OF_ONE}
    return by_builtin(meeting.core, functions) | by_builtin(interpreter.tl.math, of_one)


def _extreme(meeting, name, function):
    """tl.maximum and tl.minimum of whole numbers, and of floats of one shape."""
    floats, ints = dtypes({"fp32": "f4", "fp64": "f8"}), dtypes({"int32": "i4", "int64": "i8"})

    def quick(own):
        def extreme(x, y, *rest, **options):
            if rest or options or x.__class__ is not meeting.tensor or y.__class__ is not meeting.tensor:
                return own(x, y, *rest, **options)
            if met := meeting.of(x, y, ints):
                return meeting.tensor(meeting.builder.binary_op(met[0], met[1], function), met[2])
            one_shape = x.handle.data.shape == y.handle.data.shape and (x.type is x.dtype) == (y.type is y.dtype)
            if one_shape and (met := meeting.of(x, y, floats)):
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


def _of_one(meeting, name):
    """tl.exp and its like, of the types that they accept."""
    builder, create = meeting.builder, f"create_{name}"

    def quick(own):
        def compute(x, **options):
            if options or x.__class__ is not meeting.tensor or x.dtype.name not in ("fp32", "fp64"):
                return own(x, **options)
            return meeting.tensor(getattr(builder, create)(x.handle), x.type)

        return compute

    return quick


def _arange(meeting):
    """tl.arange; the numbers are the same array each time, and nothing writes to it."""
    handle, cache = meeting.interpreter.TensorHandle, {}

    def quick(own):
        def arange(start, end, **named):
            if named or start.__class__ is not int or end.__class__ is not int:
                return own(start, end, **named)
            if (start, end) not in cache:
                if len(cache) == _MANY:
                    cache.clear()
                first = own(start, end)
                cache[start, end] = first.handle.data, first.handle.dtype, first.type
            data, dtype, kind = cache[start, end]
            return meeting.tensor(handle(data, dtype), kind)

        return arange

    return quick


def _trans(meeting):
    """tl.trans of a matrix."""

    def quick(own):
        def trans(matrix, *dims, **named):
            if dims or named or matrix.__class__ is not meeting.tensor or matrix.handle.data.ndim != 2:
                return own(matrix, *dims, **named)
            handle = meeting.builder.create_trans(matrix.handle, (1, 0))
            return meeting.tensor(handle, meeting.block_of(matrix.dtype, handle.data.shape))

        return trans

    return quick

"""tl.load, tl.store and tl.dot in one step where their arguments are plain; else the language's own way.

Plain: a pointer or a block of pointers, a mask that NumPy spreads over it, no option of the cache; two matrices of one
type and an accumulator of float32.

May import: _meeting, numpy.
"""

import numpy as np

from ._meeting import Meeting, by_builtin, is_quiet

_MANY = 4096  # entries, after which a cache is emptied
_OPTIONS = ("_str_to_load_cache_modifier", "_str_to_store_cache_modifier", "_str_to_eviction_policy")


def replacements(interpreter):
    """Return builtin -> function that makes the quick one of the language's own."""
    core, meeting = interpreter.tl.core, Meeting(interpreter)
    if not all(hasattr(meeting.semantic, name) for name in (*_OPTIONS, "_str_to_dot_input_precision")):
        return {}
    quick = {"load": _load, "store": _store, "dot": _dot}
    return by_builtin(core, {name: make(meeting) for name, make in quick.items()})


def spread(data, shape):
    """numpy.broadcast_to for a contiguous array whose sizes are 1 or those of `shape`: a view, not to be written."""
    if not data.flags.c_contiguous:
        return np.broadcast_to(data, shape)
    strides = [0 if n == 1 else step for n, step in zip(data.shape, data.strides, strict=True)]
    return np.ndarray(shape, data.dtype, data, 0, strides)


def _load(meeting):
    semantic, tensor, block_type = meeting.semantic, meeting.tensor, meeting.core.block_type
    options = semantic._str_to_load_cache_modifier(""), semantic._str_to_eviction_policy(""), False
    filled = _filled(meeting)

    def quick(own):
        def load(pointer, mask=None, other=None, *rest, **named):
            element = None if rest or named else _element(meeting, pointer)
            if element is None or (mask is None and other is not None):
                return own(pointer, mask, other, *rest, **named)
            is_block, builder = pointer.type.__class__ is block_type, meeting.builder
            kind = meeting.block_of(element, pointer.handle.data.shape) if is_block else element
            if mask is None:
                return tensor(builder.create_load(pointer.handle, *options), kind)
            lanes = _lanes(meeting, pointer, mask) if is_block else None
            if lanes is None or other.__class__ not in (type(None), int, float):
                return own(pointer, mask, other)
            rest_of = None if other is None else filled(other, element, pointer.handle.data.shape)
            return tensor(builder.create_masked_load(pointer.handle, lanes, rest_of, *options), kind)

        return load

    return quick


def _store(meeting):
    semantic, tensor, void = meeting.semantic, meeting.tensor, meeting.core.void
    options = semantic._str_to_store_cache_modifier(""), semantic._str_to_eviction_policy("")

    def quick(own):
        def store(pointer, value, mask=None, *rest, **named):
            element = None if rest or named or value.__class__ is not tensor else _element(meeting, pointer)
            if element is None or pointer.dtype.const or not same_shape(pointer, value):
                return own(pointer, value, mask, *rest, **named)
            lanes = None
            if mask is not None:
                lanes = None if pointer.type is pointer.dtype else _lanes(meeting, pointer, mask)
                if lanes is None:
                    return own(pointer, value, mask)
            value = value if value.dtype is element else semantic.cast(value, element)
            if lanes is None:
                return tensor(meeting.builder.create_store(pointer.handle, value.handle, *options), void)
            return tensor(meeting.builder.create_masked_store(pointer.handle, value.handle, lanes, *options), void)

        return store

    def same_shape(pointer, value):
        if pointer.type is pointer.dtype:
            return value.type is value.dtype
        return value.type is not value.dtype and value.handle.data.shape == pointer.handle.data.shape

    return quick


def _element(meeting, pointer):
    """The type that a pointer or a block of pointers points to; None for what the language must look at."""
    if pointer.__class__ is not meeting.tensor or pointer.dtype.__class__ is not meeting.pointer:
        return None
    element = pointer.dtype.element_ty
    return element if element.__class__ is meeting.core.dtype and element.name != "int1" else None


def _lanes(meeting, pointer, mask):
    """The handle of a mask for a block of pointers, or None."""
    if mask.__class__ is not meeting.tensor or mask.dtype is not meeting.core.int1 or mask.type is mask.dtype:
        return None
    data, shape = mask.handle.data, pointer.handle.data.shape
    if data.dtype != np.bool_ or meeting.joined(shape, data.shape) != shape:
        return None
    if data.shape == shape:
        return mask.handle
    return meeting.interpreter.TensorHandle(spread(data, shape), mask.handle.dtype.scalar)


def _filled(meeting):
    """A function (number, element type, shape) -> the handle of what masked elements get, the same for the same."""
    semantic, cache = meeting.semantic, {}

    def filled(value, element, shape):
        if not (is_quiet(value, element.name) or (value.__class__ is int and element.is_int())):
            return made(value, element, shape)
        key = value, value.__class__, element.name, shape
        if key not in cache:
            if len(cache) == _MANY:
                cache.clear()
            cache[key] = made(value, element, shape)
        return cache[key]

    def made(value, element, shape):
        scalar = semantic.cast(semantic.to_tensor(value), element)
        return meeting.builder.create_splat(meeting.block_of(element, shape), scalar.handle)

    return filled


def _dot(meeting):
    core, semantic, tensor, block_of = meeting.core, meeting.semantic, meeting.tensor, meeting.block_of
    zeros = _filled(meeting)

    def quick(own):
        def dot(input, other, acc=None, input_precision=None, **named):  # noqa: A002  (the names of the original)
            kind = None if named or input_precision.__class__ is not str else product(input, other)
            if kind is None or not (acc is None or (acc.__class__ is tensor and acc.type == kind)):
                return own(input, other, acc, input_precision, **named)
            precision = semantic._str_to_dot_input_precision(input_precision)
            onto = zeros(0.0, core.float32, tuple(kind.shape)) if acc is None else acc.handle
            return tensor(meeting.builder.create_dot(input.handle, other.handle, onto, precision, 0), kind)

        return dot

    def product(lhs, rhs):
        """The type of the product of two matrices, or None."""
        if lhs.__class__ is not tensor or rhs.__class__ is not tensor or lhs.dtype is not rhs.dtype:
            return None
        x, y = lhs.handle.data, rhs.handle.data
        if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[0] or lhs.dtype.name not in ("fp16", "bf16", "fp32"):
            return None
        return block_of(core.float32, (x.shape[0], y.shape[1]))

    return quick

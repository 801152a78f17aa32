"""Caches and short cuts for repeated work of Triton's interpreter, together most of its time.

May import: _accesses, _functions, _operators, _shapes, patching.
"""

import dataclasses

from . import _accesses, _functions, _operators, _shapes, patching


def improve(interpreter):
    """Apply all of them, once. `interpreter` is the module triton.runtime.interpreter."""
    _cache_dtypes(interpreter)
    _shapes.improve(interpreter)
    _compute_once(interpreter.interpreter_builder)
    _unwrap_at_once(interpreter.tl.core)
    _meet_at_once(interpreter)
    patching.improve(
        interpreter,
        _operators.replacements(interpreter)
        | _functions.replacements(interpreter)
        | _accesses.replacements(interpreter),
    )


def _cache_dtypes(module):
    """Cache numpy dtypes: the interpreter looks one up at every operation and builds its table each time."""
    look_up, cache = module._get_np_dtype, {}

    def get_np_dtype(triton_type):
        name = triton_type.name
        if name not in cache:
            cache[name] = look_up(triton_type)
        return cache[name]

    module._get_np_dtype = get_np_dtype


def _compute_once(builder):
    """Skip the overflow checks of integer arithmetic while the interpreter's `debug` is off.

    Each sum, difference and product is otherwise computed again in 64 bits for an assertion that is then omitted. A
    compiler removes such dead code; the interpreter does not.
    """
    if not builder.options.debug:
        builder.options = dataclasses.replace(builder.options, sanitize_overflow=False)


def _unwrap_at_once(core):
    """What is no constexpr and holds none is returned as it is; the language asks four questions first."""
    unwrap, plain = core._unwrap_if_constexpr, (int, float, bool, str, type(None), core.tensor, core.dtype)

    def unwrap_if_constexpr(value):
        kind = type(value)
        if kind in plain:
            return value
        return value.value if kind is core.constexpr else unwrap(value)

    core._unwrap_if_constexpr = unwrap_if_constexpr


def _meet_at_once(interpreter):
    """Two operands of one type and one shape are what they are; two shapes of one rank need one look.

    The language compares types and shapes by its own tuples, whose every comparison makes new ones: more work than the
    arithmetic of a small tile. What is not covered here, and what must be refused, goes the language's own way.
    """
    semantic, core = interpreter.interpreter_semantic, interpreter.tl.core
    semantic.broadcast_impl_value = _broadcast(semantic, core)
    semantic.binary_op_type_checking_impl = _checked(semantic, core)


def _broadcast(semantic, core):
    meet, builder = semantic.broadcast_impl_value, semantic.builder

    def widened(one, sizes):
        kind = core.block_type(one.type.scalar, sizes)
        if one.type.is_block():
            return core.tensor(builder.create_broadcast(one.handle, sizes), kind)
        return core.tensor(builder.create_splat(kind, one.handle), kind)

    def broadcast(lhs, rhs):
        left = _shapes.values(lhs.type.shape) if lhs.type.is_block() else None
        right = _shapes.values(rhs.type.shape) if rhs.type.is_block() else None
        if left == right:
            return lhs, rhs
        if left is None or right is None:
            return (lhs, widened(rhs, left)) if right is None else (widened(lhs, right), rhs)
        both = [b if a == 1 else a for a, b in zip(left, right, strict=False)]
        if len(left) != len(right) or any(b != 1 and b != n for b, n in zip(right, both, strict=True)):
            return meet(lhs, rhs)
        return lhs if left == both else widened(lhs, both), rhs if right == both else widened(rhs, both)

    return broadcast


def _checked(semantic, core):
    check, word = semantic.binary_op_type_checking_impl, range(-(2**31), 2**31)
    floating, whole = {"fp16", "bf16", "fp32", "fp64"}, {"int32", "int64"}

    def as_tensor(value, other):
        """A number in the type of the other operand; None where the language must look, or refuse."""
        if isinstance(value, core.tensor):
            return value
        if isinstance(other, core.tensor) and (
            (other.dtype.name in floating and type(value) in (int, float))
            or (other.dtype.name in whole and type(value) is int and value in word)
        ):
            return semantic.scalar_constant(value, other.dtype)
        return None

    def checked(lhs, rhs, *options, **named):
        if named or len(options) > 3:  # the fourth says that it is a division or a remainder
            return check(lhs, rhs, *options, **named)
        left, right = as_tensor(lhs, rhs), as_tensor(rhs, lhs)
        if left is None or right is None:
            return check(lhs, rhs, *options)
        moved = options and options[0] and left.dtype.is_ptr() and right.dtype.is_int()  # pointer + offset
        if moved or (left.dtype is right.dtype and not left.dtype.is_ptr()):
            return semantic.broadcast_impl_value(left, right)
        return check(lhs, rhs, *options)

    return checked

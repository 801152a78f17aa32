"""Corrections of bfloat16 and fp8 arithmetic in Triton's interpreter.

The interpreter holds a bfloat16 as a uint16 bit pattern and then adds, multiplies and compares the patterns; its own
casts to bfloat16 and fp8 do not round to nearest even. Both errors are silent. Here every arithmetic operation on
bfloat16 is computed in float32 and rounded once, which equals a GPU's result for add, subtract, multiply, divide and
square root (24 bits make the double rounding exact). An operation that is not in the lists below is refused.

May import: errors, numpy, torch.
"""

import numpy as np
import torch

from ..errors import UnsupportedError

# operations that move bits without reading them as numbers (create_select takes its condition and two bit patterns)
TRANSPARENT = frozenset(
    """load store masked_load masked_store select reshape trans broadcast splat unsplat cat join split expand_dims
    bitcast int_to_ptr ptr_to_int addptr gather tensor_pointer_load tensor_pointer_store make_block_ptr advance
    make_tensor_descriptor descriptor_load descriptor_store descriptor_gather descriptor_scatter assert assume barrier
    get_program_id get_num_programs make_range fabs and or xor shl lshr ashr""".split()
)
# operations for which "widen, compute in float32, round once" is correct
ARITHMETIC = frozenset(
    """fadd fmul fdiv frem fsub precise_divf minimumf minnumf maximumf maxnumf fcmpOLT fcmpOGT fcmpOLE fcmpOGE fcmpOEQ
    fcmpONE fcmpULT fcmpUGT fcmpULE fcmpUGE fcmpUEQ fcmpUNE clampf fma cos sin exp exp2 log log2 sqrt precise_sqrt rsqrt
    erf floor ceil dot""".split()
)
# casts have replacements of their own
CASTS = frozenset("si_to_fp ui_to_fp fp_to_si fp_to_ui fp_ext fp_trunc int_cast fp_to_fp".split())

_FP8 = {"fp8e4nv": (torch.float8_e4m3fn, 448.0), "fp8e5": (torch.float8_e5m2, 57344.0)}


def to_float32(bits):
    """Widen bfloat16 bit patterns, exactly. uint16 array -> float32 array of the same shape."""
    return (np.asarray(bits).astype(np.uint32) << 16).view(np.float32)


def from_float32(values):
    """Round to bfloat16, to nearest, ties to even; NaN stays NaN. float32 array -> uint16 array of the same shape."""
    values = np.asarray(values, dtype=np.float32)
    bits = np.atleast_1d(np.ascontiguousarray(values)).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    return np.where(np.isnan(values), quiet.reshape(values.shape), rounded.reshape(values.shape)).astype(np.uint16)


def _to_fp8(values, name):
    """Round float32 to an fp8 format as ``cvt.rn.satfinite`` does: ties to even, too large becomes the largest."""
    dtype, largest = _FP8[name]
    tensor = torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32)).clamp(-largest, largest)
    return tensor.to(dtype).view(torch.uint8).numpy()


def _from_fp8(bits, name):
    tensor = torch.from_numpy(np.ascontiguousarray(bits, dtype=np.uint8)).view(_FP8[name][0])
    return tensor.to(torch.float32).numpy()


def is_bf16(operand):
    """True for an interpreter's TensorHandle that holds bfloat16 bit patterns."""
    data = getattr(operand, "data", None)
    return isinstance(data, np.ndarray) and data.dtype == np.uint16 and operand.dtype.scalar.name == "bf16"


def _is_fp8(operand):
    data = getattr(operand, "data", None)
    return isinstance(data, np.ndarray) and data.dtype == np.uint8 and operand.dtype.scalar.name.startswith("fp8")


def _is_narrow(operand):
    """False for most operands, after one look: it may hold bfloat16 or fp8 where it holds bits of their size."""
    data = getattr(operand, "data", None)
    return data is not None and type(data) is np.ndarray and data.dtype.char in "HB"


def correct(interpreter):
    """Replace the interpreter's arithmetic and casts, once. `interpreter` is the module triton.runtime.interpreter."""
    builder = interpreter.InterpreterBuilder
    for attribute in [name for name in dir(builder) if name.startswith("create_")]:
        operation = attribute.removeprefix("create_")
        if operation in TRANSPARENT | CASTS:
            continue
        wrap = _widened if operation in ARITHMETIC else _refused
        setattr(builder, attribute, wrap(getattr(builder, attribute), operation, interpreter))
    # a GPU's max and min return the number when one operand is NaN; numpy's maximum and minimum return NaN
    builder.create_maxnumf = _widened(lambda self, a, b: self.binary_op(a, b, np.fmax), "maxnumf", interpreter)
    builder.create_minnumf = _widened(lambda self, a, b: self.binary_op(a, b, np.fmin), "minnumf", interpreter)
    builder.cast_impl = _cast(builder.cast_impl, interpreter)
    builder.create_fp_to_fp = _convert(builder.create_fp_to_fp, interpreter)
    builder.get_bf16 = lambda self, value: interpreter.TensorHandle(from_float32([value]), interpreter.tl.bfloat16)
    for kind in (interpreter.ReduceOps, interpreter.ScanOps):
        kind.apply_impl = _reduced(kind.apply_impl, interpreter)


def _widened(original, operation, interpreter):
    handle, tl = interpreter.TensorHandle, interpreter.tl

    def compute(self, *operands, **options):
        if not any(map(_is_narrow, operands)):
            return original(self, *operands, **options)
        if operation != "dot" and any(_is_fp8(x) for x in operands):
            raise UnsupportedError(
                f"{operation} on fp8 has no meaning on the GPU either: cast to float32 first, x.to(tl.float32)."
            )
        if not any(is_bf16(x) for x in operands):
            return original(self, *operands, **options)
        wide = [handle(to_float32(x.data), tl.float32) if is_bf16(x) else x for x in operands]
        result = original(self, *wide, **options)
        if result.data.dtype == np.bool_:
            return handle(result.data, tl.int1)
        # the last operand has the result's type: lhs and rhs agree, fma and dot end with the addend
        last = [x for x in operands if isinstance(x, handle)][-1]
        return handle(from_float32(result.data), tl.bfloat16) if is_bf16(last) else result

    compute.__name__ = f"create_{operation}"
    return compute


def _refused(original, operation, interpreter):
    def compute(self, *operands, **options):
        if any(is_bf16(y) for x in operands for y in (x if isinstance(x, (list, tuple)) else [x])):
            raise UnsupportedError(
                f"Triton's interpreter would compute {operation} on bfloat16 bit patterns and be silently wrong; "
                "cast to float32 first, x.to(tl.float32), and back afterwards."
            )
        return original(self, *operands, **options)

    compute.__name__ = f"create_{operation}"
    return compute


def _cast(original, interpreter):
    def cast_impl(self, source, target):
        to, handle = target.scalar, interpreter.TensorHandle
        values = to_float32(source.data) if is_bf16(source) else source.data
        if to.name == "bf16" and not is_bf16(source):
            return handle(from_float32(values.astype(np.float32)), to)
        if is_bf16(source) and to.name != "bf16":
            return handle(values.astype(interpreter._get_np_dtype(target)), to)
        return original(self, source, target)

    return cast_impl


def _convert(original, interpreter):
    def create_fp_to_fp(self, source, target, rounding_mode):
        have, want = source.dtype.scalar.name, target.scalar.name
        nearest = rounding_mode is None or rounding_mode == interpreter._ir.ROUNDING_MODE.RTNE
        known = {*_FP8, "bf16", "fp16", "fp32", "fp64"}
        if not nearest or have not in known or want not in known:
            return original(self, source, target, rounding_mode)
        values = source.data
        if have in _FP8:
            values = _from_fp8(values, have)
        elif have == "bf16":
            values = to_float32(values)
        if want in _FP8:
            values = _to_fp8(values, want)
        elif want == "bf16":
            values = from_float32(values.astype(np.float32))
        else:
            values = values.astype(interpreter._get_np_dtype(target))
        return interpreter.TensorHandle(values.reshape(source.data.shape), target.scalar)

    return create_fp_to_fp


def _reduced(original, interpreter):
    """Widen before a reduction or scan and round after it: they read the arrays without going through the builder."""
    tl, handle = interpreter.tl, interpreter.TensorHandle

    def retyped(value, data, dtype):
        kind = tl.block_type(dtype, list(value.shape)) if value.type.is_block() else dtype
        return tl.core.tensor(handle(data, dtype), kind)

    def apply_impl(self, values):
        many = isinstance(values, (list, tuple))
        before = list(values) if many else [values]
        if not any(is_bf16(x.handle) for x in before):
            return original(self, values)
        wide = [retyped(x, to_float32(x.handle.data), tl.float32) if is_bf16(x.handle) else x for x in before]
        after = original(self, tuple(wide) if many else wide[0])
        results = list(after) if isinstance(after, (list, tuple)) else [after]
        for i, (was, now) in enumerate(zip(before, results, strict=False)):
            if is_bf16(was.handle) and now.dtype.name == "fp32":
                results[i] = retyped(now, from_float32(now.handle.data), tl.bfloat16)
        return results

    return apply_impl

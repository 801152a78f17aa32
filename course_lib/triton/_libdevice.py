"""libdevice in Triton's interpreter, and one sentence for the inline PTX that it cannot run.

A kernel may call `libdevice.exp2(x)` through triton.language.extra or triton.language.extra.cuda. The compiler links
NVIDIA's bitcode; the interpreter has nothing to link, so the common functions are computed with numpy here, rounded
correctly or nearly, where the fast ones of a GPU may be off by some units in the last place.

May import: errors, numpy, torch.
"""

import re
import sys

import numpy as np
import torch

from ..errors import UnsupportedError

_filled = []  # modules of stubs whose functions are the real ones already
_STUBS, _REAL = "triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice"


def _in_torch(name):
    """A function of torch.special that numpy lacks."""
    return lambda x: getattr(torch.special, name)(torch.from_numpy(np.ascontiguousarray(x))).numpy()


def _fma(x, y, z):
    wide = np.float64 if x.dtype == np.float32 else np.longdouble
    return x.astype(wide) * y.astype(wide) + z.astype(wide)


_ROUNDING = {"add_rn": np.add, "sub_rn": np.subtract, "mul_rn": np.multiply, "div_rn": np.divide, "sqrt_rn": np.sqrt}
_FUNCTIONS = _ROUNDING | {
    **{name: getattr(np, name) for name in (
        "abs floor ceil trunc exp2 exp log log2 log10 log1p expm1 sqrt sin cos tan sinh cosh tanh rint isnan isinf "
        "signbit copysign hypot cbrt fmod nextafter"
    ).split()},
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "pow": np.power, "fma": _fma, "fma_rn": _fma, "erf": _in_torch("erf"), "erfc": _in_torch("erfc"),
    "lgamma": _in_torch("gammaln"), "normcdf": _in_torch("ndtr"),
    "rsqrt": lambda x: 1 / np.sqrt(x), "rsqrt_rn": lambda x: 1 / np.sqrt(x), "rcp_rn": lambda x: 1 / x,
    "exp10": lambda x: np.power(np.array(10, x.dtype), x), "finitef": np.isfinite, "isfinited": np.isfinite,
    "nearbyint": np.rint, "round": lambda x: np.trunc(x + np.copysign(np.array(0.5, x.dtype), x)),
    "fdim": lambda x, y: np.maximum(x - y, 0), "saturatef": lambda x: np.nan_to_num(np.clip(x, 0, 1), nan=0.0),
    "float2int_rn": np.rint, "float2int_rz": np.trunc, "float2int_rd": np.floor, "float2int_ru": np.ceil,
    "int2float_rn": lambda x: x, "ll2float_rn": lambda x: x, "double2float_rn": lambda x: x,
    "float_as_int": lambda x: x.view(np.int32), "int_as_float": lambda x: x.view(np.float32),
    "fast_expf": np.exp, "fast_exp10f": lambda x: np.power(np.float32(10), x), "fast_logf": np.log,
    "fast_log2f": np.log2, "fast_log10f": np.log10, "fast_powf": np.power, "fast_dividef": np.divide,
    "fast_sinf": np.sin, "fast_cosf": np.cos, "fast_tanf": np.tan,
}  # fmt: skip
# the symbol of the bitcode, without "__nv_" and the f of float, -> the name above, where they differ
_SYMBOLS = {"fabs": "abs", "isnand": "isnan", "isinfd": "isinf", "signbitd": "signbit", "fsqrt_rn": "sqrt_rn",
            "dsqrt_rn": "sqrt_rn", "fadd_rn": "add_rn", "dadd_rn": "add_rn", "fmul_rn": "mul_rn", "dmul_rn": "mul_rn",
            "fdiv_rn": "div_rn", "ddiv_rn": "div_rn", "fsub_rn": "sub_rn", "dsub_rn": "sub_rn", "frcp_rn": "rcp_rn",
            "drcp_rn": "rcp_rn", "frsqrt_rn": "rsqrt_rn"}  # fmt: skip
# instruction of PTX -> what Triton has for it
_INSTEAD = {
    "ex2": "tl.exp2", "lg2": "tl.log2", "rcp": "1.0 / x", "rsqrt": "tl.rsqrt", "sqrt": "tl.sqrt", "sin": "tl.sin",
    "cos": "tl.cos", "tanh": "2 * tl.sigmoid(2 * x) - 1", "cvt": "x.to(dtype)", "fma": "tl.fma", "mad": "tl.fma",
    "mul": "x * y", "add": "x + y", "sub": "x - y", "max": "tl.maximum", "min": "tl.minimum", "abs": "tl.abs",
    "ld": "tl.load", "st": "tl.store", "atom": "tl.atomic_add and its like", "red": "tl.atomic_add and its like",
    "mov": "tl.cast(x, dtype, bitcast=True)", "shl": "x << n", "shr": "x >> n", "and": "x & y", "or": "x | y",
    "xor": "x ^ y", "lop3": "&, | and ^", "bar": "tl.debug_barrier", "mma": "tl.dot", "prmt": "shifts and masks",
}  # fmt: skip


def correct(interpreter, author_line):
    """Apply it. `interpreter` is the module triton.runtime.interpreter; `author_line` gives the kernel's line."""
    builder, patch = interpreter.InterpreterBuilder, interpreter._patch_lang

    def create_extern_elementwise(self, library, path, symbol, arguments, kind, pure):
        values = compute(symbol, [argument.data for argument in arguments], author_line()[1])
        dtype = interpreter._get_np_dtype(kind.scalar)
        return interpreter.TensorHandle(np.asarray(values).astype(dtype), kind.scalar)

    def create_inline_asm(self, text, *rest):
        raise UnsupportedError(refusal(text, author_line()[1]))

    def patch_lang(fn):
        scope = patch(fn)
        for module in _modules(fn):
            interpreter._patch_builtin(module, interpreter.interpreter_builder, scope)
        return scope

    builder.create_extern_elementwise, builder.create_inline_asm = create_extern_elementwise, create_inline_asm
    interpreter._patch_lang = patch_lang


def _modules(fn):
    """The modules of libdevice that a function may call; a name imported from the stubs becomes the real one."""
    stubs, real = sys.modules.get(_STUBS), sys.modules.get(_REAL)
    if real is None:
        return []
    for name, value in list(fn.__globals__.items()):
        if getattr(value, "__module__", None) in (_STUBS, _REAL) and callable(value):
            fn.__globals__[name] = _late(value.__name__)
    if stubs is not None and stubs not in _filled:
        _filled.append(stubs)
        for name in vars(stubs).keys() & vars(real).keys():
            if getattr(getattr(stubs, name), "__module__", None) == _STUBS:
                setattr(stubs, name, getattr(real, name))
    return [module for module in (stubs, real) if module is not None]


def _late(name):
    """A function that looks libdevice's up when it is called: only inside a launch does it know its builder."""

    def call(*args, **kwargs):
        return getattr(sys.modules[_REAL], name)(*args, **kwargs)

    call.__name__ = name
    return call


def compute(symbol, values, line):
    """A function of libdevice on numpy arrays.

    Raises
    ------
    UnsupportedError   the function is not among those that are computed here
    """
    name = symbol.removeprefix("__nv_")
    known = next((name for name in (name, name.removesuffix("f")) for name in (_SYMBOLS.get(name, name),)
                  if name in _FUNCTIONS), None)  # fmt: skip
    if known is None:
        raise UnsupportedError(
            f"line {line}: libdevice's {symbol} cannot run here, because Triton's interpreter links no libdevice and "
            f"the course computes only its common functions; use functions of triton.language, such as tl.exp2."
        )
    with np.errstate(all="ignore"):
        return _FUNCTIONS[known](*values)


def refusal(text, line):
    """One sentence on inline PTX: that it cannot run here, and what to use."""
    found = re.search(r"(?:^|[;{}\s])(?!reg\b)([a-z]\w*)((?:\.\w+)*)\s+[\w$%{\[]", re.sub(r"\.reg[^;]*;", ";", text))
    name = f" ({found[1]}{found[2]})" if found else ""
    instead = _INSTEAD.get(found[1] if found else "", "functions of triton.language")
    return (
        f"line {line}: tl.inline_asm_elementwise{name} cannot run here, because Triton's interpreter executes no PTX; "
        f"use {instead} instead, or check the answer on a machine with a GPU."
    )

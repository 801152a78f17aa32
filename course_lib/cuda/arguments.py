"""Check and convert the arguments of a launch by the declared parameters, the same way for both engines.

A tensor must have the element type that the kernel declares; a number must be representable in the declared type. Every
error names the kernel and the parameter, and describes the value received.

May import: errors, scalars, tensor_map.
"""

import math
import struct

import numpy
import torch

from ..errors import ArgumentError
from .scalars import SCALARS, VECTORS
from .tensor_map import TensorMap

# element type of a pointer -> torch dtypes that hold it
_DTYPES = {
    "float": ("float32",),
    "double": ("float64",),
    "half": ("float16",),
    "bfloat16": ("bfloat16",),
    "int": ("int32",),
    "unsigned int": ("uint32", "int32"),
    "short": ("int16",),
    "unsigned short": ("uint16", "int16"),
    "long long": ("int64",),
    "unsigned long long": ("uint64", "int64"),
    "long": ("int64",),
    "unsigned long": ("uint64", "int64"),
    "bool": ("bool",),
    "char": ("int8",),
    "signed char": ("int8",),
    "unsigned char": ("uint8", "bool", "float8_e4m3fn", "float8_e5m2"),
    "fp8_e4m3": ("float8_e4m3fn", "uint8"),
    "fp8_e5m2": ("float8_e5m2", "uint8"),
}
# scalars with one torch dtype, whose tensors are always aligned: no further check is needed
_PLAIN = {
    name: getattr(torch, _DTYPES[name][0]) for name in ("float", "double", "half", "bfloat16", "int", "long long")
}
_INTS = {"int": 2**31, "long": 2**63, "long long": 2**63}  # type -> what a plain int is below, whatever its sign
_FLOAT_MAX = {"float": 3.4028234663852886e38, "half": 65504.0, "bfloat16": 3.3895313892515355e38}
_FLOATS = ("float", "double", "half", "bfloat16")


def check(kernel_name, parameters, args, *, device=None):
    """Convert the arguments of a launch.

    Parameters
    ----------
    kernel_name : str, for messages
    parameters : list of Parameter
    args : sequence; a torch tensor or None (a null pointer) for a pointer, a number for a scalar, a sequence of numbers
        for a vector (float4), a TensorMap for a TensorMap, bytes for any other struct
    device : "cpu", "cuda" or None (any): where tensors must be

    Returns
    -------
    values : list of torch.Tensor, TensorMap, None, bool, int, float, or bytes (half, bfloat16, fp8, vectors, structs by
        value)

    Raises
    ------
    ArgumentError   the number of arguments is wrong, or one does not fit its parameter
    """
    if len(args) != len(parameters):
        declared = ", ".join(f"{parameter.ctype} {parameter.name}" for parameter in parameters)
        raise ArgumentError(
            f"{kernel_name} takes {len(parameters)} arguments ({declared or 'none'}), got {len(args)}."
            + _missing_or_extra(parameters, args)
        )
    return [
        value if _plainly_fits(parameter, value, device) else _convert(kernel_name, parameter, value, device)
        for parameter, value in zip(parameters, args, strict=True)
    ]


def _plainly_fits(parameter, value, device):
    """True in the common cases, which need no conversion: a tensor of the declared dtype, an int, a moderate float."""
    kind = type(value)
    if kind is int:
        return abs(value) < _INTS.get(parameter.element, 0) and not parameter.is_pointer
    if kind is float:
        return parameter.element == "float" and not parameter.is_pointer and abs(value) < 3e38
    return (
        isinstance(value, torch.Tensor)
        and parameter.is_pointer
        and value.dtype is _PLAIN.get(parameter.element)
        and (device is None or value.device.type == device)
    )


def _missing_or_extra(parameters, args):
    """A second sentence: the first parameter without an argument, or the first argument without a parameter."""
    if len(args) < len(parameters):
        return f" Nothing was given for {parameters[len(args)].name}."
    return f" Nothing takes argument {len(parameters) + 1}, {_describe(args[len(parameters)])}."


def _convert(kernel_name, parameter, value, device):
    """Convert one argument."""
    where = f"{kernel_name}: parameter {parameter.name} ({parameter.ctype})"
    if parameter.is_pointer:
        return _tensor(where, parameter, value, device)
    if parameter.is_tensor_map:
        return _tensor_map(where, parameter, value, device)
    if isinstance(value, torch.Tensor):
        raise ArgumentError(f"{where} wants a number, got {_describe(value)}. Pass {parameter.name}.item().")
    if parameter.is_struct or isinstance(value, (bytes, bytearray)):
        return _raw(where, parameter, value)
    if parameter.element in VECTORS:
        return _vector(where, parameter, value)
    number = _number(where, parameter.element, value)
    return (
        number
        if parameter.element not in ("half", "bfloat16", "fp8_e4m3", "fp8_e5m2")
        else _pack(parameter.element, number)
    )


def _tensor(where, parameter, value, device):
    """Check a tensor for a pointer: dtype, device, alignment. None is a null pointer."""
    if value is None:
        return None
    if not isinstance(value, torch.Tensor):
        raise ArgumentError(f"{where} wants a torch tensor, got {_describe(value)}.")
    _check_device(where, parameter, value, device)
    scalar, count = VECTORS.get(parameter.element, (parameter.element, 1))
    dtypes = _DTYPES.get(scalar)
    got = str(value.dtype).removeprefix("torch.")
    if dtypes and got not in dtypes:
        raise ArgumentError(
            f"{where} wants a tensor of {dtypes[0]}, got {_describe(value)}. "
            f"Pass {parameter.name}.to(torch.{dtypes[0]})."
        )
    width = SCALARS[scalar][0] * count if scalar in SCALARS else 1
    alignment = 1 if count == 3 else min(width, 16)
    if alignment > 1 and value.numel() and value.data_ptr() % alignment:
        raise ArgumentError(
            f"{where} wants an address that is a multiple of {alignment} bytes, and this tensor starts "
            f"{value.data_ptr() % alignment} bytes after one. Pass a whole tensor."
        )
    return value


def _tensor_map(where, parameter, value, device):
    """Check a tensor map: made by cuda.tensor_map, of a tensor that is where the kernel runs."""
    if not isinstance(value, TensorMap):
        raise ArgumentError(
            f"{where} wants a tensor map, got {_describe(value)}. Pass cuda.tensor_map(tensor, box=(…))."
        )
    _check_device(where, parameter, value.tensor, device)
    return value


def _check_device(where, parameter, tensor, device):
    """Refuse a tensor that is not on `device`, "cpu" or "cuda"."""
    if device is not None and tensor.device.type != device:
        owner, move = ("the GPU", "cuda") if device == "cuda" else ("the CPU", "cpu")
        what = f"Map the tensor's .{move}()." if parameter.is_tensor_map else f"Pass {parameter.name}.{move}()."
        raise ArgumentError(
            f"{where} wants a tensor on {owner}, where this kernel runs, got {_describe(tensor)}. {what}"
        )


def _number(where, element, value):
    """Return a Python bool, int or float for a scalar type."""
    value = value.item() if isinstance(value, numpy.generic) else value
    if not isinstance(value, (bool, int, float)):
        raise ArgumentError(f"{where} wants a number, got {_describe(value)}.")
    if element in _FLOATS or element.startswith("fp8"):
        return _float(where, element, value)
    if isinstance(value, float):
        if not math.isfinite(value) or value != int(value):
            raise ArgumentError(f"{where} wants a whole number, got {value!r}. Round it first.")
        value = int(value)
    if element == "bool":
        if value not in (0, 1):
            raise ArgumentError(f"{where} wants True or False, got {value!r}.")
        return bool(value)
    low, high = _range(element)
    if not low <= value <= high:
        raise ArgumentError(f"{where} holds {low} to {high}, got {value}.")
    return int(value)


def _float(where, element, value):
    """Return a float that the type can represent; infinities and NaN pass."""
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    largest = _FLOAT_MAX.get(element)
    too_large = largest and math.isfinite(number) and abs(number) > largest
    if too_large or (math.isinf(number) and isinstance(value, int)):
        raise ArgumentError(f"{where} holds numbers up to {largest or 1.7976931348623157e308:g}, got {value!r}.")
    return number


def _range(element):
    """Smallest and largest value of an integer type."""
    bits = 8 * SCALARS[element][0]
    unsigned = element.startswith("unsigned")
    return (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _vector(where, parameter, value):
    """Return the bytes of a vector passed by value."""
    scalar, count = VECTORS[parameter.element]
    if not isinstance(value, (tuple, list)) or len(value) != count:
        example = ", ".join(["0"] * count)
        raise ArgumentError(f"{where} wants {count} numbers, as in ({example}), got {_describe(value)}.")
    return b"".join(_pack(scalar, _number(where, scalar, item)) for item in value)


def _pack(scalar, number):
    """Return the bytes of one number."""
    if SCALARS[scalar][1]:
        return struct.pack(f"<{SCALARS[scalar][1]}", number)
    dtype = getattr(torch, _DTYPES[scalar][0])
    return bytes(torch.tensor([number], dtype=dtype, device="cpu").view(torch.uint8).tolist())


def _raw(where, parameter, value):
    """Return the bytes of a struct passed by value."""
    if not isinstance(value, (bytes, bytearray)):
        raise ArgumentError(f"{where} is passed by value; give its bytes, got {_describe(value)}.")
    if parameter.size_bytes and len(value) != parameter.size_bytes:
        raise ArgumentError(f"{where} takes {parameter.size_bytes} bytes, got {len(value)}.")
    return bytes(value)


def _describe(value):
    """Describe a value in a few words, for messages."""
    if isinstance(value, torch.Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        return f"a tensor of {dtype}, shape {tuple(value.shape)}, on {value.device}"
    if isinstance(value, TensorMap):
        return f"a map of {_describe(value.tensor)}"
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"a {module}{kind.__name__}"

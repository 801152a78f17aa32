"""Bytes between processes: JSON with tensors beside it. Reading such bytes can never run code.

The child that runs an answer is not trusted, so nothing here unpickles; every length is checked before it is believed.

May import: protocol, torch.
"""

import json
import math
import re
import struct
from dataclasses import fields, replace

import torch

from .protocol import Change, ChildTask, Fault, MapRef, Ref, Run, RunResult

_LENGTH = struct.Struct("<Q")
_MAX_BYTES = 8 << 30
_MAX_DIMS = 12
_MOST_TEXT, _MOST_FINDINGS, _MOST_CHANGES, _MOST_DEPTH = 20_000, 2_000, 1_000, 8
# control characters but line ends and tabs, and marks that turn the direction of text: a terminal obeys them
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_SEQUENCE = re.compile("\x1b\\[[0-?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?")


class WireError(ValueError):
    """The bytes are not a message of this format."""


def plain_text(text, most=_MOST_TEXT):
    """The first `most` characters of `text` without what a terminal obeys: escape sequences, control characters."""
    return _CONTROL.sub("", _SEQUENCE.sub("", text.replace("\r\n", "\n")))[:most]


def dtype_named(name):
    """The torch dtype called `name` ("float16"), or WireError."""
    dtype = getattr(torch, name, None) if isinstance(name, str) else None
    if not isinstance(dtype, torch.dtype):
        raise WireError(f"{name!r} is not the name of a torch dtype")
    return dtype


def dtype_name(dtype):
    """ "float16" for torch.float16."""
    return str(dtype).removeprefix("torch.")


def _tensor_out(tensor, blobs):
    tensor = tensor.detach().cpu()
    shape, stride = tuple(tensor.shape), tuple(tensor.stride())
    if tensor.numel() == 0 or tensor.is_contiguous():
        flat, stride = tensor.reshape(-1), None
    else:  # keep the strides: an exercise may hand out a transposed view on purpose
        span = 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
        flat = tensor.as_strided((span,), (1,))
    flat = torch.empty(flat.shape, dtype=flat.dtype).copy_(flat)  # one element counts as contiguous with any stride
    data = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
    blobs.append(data)
    return {"~tensor": [dtype_name(tensor.dtype), shape, stride, len(data)]}


def _out(value, blobs):
    """What JSON does not know, in its terms; the bytes of a tensor go to `blobs`."""
    if isinstance(value, torch.Tensor):
        return _tensor_out(value, blobs)
    if isinstance(value, Ref):
        return {"~ref": [value.name, value.before]}
    if isinstance(value, MapRef):
        return {"~map": [value.name, list(value.box), value.swizzle]}
    raise WireError(f"a {type(value).__name__} cannot travel between the judge and the child")


def pack(value):
    """`value` (dicts, lists, numbers, strings, tensors, Ref, MapRef) as bytes."""
    blobs = []
    head = json.dumps(value, default=lambda one: _out(one, blobs)).encode()
    return b"".join([_LENGTH.pack(len(head)), head, *blobs])


def _tensor_in(spec, reader):
    if not (isinstance(spec, list) and len(spec) == 4):
        raise WireError("a tensor's description is damaged")
    name, shape, stride, num_bytes = spec
    dtype = dtype_named(name)
    for numbers in (shape, stride or []):
        if (
            not isinstance(numbers, list)
            or len(numbers) > _MAX_DIMS
            or not all(isinstance(number, int) and 0 <= number < 1 << 40 for number in numbers)
        ):
            raise WireError("a tensor's shape is damaged")
    if stride is None:
        span = math.prod(shape)
    elif len(stride) == len(shape):
        span = 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
    else:
        raise WireError("a tensor's strides do not fit its shape")
    if num_bytes != span * dtype.itemsize:
        raise WireError("a tensor's bytes do not fit its shape")
    data = reader(num_bytes)
    flat = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(dtype) if data else torch.empty(0, dtype=dtype)
    return flat.reshape(shape) if stride is None else flat.as_strided(shape, stride)


def _in(value, reader):
    """A dict that was read, or the tensor, Ref or MapRef that it stands for."""
    if len(value) != 1:
        return value
    if "~tensor" in value:
        return _tensor_in(value["~tensor"], reader)
    if "~ref" in value:
        name, before = value["~ref"]
        return Ref(str(name), before)
    if "~map" in value:
        name, box, swizzle = value["~map"]
        return MapRef(str(name), tuple(box), swizzle)
    return value


def unpack(data, start=0):
    """One message of `pack` from the bytes at `start`. Returns (value, position after it); raises WireError."""
    position = start

    def reader(count):
        nonlocal position
        if not isinstance(count, int) or count < 0 or count > _MAX_BYTES or position + count > len(data):
            raise WireError("the message is cut short")
        chunk = data[position : position + count]
        position += count
        return bytes(chunk)

    (head_bytes,) = _LENGTH.unpack(reader(_LENGTH.size))
    try:
        return json.loads(reader(head_bytes), object_hook=lambda one: _in(one, reader)), position
    except (ValueError, TypeError, RecursionError, RuntimeError) as error:
        raise WireError(f"the message cannot be read: {error}") from None


def _plain(item):
    return {field.name: getattr(item, field.name) for field in fields(item)}


def pack_task(task):
    """A ChildTask as bytes."""
    return pack(_plain(task) | {"runs": [_plain(run) for run in task.runs]})


def unpack_task(data):
    """The ChildTask of `pack_task`."""
    plain, _ = unpack(data)
    plain["forbidden"] = tuple(plain["forbidden"])
    plain["runs"] = tuple(_run(run) for run in plain["runs"])
    return ChildTask(**plain)


def _run(plain):
    outputs = {name: (tuple(shape), dtype) for name, (shape, dtype) in plain["outputs"].items()}
    tuples = {name: tuple(plain[name]) for name in ("arguments", "grid", "block", "schedules")}
    return Run(**plain | tuples | {"outputs": outputs})


def plain_run_result(result):
    """A RunResult as plain data for `pack`."""
    plain = _plain(result)
    plain["fault"] = _plain(result.fault) if result.fault else None
    for name in ("findings", "inputs_changed"):
        plain[name] = [_plain(item) for item in getattr(result, name)]
    return plain


def fault_from(plain):
    """A Fault from plain data that the child sent; WireError when it is not one."""
    try:
        fault = Fault(**plain)
    except TypeError as error:
        raise WireError(str(error)) from None
    for name in ("line", "other_line"):
        if not _is_whole(getattr(fault, name), none=True):
            raise WireError(f"the fault's {name} is not a number")
    if not all(isinstance(text, str) for text in (fault.kind, fault.message, fault.detail)):
        raise WireError("the fault's words are not text")
    return replace(fault, message=plain_text(fault.message), detail=plain_text(fault.detail))


def _is_whole(value, none=False):
    """Whether a value is a whole number of at most 63 bits, or None where that may be."""
    return (none and value is None) or (type(value) is int and abs(value) < 1 << 63)


def _change_from(plain):
    try:
        change = Change(**plain | {"index": plain["index"] if plain["index"] is None else tuple(plain["index"])})
    except (TypeError, KeyError) as error:
        raise WireError(str(error)) from None
    numbers = (change.before, change.after, change.count, *(change.index or ()))
    if not isinstance(change.name, str) or not all(isinstance(number, int | float | None) for number in numbers):
        raise WireError("the change of an input is damaged")
    return change


def _check_plain(value, depth=_MOST_DEPTH):
    """WireError unless a value is numbers, text, lists and dicts of these, nested a few levels."""
    if depth == 0 or not isinstance(value, None | bool | int | float | str | list | dict):
        raise WireError(f"a {type(value).__name__} has no place in a ledger")
    if isinstance(value, str) and len(value) > _MOST_TEXT:
        raise WireError("a text of a ledger is too long")
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_plain(item, depth - 1)


def check_outputs(outputs, wanted):
    """WireError unless tensors have the names, types and sizes that the task asked for; a size of -1 means any."""
    for name, tensor in outputs.items():
        if name not in wanted or not isinstance(tensor, torch.Tensor):
            raise WireError(f"the child sent {name!r} as a {type(tensor).__name__}")
        shape, dtype = wanted[name]
        fits = len(shape) == tensor.dim() and all(
            want in (-1, size) for want, size in zip(shape, tensor.shape, strict=True)
        )
        if not fits or dtype_name(tensor.dtype) != dtype:
            raise WireError(f"{name} came as {dtype_name(tensor.dtype)} of shape {tuple(tensor.shape)}")


def run_result_from(plain):
    """A RunResult from plain data that the child sent; WireError when it is not one."""
    try:
        result = RunResult(**plain)
    except TypeError as error:
        raise WireError(str(error)) from None
    kinds = {"name": str, "outputs": dict | None, "schedule_outputs": dict, "ledger": dict | None, "launches": int}
    kinds |= {"returned": str | None, "seconds": float | int}
    for name, kind in kinds.items():
        if not isinstance(getattr(result, name), kind):
            raise WireError(f"the run's {name} is a {type(getattr(result, name)).__name__}")
    for name, most in (("findings", _MOST_FINDINGS), ("inputs_changed", _MOST_CHANGES)):
        if not isinstance(getattr(result, name), list) or len(getattr(result, name)) > most:
            raise WireError(f"the run's {name} are no list of at most {most}")
    if not all(isinstance(outputs, dict) for outputs in result.schedule_outputs.values()):
        raise WireError("the outputs of a schedule are damaged")
    _check_plain(result.ledger)
    result.returned = plain_text(result.returned) if result.returned is not None else None
    result.fault = fault_from(result.fault) if result.fault else None
    result.findings = tuple(fault_from(finding) for finding in result.findings)
    result.inputs_changed = tuple(_change_from(change) for change in result.inputs_changed)
    return result

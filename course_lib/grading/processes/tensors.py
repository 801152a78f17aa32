"""Input copies, poisoned outputs and the comparison of inputs afterwards: what every runner needs.

May import: cuda.tensor_map, far, protocol, wire, torch.
"""

import torch

from ...far import Far
from .protocol import Change, MapRef, Ref
from .wire import dtype_name, dtype_named

_WHOLE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def copy(tensor, device="cpu"):
    """A copy with the same strides, on `device`."""
    if tensor.is_contiguous():
        return tensor.to(device, copy=True)
    result = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
    return result.copy_(tensor)


def poisoned(shape, dtype, poison, device="cpu"):
    """A tensor filled with `poison`; for integers a number that no exercise produces."""
    dtype = dtype_named(dtype)
    if dtype.is_floating_point:
        return torch.full(shape, poison, dtype=torch.float64).to(dtype).to(device)
    if dtype == torch.bool:
        return torch.zeros(shape, dtype=dtype, device=device)
    value = int(poison) if poison == poison and abs(poison) < 2**31 else torch.iinfo(dtype).max - 6
    return torch.full(shape, value, dtype=dtype, device=device)


def holds_poison(run, outputs):
    """Whether an output of `run` may still hold poison; a NaN that the answer computed looks the same."""
    return any(
        bool(_equal(value, poisoned((1,), dtype_name(value.dtype), run.poison)).any())
        for name, value in outputs.items()
        if name not in run.contents
    )


def fixed(shape):
    """A shape that can be allocated: a size of -1 (any) becomes 0; only Python answers have such outputs."""
    return tuple(max(size, 0) for size in shape)


def change(name, before, after):
    """The Change of a tensor called `name`, or None when it holds the same bits."""
    if before.shape != after.shape or before.dtype != after.dtype:
        return Change(name, None, None, None, before.numel())
    other = (_bits(before) != _bits(after)).nonzero()
    if not len(other):
        return None
    first = tuple(other[0].tolist())
    return Change(name, first, before[first].item(), after[first].item(), len(other))


def _bits(tensor):
    """The bits of each element as a whole number: -0.0 is not 0.0, and one NaN not another."""
    return tensor.contiguous().view(_WHOLE[tensor.element_size()])


def _equal(left, right):
    """Element by element, NaN equal to NaN; an eight-bit float compares as a wider one."""
    if left.dtype.is_floating_point:
        left, right = left.to(torch.float64), right.to(torch.float64)
        return (left == right) | (left.isnan() & right.isnan())
    return left == right


def _map_of(tensor, argument):
    from ...cuda.tensor_map import tensor_map  # a CUDA run has imported it; no other has such arguments

    return tensor_map(tensor, argument.box, argument.swizzle)


class Bindings:
    """The tensors of one run: fresh copies of the inputs, outputs (poisoned, or with their contents), the arguments."""

    def __init__(self, run, device="cpu"):
        self.given = run.inputs
        self.inputs = {
            name: copy(value, device) if isinstance(value, torch.Tensor) else value
            for name, value in run.inputs.items()
        }
        self.outputs = {
            name: copy(run.contents[name], device)
            if name in run.contents
            else poisoned(fixed(shape), dtype, run.poison, device)
            for name, (shape, dtype) in run.outputs.items()
        }
        self.unwritten = tuple(value for name, value in self.outputs.items() if name not in run.contents)
        self.arguments = [self._value(argument) for argument in run.arguments]

    def _value(self, argument):
        if not isinstance(argument, Ref | MapRef):
            return argument
        tensor = self.outputs[argument.name] if argument.name in self.outputs else self.inputs[argument.name]
        if isinstance(argument, MapRef):
            return _map_of(tensor, argument)
        return Far.of(tensor, argument.before) if argument.before else tensor

    def changes(self):
        """A Change for each input that no longer holds, bit by bit, what was given."""
        tensors = {name: value for name, value in self.given.items() if isinstance(value, torch.Tensor)}
        found = (change(name, value, self.inputs[name].detach().cpu()) for name, value in tensors.items())
        return tuple(one for one in found if one is not None)

    def results(self):
        """The outputs, on the CPU."""
        return {name: value.detach().cpu() for name, value in self.outputs.items()}

"""Input copies, poisoned outputs and the comparison of inputs afterwards: what every runner needs.

May import: cuda.tensor_map, protocol, wire, torch.
"""

import torch

from .protocol import MapRef, Ref
from .wire import dtype_name, dtype_named


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


def same(left, right):
    """Whether two tensors hold the same values, NaN equal to NaN."""
    return left.shape == right.shape and left.dtype == right.dtype and bool(_equal(left, right).all())


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
        return tensor if isinstance(argument, Ref) else _map_of(tensor, argument)

    def modified(self):
        """Names of the inputs that no longer hold what was given."""
        return tuple(
            name
            for name, value in self.given.items()
            if isinstance(value, torch.Tensor) and not same(value, self.inputs[name].detach().cpu())
        )

    def results(self):
        """The outputs, on the CPU."""
        return {name: value.detach().cpu() for name, value in self.outputs.items()}

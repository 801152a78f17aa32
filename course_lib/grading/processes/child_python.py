"""Runs a Python answer: a function of torch tensors whose return values are the outputs.

May import: answer.loading, faults, forbidden, gloo, ranks, tensors, watch, wire, numpy, torch.
"""

import inspect
import types
from dataclasses import replace

import numpy
import torch

from ..answer import loading
from . import ranks
from .faults import Problem, fault_of
from .forbidden import Off
from .tensors import Bindings
from .watch import Watch
from .wire import dtype_name, dtype_named

MOST_BYTES = 64 << 20  # of one returned tensor: no case is larger, and a file of results may not grow without end


class Runner:
    """Loads the answer once and calls it for every run."""

    def __init__(self, task):
        self.task, self.function, self.off = task, None, None

    def prepare(self):
        self.off = Off(self.task.forbidden)
        module = loading.load(self.task.source, self.task.filename, self.task.first_line)
        self.function = find(module, self.task.entry)
        if not callable(self.function):
            raise Problem(
                "missing_function", f"{self.task.entry} is a {type(self.function).__name__}; it must be a function."
            )

    def order(self):
        return self.task.runs

    def run(self, run, result):
        bound = Bindings(run)
        if run.world:
            self._run_ranks(run, bound, result)
            return
        check_signature(self.function, bound.arguments, run.constants, self.task.entry)
        watch = Watch() if self.task.watched else None
        try:
            with self.off.operators(watch):
                returned = self.function(*bound.arguments, **run.constants)
        except BaseException as error:
            result.fault = fault_of(error)
            returned = None
        self.off.check()
        result.inputs_changed = bound.changes()
        if result.fault is None:
            result.returned = describe(returned)
            result.ledger = watch.ledger() if watch else None
            result.outputs = take_outputs(returned, run, self.task.entry)

    def _run_ranks(self, run, bound, result):
        """The run on as many threads as it has ranks."""
        check_signature(self.function, [None, *bound.arguments], run.constants, self.task.entry)
        if run.gloo:
            from . import gloo  # torch.distributed, which few runs need

            taking = lambda world, *given, **constants: self._one_rank(run, world, given, constants)  # noqa: E731
            outputs = gloo.call(taking, run.world, bound.arguments, run.constants)
            result.outputs = {name: torch.stack([one[name] for one in outputs]) for name in run.outputs}
            return
        returned, ledger = ranks.call(self.function, run.world, bound.arguments, run.constants, self.off.operators)
        self.off.check()
        result.inputs_changed = bound.changes()
        result.returned, result.ledger = describe(returned[0]), ledger
        result.outputs = take_ranks(returned, run, self.task.entry)

    def _one_rank(self, run, world, given, constants):
        """{name: tensor} of a rank that is a process."""
        with self.off.operators():
            returned = self.function(world, *given, **constants)
        self.off.check()
        return take_outputs(returned, of_one_rank(run), self.task.entry)


def find(module, entry):
    """The answer's `entry`; Problem naming what is there instead."""
    if hasattr(module, entry):
        return getattr(module, entry)
    there = [name for name, value in vars(module).items() if not name.startswith("_") and _is_own(value)]
    instead = f"it defines {', '.join(sorted(there)[:6])}" if there else "it defines no function"
    raise Problem("missing_function", f"The answer has no {entry}; {instead}.")


def _is_own(value):
    function = getattr(value, "fn", value)
    return getattr(function, "__module__", None) == loading.MODULE and callable(value)


def check_signature(function, arguments, constants, entry):
    """Problem when the function cannot be called with the exercise's arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*arguments, **constants)
    except TypeError as error:
        count = len(arguments) + len(constants)
        names = f" ({', '.join(constants)} by name)" if constants else ""
        line = function.__code__.co_firstlineno if isinstance(function, types.FunctionType) else None
        raise Problem(
            "wrong_signature", f"{entry}{signature} cannot be called with {count} arguments{names}: {error}.", line
        ) from None


def describe(value):
    """What came back, in words: "(float32 tensor of shape (37,), None)"."""
    if isinstance(value, torch.Tensor):
        return f"{dtype_name(value.dtype)} tensor of shape {tuple(value.shape)}"
    if isinstance(value, tuple | list):
        more = f", …, {len(value)} in all" if len(value) > 8 else ""
        return f"{type(value).__name__} ({', '.join(describe(item) for item in value[:8])}{more})"
    if isinstance(value, numpy.generic):
        return f"{value} (numpy.{value.dtype})"
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, numpy.ndarray):
        return f"a numpy array of shape {value.shape}, {value.dtype},"
    return f"a {type(value).__name__}"


def take_outputs(returned, run, entry):
    """The returned values as the run's outputs; Problem (wrong_return) naming what does not fit."""
    values = list(returned) if isinstance(returned, tuple | list) else [returned]
    numbers = not any(shape for shape, _ in run.outputs.values())
    said = {
        name: name if numbers else f"{name} {shape_text(shape)} {dtype}" for name, (shape, dtype) in run.outputs.items()
    }
    wanted = (" and " if numbers and len(said) < 4 else ", ").join(said.values())
    if returned is None:
        raise Problem("wrong_return", f"{entry} returned None; it must return {wanted}.")
    if len(values) != len(run.outputs):
        raise Problem("wrong_return", f"{entry} returned {describe(returned).rstrip(',')}; it must return {wanted}.")
    return {
        name: _fitting(value, shape, dtype, name, entry)
        for value, (name, (shape, dtype)) in zip(values, run.outputs.items(), strict=True)
    }


def of_one_rank(run):
    """The run with the outputs of one rank, without their first axis."""
    return replace(run, outputs={name: (shape[1:], dtype) for name, (shape, dtype) in run.outputs.items()})


def take_ranks(returned, run, entry):
    """The outputs (world, …) from what every rank returned; Problem naming the first rank whose result does not fit."""
    one, taken = of_one_rank(run), []
    for rank, values in enumerate(returned):
        try:
            taken.append(take_outputs(values, one, entry))
        except Problem as problem:
            raise Problem(problem.fault.kind, f"Rank {rank}: {problem.fault.message}") from None
    for name in run.outputs:
        shapes = [tuple(outputs[name].shape) for outputs in taken]
        if len(set(shapes)) > 1:
            said = ", ".join(map(str, shapes))
            raise Problem("wrong_return", f"The ranks return {name} in different shapes: {said}.")
    return {name: torch.stack([outputs[name] for outputs in taken]) for name in run.outputs}


def shape_text(shape):
    """ "(3, *)": a size of -1 means any."""
    sizes = ["*" if size < 0 else str(size) for size in shape]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def _is_number(value):
    """Whether a value is a number of Python or of numpy; an array, or tensor of whole numbers, of no dimension counts.

    A float tensor has a dtype that the contract may speak of.
    """
    if isinstance(value, torch.Tensor):
        return value.dim() == 0 and not value.is_floating_point() and not value.is_complex()
    if isinstance(value, numpy.generic | numpy.ndarray):
        return value.ndim == 0 and value.dtype.kind in "biuf"
    return isinstance(value, bool | int | float)


def _number(value, dtype, name, entry):
    """A number as a tensor of no dimension; Problem when a whole number is wanted and this is none."""
    number = value if isinstance(value, bool | int | float) else value.item()
    if not dtype.is_floating_point and isinstance(number, float) and not number.is_integer():
        text = f"{entry} returned {describe(value)} as {name}; it must be a whole number ({dtype_name(dtype)})."
        raise Problem("wrong_return", text)
    return torch.tensor(number, dtype=dtype)


def _fitting(value, shape, dtype, name, entry):
    if len(shape) == 0 and _is_number(value):
        value = _number(value, dtype_named(dtype), name, entry)
    if not isinstance(value, torch.Tensor):
        wanted = "number" if len(shape) == 0 else f"{dtype} tensor"
        remedy = " (torch.from_numpy makes one)" if isinstance(value, numpy.ndarray) else ""
        raise Problem("wrong_return", f"{entry} returned {describe(value)} as {name}; it must be a {wanted}{remedy}.")
    fits = value.dim() == len(shape) and all(
        want < 0 or want == size for want, size in zip(shape, value.shape, strict=True)
    )
    if not fits or dtype_name(value.dtype) != dtype:
        raise Problem(
            "wrong_return",
            f"{entry} returned {name} as {dtype_name(value.dtype)} of shape {shape_text(value.shape)}; "
            f"expected {dtype} of shape {shape_text(shape)}.",
        )
    if value.numel() * value.element_size() > MOST_BYTES:
        raise Problem(
            "wrong_return",
            f"{entry} returned {name} with {value.numel():,} numbers; the judge reads at most "
            f"{MOST_BYTES // value.element_size():,}.",
        )
    return value.detach().cpu()

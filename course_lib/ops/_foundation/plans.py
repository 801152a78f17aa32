"""Plans that are kept: for tensors of a layout seen before, a launch differs from the one before by addresses alone.

A model launches the same few kernels in every layer and every step. Their checks, tiles and sizes depend on what is in
the key of `planned`, and on nothing else, so they are made once; what is left of a launch is to look the plan up, to
allocate the outputs and to write the addresses. On the CPU nothing is kept: launchers look at values there.

May import: cuda, launch, typed, torch.
"""

import functools
import os
import time
from dataclasses import dataclass, replace

import torch

from ... import cuda
from ...cuda.packed import current_stream
from . import launch as launches
from .typed import typed

MOST_KEPT = 256  # layouts of one launcher, the latest
MOST_TRIES = 4  # to keep a plan: the first launches of a kernel are watched
ALIGNMENT = 16  # bytes: what a launcher asks of an address is its distance from such a multiple
_PLAIN = (int, float, bool, str, type(None))
_lasting = {}  # address -> a tensor that `lasting` was told of


def planned(function):
    """Decorate a launcher that returns a Launch: `typed`, and on a GPU its plans are kept.

    The function promises that shapes, strides, dtypes, devices, what addresses are modulo ALIGNMENT, which of them are
    equal and its other arguments decide the launch, and that tensors which it makes are outputs without first values.
    A launch with any other tensor among its arguments (a copy, scratch memory) is not kept, unless it is `lasting`, and
    none with ``validate=True``.
    """
    make, kept = typed(function), {}

    @functools.wraps(function)
    def plan(*args, **kwargs):
        call = _call(args, kwargs)
        if call is None:
            return make(*args, **kwargs)
        key, tensors, addresses = call
        known = kept.get(key, 0)
        if type(known) is _Plan and known.is_current():
            return known.bound(tensors, addresses)
        made, tries = make(*args, **kwargs), known if type(known) is int else 0
        worth_it = 0 < tries < MOST_TRIES  # a layout that comes once is not, nor one that cannot be kept
        _keep(kept, key, (_Plan.of(made, tensors) if worth_it else None) or tries + 1)
        return made

    plan.kept = kept  # key -> the plan, or how often the layout came
    return plan


def lasting(tensor):
    """Say that a tensor lives as long as the process, and that every launch leaves it as it found it."""
    _lasting[tensor.data_ptr()] = tensor
    return tensor


def _call(args, kwargs):
    """(key, tensors, their addresses) of a call whose plan may be kept, else None."""
    key, tensors, addresses = [*kwargs], [], []
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            if not _on_gpu(value) or value.layout != torch.strided:
                return None
            address = value.data_ptr()
            same = addresses.index(address) if address in addresses else None
            layout = value.shape, value.stride(), value.dtype, value.device
            key.append((*layout, address % ALIGNMENT, same))
            tensors.append(value)
            addresses.append(address)
        elif type(value) in _PLAIN:
            key += (type(value), value)  # 1, 1.0 and True are equal
        else:
            return None
    if not tensors or kwargs.get("validate"):
        return None
    key.append(current_stream(tensors[0].device.index))  # what is lasting belongs to a stream
    return tuple(key), tensors, addresses


def _on_gpu(tensor):
    return tensor.is_cuda


def _keep(kept, key, plan):
    """Store a plan; the oldest one goes when there are too many."""
    while key not in kept and len(kept) >= MOST_KEPT:
        kept.pop(next(iter(kept)))
    kept[key] = plan


@dataclass
class _Plan:
    """A launch whose tensors are given by their places.

    Attributes
    ----------
    launch : Launch, the one that was planned, its tensors without memory
    packed : cuda.packed.PackedLaunch
    outputs : list; an output's place among the tensors of the call, or (shape, strides, dtype, device) of a new one
    sources : list of (place, bytes after its start) for each argument with memory: among the tensors of the call, then
        the new outputs, then `constant`
    constant : list of int, addresses of lasting tensors
    looked : float, when the kernel's files were looked at
    """

    launch: object
    packed: object
    outputs: list
    sources: list
    constant: list
    looked: float

    @classmethod
    def of(cls, launch, tensors):
        """The plan of a launch, or None where it cannot be kept."""
        launch = launch._whole() if isinstance(launch, Bound) else launch
        if not isinstance(launch, launches.Launch) or launch.language != "cuda":
            return None
        places = {id(tensor): place for place, tensor in enumerate(tensors)}
        new = [x for x in launch.outputs if id(x) not in places]
        outputs = [places[id(x)] if id(x) in places else _layout(x) for x in launch.outputs]
        known = [*tensors, *new]
        starts = {x.untyped_storage().data_ptr() for x in known}
        constant, sources = [], []
        for argument in launch.arguments:
            tensor = argument.tensor if isinstance(argument, cuda.TensorMap) else argument
            if not isinstance(tensor, torch.Tensor):
                continue
            if tensor.untyped_storage().data_ptr() not in starts and tensor.data_ptr() in _lasting:
                sources.append((len(known) + len(constant), 0))
                constant.append(tensor.data_ptr())
            else:
                sources.append(_source(tensor, known))
        whole = all(x.storage_offset() == 0 and _is_alone(x, known) for x in new)
        if not whole or None in sources:
            return None
        packed = launch.function.packed(launch.grid, launch.block, *launch.arguments, shared_bytes=launch.shared_bytes)
        if packed is None:
            return None
        launch = replace(launch, arguments=tuple(map(_without_memory, launch.arguments)), outputs=())
        return cls(launch, packed, outputs, sources, constant, time.monotonic())

    def is_current(self):
        """Whether kernel files and environment variables are as they were; looked at as often as by `cuda.load`."""
        now = time.monotonic()
        if now - self.looked >= cuda.LOOK_EVERY:
            if os.environ.get("COURSE_SYNC") == "1" or not cuda.is_newest(self.launch.function):
                return False
            self.looked = now
        return True

    def bound(self, tensors, addresses):
        """The launch for other tensors of the same layout; its new outputs are allocated."""
        outputs = []
        for output in self.outputs:
            if type(output) is int:
                outputs.append(tensors[output])
                continue
            shape, strides, dtype, on_device = output
            fresh = torch.empty_strided(shape, strides, dtype=dtype, device=on_device)
            outputs.append(fresh)
            addresses.append(fresh.data_ptr())
        addresses += self.constant
        return Bound(self, tuple(outputs), [addresses[place] + num_bytes for place, num_bytes in self.sources], tensors)


class Bound:
    """A launch of a kept plan: `run` and `outputs` as of a Launch, and anything else as of the whole Launch."""

    __slots__ = ("_addresses", "_plan", "_tensors", "outputs")

    def __init__(self, plan, outputs, addresses, tensors):
        self._plan, self.outputs, self._addresses, self._tensors = plan, outputs, addresses, tensors

    def run(self):
        launches.report(self)
        self._plan.packed(self._addresses)

    def __getattr__(self, name):
        return getattr(self._whole(), name)

    def _whole(self):
        """The Launch with these tensors."""
        launch, addresses, arguments = self._plan.launch, iter(self._addresses), []
        owners = [*self._tensors, *self.outputs]
        for argument in launch.arguments:
            is_map = isinstance(argument, cuda.TensorMap)
            tensor = argument.tensor if is_map else argument
            if isinstance(tensor, torch.Tensor):
                tensor = _at(next(addresses), tensor, owners)
            arguments.append(argument.of(tensor) if is_map else tensor)
        return replace(launch, arguments=tuple(arguments), outputs=self.outputs)


def _layout(x):
    return tuple(x.shape), x.stride(), x.dtype, x.device


def _source(tensor, known):
    """(place, bytes after its start) of the tensor that an argument is a view of; None where that is not certain."""
    address = tensor.data_ptr()
    found = [place for place, x in enumerate(known) if x.data_ptr() == address]
    if found:
        return found[0], 0
    inside = [place for place, x in enumerate(known) if x.data_ptr() < address < x.data_ptr() + _extent(x)]
    return (inside[0], address - known[inside[0]].data_ptr()) if len(inside) == 1 else None


def _extent(x):
    """Bytes from the first element to the end of the last."""
    last = sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
    return (last + 1) * x.element_size()


def _is_alone(x, known):
    """Whether no other of some tensors shares its memory."""
    start = x.untyped_storage().data_ptr()
    return sum(other.untyped_storage().data_ptr() == start for other in known) == 1


def _without_memory(argument):
    """An argument that keeps no memory alive: a tensor as its shape, strides and dtype."""
    if isinstance(argument, cuda.TensorMap):
        return argument.of(_without_memory(argument.tensor))
    if not isinstance(argument, torch.Tensor):
        return argument
    return torch.empty_strided(argument.shape, argument.stride(), dtype=argument.dtype, device="meta")


def _at(address, like, owners):
    """The tensor at an address with the shape, strides and dtype of `like`: a view of one of some tensors."""
    for owner in (*owners, *_lasting.values()):
        storage = owner.untyped_storage()
        offset = address - storage.data_ptr()
        if 0 <= offset < storage.nbytes():
            view = torch.empty(0, dtype=like.dtype, device=owner.device)
            return view.set_(storage, offset // like.element_size(), like.shape, like.stride())
    raise AssertionError("every address of a kept plan is one of a tensor of the call")

"""Torch dispatch modes that observe the operators which run inside them.

May import: torch.
"""

import math
import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class _Observer(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls):
        return False  # True imports torch.compile's machinery at the first operator, which takes more than a second


class LiveBytes(_Observer):
    """Counts the bytes of the storages that operators make, each once, from its creation to its release.

    Attributes
    ----------
    now, peak : int, bytes
    """

    def __init__(self):
        super().__init__()
        self.alive, self.now, self.peak = set(), 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        inputs = {tensor.untyped_storage()._cdata for tensor in _tensors((args, kwargs))}
        outputs = func(*args, **(kwargs or {}))
        for tensor in _tensors(outputs):
            if tensor.untyped_storage()._cdata not in inputs:  # else a view, or written in place
                self._add(tensor.untyped_storage())
        return outputs

    def _add(self, storage):
        key = storage._cdata
        if key in self.alive:
            return
        self.alive.add(key)
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._remove, key, storage.nbytes())

    def _remove(self, key, num_bytes):
        self.alive.discard(key)
        self.now -= num_bytes


class OperatorBytes(_Observer):
    """Records what each operator that runs reads and writes: all of its tensors once, nothing for a view.

    Attributes
    ----------
    launches : list of (name, bytes read, bytes written), in order
    """

    def __init__(self):
        super().__init__()
        self.launches = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        outputs = func(*args, **(kwargs or {}))
        read, made = _tensors((args, kwargs)), _tensors(outputs)
        storages = {tensor.untyped_storage()._cdata for tensor in read}
        is_view = not func._schema.is_mutable and any(x.untyped_storage()._cdata in storages for x in made)
        if made and not is_view and "empty" not in func.overloadpacket.__name__:
            name = func.overloadpacket.__name__
            self.launches.append((name, sum(map(_stored_bytes, read)), sum(map(_stored_bytes, made))))
        return outputs


class OperatorNames(_Observer):
    """Records the names of the operators that run, in order, in `names`."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def _stored_bytes(tensor):
    """Bytes of the elements that exist: an expanded dimension has one."""
    sizes = (size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride or size == 0)
    return math.prod(sizes) * tensor.element_size()


def _tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]

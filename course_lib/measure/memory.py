"""How much memory a function needs at its worst moment, beyond what was there before it began.

On a GPU the allocator knows. On a CPU torch keeps no such book, so every operator of torch is watched: the tensors
that it makes are counted while they live. Scratch space inside one operator is not seen there.

May import: torch.
"""

import weakref


def peak_bytes(function, *, on_gpu=False):
    """Run ``function()`` once.

    Parameters
    ----------
    function : callable without arguments
    on_gpu : bool; True asks torch's allocator for the current GPU

    Returns
    -------
    int, bytes; the result of the function is part of it
    """
    return _gpu_peak(function) if on_gpu else _cpu_peak(function)


def _gpu_peak(function):
    import torch

    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    function()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def _cpu_peak(function):
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    def tensors(tree):
        return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]

    class Watch(TorchDispatchMode):
        """Counts storages that operators make, each once, from its birth to its end."""

        def __init__(self):
            super().__init__()
            self.alive, self.now, self.peak = set(), 0, 0

        @classmethod
        def _should_skip_dynamo(cls):
            return False  # else the first operator imports torch.compile's machinery, which takes more than a second

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            given = {tensor.untyped_storage()._cdata for tensor in tensors((args, kwargs))}
            made = func(*args, **(kwargs or {}))
            for tensor in tensors(made):
                if tensor.untyped_storage()._cdata not in given:
                    self._born(tensor.untyped_storage())
            return made

        def _born(self, storage):
            key = storage._cdata
            if key in self.alive:
                return
            self.alive.add(key)
            self.now += storage.nbytes()
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._gone, key, storage.nbytes())

        def _gone(self, key, size):
            self.alive.discard(key)
            self.now -= size

    with Watch() as watch:
        function()
    return watch.peak

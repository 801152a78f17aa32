"""profile_triton on a GPU machine: the interpreter runs in a process of its own.

The function goes there as text, the tensors through a file in shared memory; results come back into the tensors of the
caller.

May import: errors; torch only inside functions.
"""

import tempfile
from pathlib import Path

from . import source
from .report import TritonReport
from .worker import worker

_ENVIRONMENT = {"TRITON_INTERPRET": "1", "COURSE_ENGINE": "cpu", "CUDA_VISIBLE_DEVICES": ""}


def profile_in_worker(fn, grid, args, schedule, seed, outputs, constexprs):
    """`profile_triton` in a process whose Triton is the interpreter. Same parameters, results and errors."""
    import torch

    from . import memory

    tensors = []

    def leave(tensor):
        tensors.append(tensor)
        return _Place(len(tensors) - 1)

    packed = [memory.map_tensors(value, leave) for value in (*args, *constexprs.values())]
    named = [o if isinstance(o, str) else _position(o, tensors) for o in outputs]
    if callable(grid):
        grid = grid(_by_name(fn, args, constexprs))
    with tempfile.TemporaryDirectory(dir=_shared_folder()) as folder:
        path = Path(folder) / "tensors.pt"
        torch.save([t.detach().cpu() if t.is_cuda else t.detach() for t in tensors], path)
        request = {
            "function": source.capture(fn),
            "grid": grid,
            "path": str(path),
            "args": packed[: len(args)],
            "constexprs": dict(zip(constexprs, packed[len(args) :], strict=True)),
            "schedule": schedule,
            "seed": seed,
            "outputs": named,
        }
        report = worker(f"{__name__}:handle", _ENVIRONMENT).call(request)
        for tensor, result in zip(tensors, torch.load(path, map_location="cpu"), strict=True):
            tensor.detach().copy_(result)
    return TritonReport.from_dict(report)


def handle(request):
    """In the worker: run one request, leave the tensors where they were found, return the report as plain data."""
    import torch

    from . import memory
    from .profile import profile_here

    tensors = torch.load(request["path"])
    fn = source.restore(request["function"])

    def found(place):
        return tensors[place.number]

    args = [memory.map_tensors(value, found, _Place) for value in request["args"]]
    constexprs = {k: memory.map_tensors(v, found, _Place) for k, v in request["constexprs"].items()}
    outputs = [tensors[o.number] if isinstance(o, _Place) else o for o in request["outputs"]]
    report = profile_here(fn, request["grid"], args, request["schedule"], request["seed"], outputs, constexprs)
    torch.save(tensors, request["path"])
    return report.to_dict()


class _Place:
    """Stands for a tensor of the shared file."""

    def __init__(self, number):
        self.number = number


def _position(tensor, tensors):
    return next((_Place(i) for i, t in enumerate(tensors) if t is tensor), "")


def _by_name(fn, args, constexprs):
    return {**dict(zip(fn.arg_names, args, strict=False)), **constexprs}


def _shared_folder():
    shared = Path("/dev/shm")
    return str(shared) if shared.is_dir() else None

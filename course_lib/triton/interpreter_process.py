"""profile_triton on a GPU machine: the interpreter runs in a separate process.

The function is sent as source text, the tensors through a file in shared memory; results are copied back into the
caller's tensors.

May import: errors; torch only inside functions.
"""

import tempfile
from pathlib import Path

from ..worker import worker
from . import checked_run, source
from .report import TritonReport

_ENVIRONMENT = {"TRITON_INTERPRET": "1", "COURSE_ENGINE": "cpu", "CUDA_VISIBLE_DEVICES": ""}


def profile_in_worker(fn, grid, args, schedule, seed, outputs, constexprs):
    """Run `profile_triton` in a process whose Triton is the interpreter. Same parameters, results and errors."""
    import torch

    from . import memory

    tensors = []

    def replace_with_index(tensor):
        tensors.append(tensor)
        return _TensorIndex(len(tensors) - 1)

    packed = [memory.map_tensors(value, replace_with_index) for value in (*args, *constexprs.values())]
    named = [o if isinstance(o, str) else _index_of(o, tensors) for o in outputs]
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
        report = worker(f"{__name__}:serve", _ENVIRONMENT).call(request)
        for tensor, result in zip(tensors, torch.load(path, map_location="cpu"), strict=True):
            tensor.detach().copy_(result)
    return TritonReport.from_dict(report)


def serve(_caller):
    """The function that answers requests in the worker."""
    return handle


def handle(request):
    """In the worker: run one request, write the tensors back to their file, return the report as plain data."""
    import torch

    from . import memory

    tensors = torch.load(request["path"])
    fn = source.restore(request["function"])

    def tensor_at(index):
        return tensors[index.number]

    args = [memory.map_tensors(value, tensor_at, _TensorIndex) for value in request["args"]]
    constexprs = {k: memory.map_tensors(v, tensor_at, _TensorIndex) for k, v in request["constexprs"].items()}
    outputs = [tensors[o.number] if isinstance(o, _TensorIndex) else o for o in request["outputs"]]
    report = checked_run.run_checked(
        fn, request["grid"], args, request["schedule"], request["seed"], outputs, constexprs
    )
    torch.save(tensors, request["path"])
    return report.to_dict()


class _TensorIndex:
    """Index of a tensor in the shared file, sent in place of the tensor."""

    def __init__(self, number):
        self.number = number


def _index_of(tensor, tensors):
    return next((_TensorIndex(i) for i, t in enumerate(tensors) if t is tensor), "")


def _by_name(fn, args, constexprs):
    return {**dict(zip(fn.arg_names, args, strict=False)), **constexprs}


def _shared_folder():
    shared = Path("/dev/shm")
    return str(shared) if shared.is_dir() else None

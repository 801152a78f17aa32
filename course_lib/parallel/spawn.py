"""Start processes for the ranks, watch them, and end all of them, whatever happens to one.

May import: errors, parallel.processes, torch.
"""

import os
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from ..errors import WorldError
from .processes import ENVIRONMENT, STATUS_BYTES

WORKER = [sys.executable, "-m", "course_lib.parallel.worker"]
POLL, GRACE = 0.02, 5.0  # seconds between two looks; from a result or a request to end until a process is killed


def run_processes(function, num_ranks, arguments, seconds, backend, stream_times=False):
    """(results, events) of function(world, *arguments) in `num_ranks` processes; WorldError where one failed."""
    if backend == "nccl" and torch.cuda.device_count() < num_ranks:
        raise WorldError(f"{num_ranks} ranks with nccl need a GPU each; this machine has {torch.cuda.device_count()}.")
    with tempfile.TemporaryDirectory(prefix="world_") as name:
        folder = Path(name)
        (folder / "task").write_bytes(_pickled((function, arguments)))
        processes = [_start(folder, rank, num_ranks, backend, seconds, stream_times) for rank in range(num_ranks)]
        try:
            _watch(processes, folder, time.monotonic() + seconds, seconds)
        finally:
            _end(processes)
            for rank in range(num_ranks):
                sys.stdout.write((folder / f"out_{rank}").read_text(errors="replace"))
        saved = [torch.load(folder / f"result_{rank}", "cpu", weights_only=False) for rank in range(num_ranks)]
    return [result for result, _ in saved], [event for _, events in saved for event in events]


def _pickled(task):
    try:
        import cloudpickle

        return cloudpickle.dumps(task)
    except ImportError:
        pass
    try:
        return pickle.dumps(task)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise WorldError(
            f"the function cannot be sent to other processes ({error}); define it in a module, or pip install "
            "cloudpickle."
        ) from None


def _start(folder, rank, num_ranks, backend, seconds, stream_times):
    """The process of a rank, with torchrun's variables; what it prints goes to files."""
    (folder / f"status_{rank}").write_bytes(b"starts".ljust(STATUS_BYTES))
    environment = os.environ | ENVIRONMENT | {
        "RANK": str(rank), "WORLD_SIZE": str(num_ranks), "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(num_ranks), "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
    }  # fmt: skip
    environment.setdefault("OMP_NUM_THREADS", "1")
    if backend == "gloo" and Path("/sys/class/net/lo").exists():
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with (folder / f"out_{rank}").open("wb") as out, (folder / f"err_{rank}").open("wb") as err:
        streams = {"stdin": subprocess.PIPE, "stdout": out, "stderr": err}
        command = [*WORKER, str(folder), backend, str(seconds), str(int(stream_times))]
        return subprocess.Popen(command, env=environment, **streams)


def _watch(processes, folder, deadline, seconds):
    """Return when every rank has left its result."""
    while True:
        codes = [process.poll() for process in processes]
        ready = [(folder / f"result_{rank}").exists() for rank in range(len(processes))]
        if all(ready):
            return
        lost = [rank for rank, code in enumerate(codes) if code is not None and not ready[rank]]
        if lost or list(folder.glob("error_*[0-9]")):
            raise _failure(lost, codes, folder)
        if time.monotonic() > deadline:
            doing = [(folder / f"status_{rank}").read_bytes().decode().strip() for rank in range(len(processes))]
            doing = ["has returned" if done else text for done, text in zip(ready, doing, strict=True)]
            clauses = "; ".join(f"rank {rank} {text}" for rank, text in enumerate(doing))
            raise WorldError(f"after {seconds:g} s: {clauses}.")
        time.sleep(POLL)


def _failure(lost, codes, folder):
    """The error of the rank that failed first; the others may have failed because of it."""
    errors = []
    for path in folder.glob("error_*[0-9]"):
        when, sentence, trace = pickle.loads(path.read_bytes())
        errors.append((when, int(path.name.rpartition("_")[2]), sentence, trace))
    if errors:
        _, rank, sentence, trace = min(errors)
        error = WorldError(f"rank {rank} raised {sentence}", rank)
        error.add_note(trace)
        return error
    rank = lost[0]
    last = (folder / f"err_{rank}").read_text(errors="replace").strip().splitlines()[-1:]
    return WorldError(f"rank {rank} ended with the exit code {codes[rank]}: {' '.join(last) or 'no message'}", rank)


def _end(processes):
    """Wait a moment for those that have a result, then end what is left."""
    deadline = time.monotonic() + GRACE
    failing = sys.exc_info()[0] is not None
    for process in processes:
        try:
            process.wait(0.0 if failing else max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
    for process in processes:
        process.wait()
        process.stdin.close()

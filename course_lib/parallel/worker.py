"""What a process of `run` executes: ``python -m course_lib.parallel.worker FOLDER BACKEND SECONDS``.

The folder has `task` (pickled function and arguments) and gets `status`, what each rank does, and for each rank
`result_RANK` or `error_RANK`. The process ends when the one that started it does: then its standard input ends.

May import: parallel.processes, torch.
"""

import io
import mmap
import os
import pickle
import sys
import threading
import time
import traceback
from pathlib import Path

import torch

from .processes import STATUS_BYTES, joined


def main(folder, backend, seconds, stream_times):
    threading.Thread(target=_end_with_parent, daemon=True).start()
    folder, rank = Path(folder), int(os.environ["RANK"])
    try:
        function, arguments = pickle.loads((folder / "task").read_bytes())
        options = {"init_method": f"file://{folder}/store", "seconds": float(seconds)}
        with joined(backend, **options, stream_times=stream_times == "1", status=_status(folder, rank)) as world:
            try:
                result = function(world, *arguments)
                world.require_nothing_pending()
            except BaseException as error:
                _fail(folder, rank, error)  # before the others notice that this rank is gone
            saved = io.BytesIO()
            torch.save((result, world.finished_events()), saved)
            _write(folder / f"result_{rank}", saved.getvalue())
    except BaseException as error:
        _fail(folder, rank, error)


def _fail(folder, rank, error):
    """Leave the error and end at once: a process group with a lost peer may not end."""
    _write(folder / f"error_{rank}", pickle.dumps((time.monotonic(), _sentence(error), traceback.format_exc())))
    sys.stdout.flush()
    os._exit(1)


def _write(path, data):
    """Write a file that appears whole."""
    path.with_suffix(".part").write_bytes(data)
    path.with_suffix(".part").rename(path)


def _sentence(error):
    """Type, message and the line of the last frame."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" (line {frames[-1].lineno} of {frames[-1].filename.rpartition('/')[2]})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


def _status(folder, rank):
    """This rank's part of the file that the parent reads."""
    with (folder / f"status_{rank}").open("r+b") as file:
        return mmap.mmap(file.fileno(), STATUS_BYTES)


def _end_with_parent():
    """Standard input is a pipe of the parent: at its end the parent is gone."""
    while os.read(0, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])

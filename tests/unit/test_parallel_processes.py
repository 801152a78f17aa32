"""The same functions on two processes with gloo as on two threads: one run, since starting processes takes seconds.

How a run ends when a rank fails or hangs is tested with processes that import nothing.
"""

import sys
import time

import pytest
import torch

from course_lib.errors import WorldError
from course_lib.parallel import run, spawn
from tests.unit.parallel_schemes import every_scheme


def test_processes_give_what_threads_give_and_count_the_same():
    processes, threads = run(every_scheme, 2, backend="gloo", seconds=200), run(every_scheme, 2)
    for found, expected in zip(processes.results, threads.results, strict=True):
        for one, other in zip(found, expected, strict=True):
            if isinstance(other, torch.Tensor):
                torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
            else:
                assert one == other
    for rank in range(2):
        counted = [
            [(e.kind, e.label, e.sent, e.received) for e in o.events if e.rank == rank] for o in (processes, threads)
        ]
        assert counted[0] == counted[1]


DIES = "print('out of luck', file=sys.stderr); sys.exit(3) if rank else time.sleep(60)"
RAISES = """
data = pickle.dumps((1.0, "ValueError: no (line 3 of f.py)", "trace"))
pathlib.Path(sys.argv[1], "error_1").write_bytes(data) if rank else None
time.sleep(60)
"""
WRONG = {
    "dies": (DIES, 30, "rank 1 ended with the exit code 3: out of luck"),
    "raises": (RAISES, 30, r"rank 1 raised ValueError: no \(line 3 of f.py\)"),
    "hangs": ("time.sleep(60)", 0.3, "after 0.3 s: rank 0 starts; rank 1 starts."),
}


@pytest.mark.parametrize("name", WRONG)
def test_all_ranks_are_ended_when_one_fails_or_hangs(name, monkeypatch):
    code, seconds, sentence = WRONG[name]
    first = "import os, pathlib, pickle, sys, time; rank = int(os.environ['RANK'])\n"
    monkeypatch.setattr(spawn, "WORKER", [sys.executable, "-S", "-c", first + code])
    monkeypatch.setattr(spawn, "_start", started := Started(spawn._start))
    began = time.monotonic()
    with pytest.raises(WorldError, match=sentence):
        run(print, 2, backend="gloo", seconds=seconds)
    assert time.monotonic() - began < 20
    assert len(started.processes) == 2 and all(process.poll() is not None for process in started.processes)


class Started:
    """Remembers what was started."""

    def __init__(self, start):
        self.start, self.processes = start, []

    def __call__(self, *arguments):
        self.processes.append(self.start(*arguments))
        return self.processes[-1]

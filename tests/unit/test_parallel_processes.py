"""The same functions on two processes with gloo as on two threads: one run: starting processes takes seconds."""

import torch

from course_lib.parallel import run
from tests.unit.parallel_schemes import every_scheme


def test_processes_give_what_threads_give_and_count_the_same():
    processes, threads = run(every_scheme, 2, backend="gloo"), run(every_scheme, 2)
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

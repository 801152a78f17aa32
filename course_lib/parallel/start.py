"""Start the ranks of a world, and end all of them.

May import: errors, expect, parallel.checked, parallel.events, parallel.threads, parallel.spawn inside a function.
"""

from .. import expect
from ..errors import WorldError
from .checked import counted
from .events import Outcome
from .threads import run_threads

BACKENDS = ("threads", "gloo", "nccl")
LONGEST = 1e6  # seconds that a run may be given


@counted
def run(function, num_ranks, *arguments, backend="threads", seconds=60.0, stream_times=False):
    """Run function(world, *arguments) on every rank of a new world and return when all of them have.

    Parameters
    ----------
    function : takes a World and the arguments; for processes one that can be pickled: defined in a module, or
        anywhere if cloudpickle is installed
    num_ranks : int, 1 or more
    backend : "threads" (one process, deterministic), "gloo" (processes on the CPU) or "nccl" (a GPU for each)
    stream_times : bool; nccl: events at the times of the stream, not of the host
    seconds : float; when they are over all ranks are ended, and the error says what each of them was doing

    Returns
    -------
    Outcome : results by rank, and the events of all ranks on one clock

    Raises
    ------
    WorldError  a rank raised, the ranks wait for each other in vain, or the time is over; its __cause__ is what a
        thread raised
    """
    expect.choice("backend", backend, BACKENDS)
    expect.function("function", function, error=WorldError)
    seconds = expect.real("seconds", seconds, 0, LONGEST, error=WorldError)
    if backend == "threads":
        results, events = run_threads(function, num_ranks, arguments, seconds)
    else:
        from .spawn import run_processes

        results, events = run_processes(function, num_ranks, arguments, seconds, backend, stream_times)
    return Outcome(results, sorted(events, key=lambda event: (event.begin, event.rank)))

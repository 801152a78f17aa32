"""Scaling out: what is split over several ranks, and the bytes that it sends.

    outcome = run(function, 4)                       # function(world) on 4 threads, deterministic
    outcome = run(function, 2, backend="gloo")       # on 2 processes; "nccl": a GPU each
    outcome.results[rank], outcome.sent(rank), outcome.events

- `world`: a rank's collectives, counted; `threads`, `processes`: the two implementations
- `checked`: ranks and counts as arguments
- `start`: run a function on all ranks; `spawn`, `worker`: with processes; `joined` for a script under torchrun
- `events`: what happened when, and bytes on the wire by formula
- `tensor`: column and row parallel layers, heads and vocabulary over ranks
- `tensor_model`: the Transformer of course_lib.model on several ranks, prefill and decode
- `expert`: a mixture of experts over ranks; `disaggregated`: prefill on one rank, decode on another
- `pipeline`: orders, timetables and their bubble, and a training step over stages
- `router`: which replica serves a prompt; `data_parallel`: replicas on ranks behind a router
- `context`: ring attention and Ulysses; `states`, `merge_kernel`: the merge of (out, lse)

May import: errors, expect, kv, ops, model, its own modules, torch.
"""

from .events import Event, Outcome, wire_bytes
from .start import BACKENDS, run
from .world import Pending, World

__all__ = ["BACKENDS", "Event", "Outcome", "Pending", "World", "joined", "run", "wire_bytes"]


def __getattr__(name):
    """`joined` on demand: torch.distributed takes a moment to import."""
    if name != "joined":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .processes import joined

    return joined

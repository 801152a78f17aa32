"""Scaling out: what is split over several ranks, and the bytes that it sends.

    outcome = run(function, 4)                       # function(world) on 4 threads, deterministic
    outcome = run(function, 2, backend="gloo")       # on 2 processes; "nccl": a GPU each
    outcome.results[rank], outcome.sent(rank), outcome.events

- `world`: a rank's collectives, counted; `threads`, `processes`: the two implementations; `start`: run and end them
- `events`: what happened when, and bytes on the wire by formula
- `tensor`: column and row parallel layers, heads and vocabulary over ranks
- `context`: ring attention and Ulysses; `states`, `merge_kernel`: the merge of (out, lse)

May import: errors, ops, model, its own modules, torch.
"""

from .events import Event, Outcome, wire_bytes
from .start import BACKENDS, run
from .world import Pending, World

__all__ = ["BACKENDS", "Event", "Outcome", "Pending", "World", "run", "wire_bytes"]

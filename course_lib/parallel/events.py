"""What happened on each rank: events with times and bytes, and the results of a run.

May import: expect, parallel.checked.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from .. import expect
from .checked import counted

_PASSES = {"all_reduce": 2, "reduce_scatter": 1, "barrier": 0}  # of each of n parts, over n - 1 links
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "exchange", "barrier", "one_shot")


class Event(NamedTuple):
    """One collective, exchange or stretch of compute on one rank.

    Attributes
    ----------
    rank : int
    kind : "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "exchange", "barrier" or "compute"
    label : str, given by the caller
    begin, end : float, seconds on one clock of all ranks
    sent, received : int or float, bytes on the wire from and to this rank
    """

    rank: int
    kind: str
    label: str
    begin: float
    end: float
    sent: float = 0
    received: float = 0


@dataclass
class Outcome:
    """What a run gave.

    Attributes
    ----------
    results : list, what the function returned on each rank
    events : list of Event of all ranks, by begin
    seconds : float, from the first event's begin to the last one's end
    """

    results: list
    events: list = field(default_factory=list)

    @property
    def seconds(self):
        if not self.events:
            return 0.0
        return max(event.end for event in self.events) - min(event.begin for event in self.events)

    def sent(self, rank=None, kind=None, label=None):
        """Bytes sent, of one rank or all, of one kind or all, of one label or all."""
        return sum(event.sent for event in self._chosen(rank, kind, label))

    def count(self, kind, rank=0):
        """Calls of one kind on a rank."""
        return len(list(self._chosen(rank, kind, None)))

    def _chosen(self, rank, kind, label):
        wanted = {"rank": rank, "kind": kind, "label": label}
        wanted = {name: value for name, value in wanted.items() if value is not None}
        return (event for event in self.events if all(getattr(event, name) == wanted[name] for name in wanted))


@counted
def wire_bytes(kind, num_bytes, num_ranks):
    """Bytes that one rank sends in one collective by the ring algorithm: what the links carry at least.

    Parameters
    ----------
    kind : as in Event, or "one_shot": an all_reduce in which every rank sends its input to all others
    num_bytes : int; all_reduce, reduce_scatter: the size of the input; all_gather: of one rank's part; all_to_all,
        exchange: what goes to other ranks
    num_ranks : int

    Notes
    -----
    all_reduce      2 (n - 1) / n * bytes: a reduce_scatter, then an all_gather of its parts
    reduce_scatter  (n - 1) / n * bytes: n - 1 steps, each with a part of 1 / n
    all_gather      (n - 1) * bytes: every part passes every other rank
    one_shot        (n - 1) * bytes: more than the ring from 3 ranks on, in one step instead of 2 (n - 1); flags beside
                    the numbers, as many bytes again, are not counted
    all_to_all      what it is given: rows go straight to their rank

    Source: P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009
    """
    return ring_bytes_of(expect.choice("kind", kind, KINDS), num_bytes, num_ranks)


def ring_bytes_of(kind, num_bytes, num_ranks):
    """`wire_bytes` of arguments that are known to be right: a World counts each of its collectives."""
    n = num_ranks
    if kind in ("all_to_all", "exchange"):
        return num_bytes
    if kind in ("all_gather", "one_shot"):
        return (n - 1) * num_bytes
    numerator = _PASSES[kind] * (n - 1) * num_bytes
    return numerator / n if numerator % n else numerator // n

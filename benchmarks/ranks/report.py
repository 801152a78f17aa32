"""What each rank runs: time calls on all ranks together, and hand the rows to the process that started them.

May import: the standard library, torch, course_lib.
"""

import gc
import importlib
import json
import statistics
import traceback
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

WARM = 2


@dataclass
class Report:
    """Where the rows of a part go.

    Attributes
    ----------
    world : World of course_lib.parallel
    path : str, the file to which rank 0 appends a line of JSON for each row
    part : str
    runs : int
    dry : bool; nothing is timed
    peers : bool; False where there is no torch.distributed: threads run the course's own variants alone
    """

    world: object
    path: str
    part: str
    runs: int
    dry: bool
    peers: bool = True
    rows: list = field(default_factory=list)

    def add(self, variant, call, *, bytes_of=None, inner=1, error=None, limit=None, **columns):
        """Run a variant on all ranks and time it: the row, or one with a note. Returns its microseconds or None.

        call : function without arguments
        bytes_of : number or None, bytes on the wire that the formula gives for this rank; checked against those counted
        inner : calls that are timed as one
        error, limit : the largest error of an earlier check, and the largest allowed
        columns : of the row; those that are functions are called with the microseconds
        """
        row, us = {"variant": variant, "inner": inner}, None
        row |= {name: value for name, value in columns.items() if not callable(value)}
        if error is not None:
            row["max_error"] = f"{error:.1e}"
        if error is not None and not error <= limit:
            row["note"] = f"wrong by {error:.1e}: not timed"
        else:
            try:
                row |= self._counted(call, bytes_of)
                us = None if self.dry else self._median_us(call, inner)
            except Exception as problem:  # the same on every rank, or the part ends at its time limit
                row["note"] = reason(problem)
        if us is not None:
            row["median_us"] = f"{us:.1f}"
            row |= {name: value(us) for name, value in columns.items() if callable(value)}
        self.put(row)
        return us

    def skip(self, variant, problem, **columns):
        """A row that says why there is no number."""
        self.put({"variant": variant, "note": problem if isinstance(problem, str) else reason(problem), **columns})

    def put(self, row):
        """Keep a row."""
        row = {"part": self.part, "ranks": self.world.num_ranks} | row
        self.rows.append(row)
        if self.world.rank == 0 and self.path:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    def amend(self, found, **columns):
        """Report the row with these columns again, with more: the later one counts."""
        for row in [row for row in self.rows if all(row.get(name) == value for name, value in found.items())][-1:]:
            self.put(row | columns)

    def _counted(self, call, bytes_of):
        """Run once; bytes on the wire as the world counted them."""
        before = len(self.world.events)
        call()
        sent = sum(event.sent for event in self.world.events[before:])
        if bytes_of is not None and sent != bytes_of:
            return {"wire_bytes": sent, "note": f"wrong: {sent} bytes counted, the formula gives {bytes_of}"}
        return {"wire_bytes": sent} if sent else {}

    def _median_us(self, call, inner):
        """Median microseconds of a call on the slowest rank, all of them started together."""
        flag, times = torch.zeros(1, device=self.world.device), []
        for turn in range(WARM + self.runs):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            dist.all_reduce(flag)
            begin.record()
            for _ in range(inner):
                call()
            end.record()
            torch.cuda.synchronize()
            if turn >= WARM:
                times.append(begin.elapsed_time(end) * 1e3 / inner)
        slowest = torch.tensor(statistics.median(times), device=self.world.device)
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        self.world.events.clear()
        return slowest.item()

    def largest(self, value):
        """The largest of all ranks' values, a float."""
        return self.world.all_reduce(torch.tensor(float(value), device=self.world.device), "max").item()


def of_part(world, part, path, runs, dry):
    """The rows of a part, on each rank."""
    report = Report(world, path, part, runs, dry, peers=dist.is_initialized())
    importlib.import_module(f"benchmarks.ranks.{part}").rows(world, report)


def reason(problem):
    """The first line of an exception, with the line of the code that raised it."""
    frames = traceback.extract_tb(problem.__traceback__)
    where = f" (line {frames[-1].lineno} of {frames[-1].filename.rpartition('/')[2]})" if frames else ""
    text = (str(problem).strip() or type(problem).__name__).splitlines()[0]
    return f"not run: {type(problem).__name__}: {text[:200]}{where}"


def clear():
    """Give a GPU's memory back before the next variant."""
    if torch.cuda.is_available():
        gc.collect()
        torch.cuda.empty_cache()


def fastest(times):
    """The smallest of the times that are there, or None."""
    return min((us for us in times if us), default=None)


def ratio(peer_us, us):
    """The best peer's time over this one's, as a cell."""
    return f"{peer_us / us:.3f}" if peer_us and us else ""

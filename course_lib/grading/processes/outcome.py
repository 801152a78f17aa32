"""From the account of how a child ended, and the bytes that it sent, to a ChildResult with a sentence for every ending.

May import: answer.loading, loops, protocol, wire.
"""

import re
import signal

from ..answer.loading import is_learners_file
from . import loops, wire
from .protocol import ChildResult, Fault, RunResult


def collect(task, account, data):
    """One ChildResult for a task.

    Parameters
    ----------
    task : ChildTask
    account : dict of the zygote (stopped, signalled, status, where, printed, dropped, seconds), or None when it died
    data : bytes, the records that the child wrote; not to be trusted
    """
    records, damaged = _records(data, {run.name: run.outputs for run in task.runs})
    results = {}
    started, fault, finished = None, None, False
    for record in records:
        kind = record.get("record")
        if kind == "started":
            started = record.get("name")
        elif kind == "run":
            result = record["result"]
            results[result.name] = result
            started = None
        elif kind == "fault":
            fault = record["fault"]
        finished = finished or kind == "done"
    if damaged and not (account and (account["stopped"] or account["signalled"])):  # a killed child stops in mid-record
        fault = Fault(
            "exited",
            "The answer wrote into the channel that carries its results, so they cannot be read; "
            "write only to the outputs and to standard output.",
        )
    elif account is None or not finished:
        fault = fault or _ending(task, account)
    runs = [results.get(run.name) or RunResult(run.name) for run in task.runs]
    for result in runs:
        if result.name == started and fault is not None:
            result.fault = fault
    return ChildResult(runs, fault, _printed(account), account["seconds"] if account else task.wall_seconds)


def _records(data, wanted):
    """The child's records, and whether anything in them is not what a run of the task (name: outputs) may send."""
    records, position = [], 0
    try:
        while position < len(data):
            record, position = wire.unpack(data, position)
            if record.get("record") == "run":
                result = record["result"] = wire.run_result_from(record["result"])
                for outputs in (result.outputs or {}, *result.schedule_outputs.values()):
                    wire.check_outputs(outputs, wanted[result.name])
            elif record.get("record") == "fault":
                record["fault"] = wire.fault_from(record["fault"])
            records.append(record)
    except (wire.WireError, AttributeError, KeyError, TypeError):
        return records, True
    return records, False


def _printed(account):
    if account is None:
        return ""
    dropped = account["dropped"]
    return wire.plain_text(account["printed"]) + (
        f"\n[{dropped:,} more bytes of output were dropped]" if dropped else ""
    )


def _ending(task, account):
    """The Fault for a child that did not come to its end."""
    if account is None:
        return Fault("killed", "The answer ended the process that watches it; nothing could be judged.")
    if account["stopped"] == "timeout":
        return _timeout(task, account["where"], account["seconds"])
    if account["stopped"] == "memory":
        return _out_of_memory(task)
    if account["stopped"] == "processes":
        return Fault("killed", "The answer started more processes than it may have (128); start none.")
    if account["signalled"]:
        return _signal(account)
    return Fault(
        "exited",
        f"The answer ended its process with exit code {account['status']} before it was finished; "
        "return instead of calling exit.",
    )


def _out_of_memory(task):
    return Fault(
        "out_of_memory",
        f"The answer asked for more memory than the {task.memory_bytes / 2**30:.0f} GiB that it may have.",
    )


def _limit_of(task, seconds):
    if task.cpu_seconds and seconds < task.wall_seconds:
        return f"{task.cpu_seconds:g} s of processor time"
    return f"{task.wall_seconds:g} s"


def _timeout(task, where, seconds):
    lines, detail = _lines_of(where), where
    line, at = lines[0] if lines else None, ""
    if line is not None:
        loop = loops.around(lines, loops.of_python(task.source, task.filename, task.first_line))
        at = f"; it was in line {line}" + (f", in the loop of line {loop}" if loop else "")
        line = loop or line
    return Fault(
        "timeout",
        f"The answer was still running after {_limit_of(task, seconds)} and was stopped{at}.",
        line,
        detail=detail,
    )


def _signal(account):
    number = account["status"]
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    line = _line_of(account["where"])
    at = f" in line {line}" if line else ""
    if number in (signal.SIGSEGV, signal.SIGBUS):
        return Fault(
            "out_of_bounds",
            f"The answer touched memory that is not its own{at} ({name}).",
            line,
            detail=account["where"],
        )
    if number == signal.SIGXFSZ:
        return Fault("killed", "The answer wrote a file larger than it may.", line)
    if number == signal.SIGXCPU:
        return Fault("timeout", f"The answer used up its processor time and was stopped{at}.", line)
    return Fault(
        "killed",
        f"The answer's process was killed{at} ({name}); an answer must return by itself.",
        line,
        detail=account["where"],
    )


_FRAME = re.compile(r'File "(?P<file>[^"]*)", line (?P<line>\d+)')


def _line_of(trace):
    """The innermost line of the learner's own text in a faulthandler trace, or None."""
    return next(iter(_lines_of(trace)), None)


def _lines_of(trace):
    """Lines of the learner's own text in a faulthandler trace, the innermost first."""
    return [int(frame["line"]) for frame in _FRAME.finditer(trace) if is_learners_file(frame["file"])]

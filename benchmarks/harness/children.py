"""Variants in processes of their own: one that crashes, hangs or spoils the GPU costs its own row and no other.

A child takes the variants of one group in turn and appends a line of JSON to a file when it begins one and when it has
its row. When it dies or a variant outlasts its limit, a new child takes what remains.

May import: the standard library.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

from benchmarks import ROOT

LONGEST_REASON = 160


def rows_of_children(target, groups, spec, *, limit, seconds=float("inf")):
    """Yield (variant, row) of every variant of every group; a row of a failure has the note "failed: reason".

    Parameters
    ----------
    target : "module:function"; function(variant, spec) returns a row, a dict that JSON can hold
    groups : list of lists of variants; those of a group share a process, and so what the function keeps
    spec : dict that JSON can hold
    limit : float, seconds of one variant
    seconds : float; no variant is begun after them
    """
    began = time.monotonic()
    for group in groups:
        remaining = list(group)
        while remaining:
            if time.monotonic() - began > seconds:
                yield from ((name, failed(f"not begun, {seconds:g} s are over")) for name in remaining)
                break
            for name, row in _child(target, remaining, spec, limit):
                remaining.remove(name)
                yield name, row


def failed(reason):
    """The row of a variant that gave no numbers."""
    words = " ".join(str(reason).split())
    return {"note": f"failed: {words}"[:LONGEST_REASON]}


def _child(target, variants, spec, limit):
    """Rows of one child as they come; the last is a failure when the child did not do all."""
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder, "rows.jsonl")
        lines.touch()
        order = json.dumps({"target": target, "variants": variants, "spec": spec, "lines": str(lines)})
        command = [sys.executable, "-m", "benchmarks.harness.children", order]
        child = subprocess.Popen(command, cwd=ROOT, process_group=0)
        try:
            yield from _read(child, lines, variants, limit)
        finally:
            _end(child)


def _read(child, lines, variants, limit):
    """Follow the file of a child; the clock of a variant starts when the child begins it."""
    done, current, since = 0, variants[0], time.monotonic()
    while True:
        ended = child.poll() is not None
        whole = lines.read_text(encoding="utf-8").rpartition("\n")[0]  # a line that is being written waits
        events = [json.loads(line) for line in whole.splitlines()[done:]]
        done += len(events)
        for event in events:
            if "row" in event:
                yield event["variant"], event["row"]
                current = None
            else:
                current, since = event["variant"], time.monotonic()
        if ended:
            if current is not None:
                yield current, failed(f"its process ended with code {child.returncode}")
            return
        if current is not None and time.monotonic() - since > limit:
            yield current, failed(f"longer than {limit:g} s")
            return
        time.sleep(0.05)


def _end(child):
    """End a child and what it started."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()


def attempt(function, variant, spec):
    """The row of function(variant, spec), or of its failure; the traceback goes to the terminal."""
    try:
        return function(variant, spec)
    except Exception as error:  # a peer may raise anything; the other rows are still wanted
        traceback.print_exc()
        return failed(f"{type(error).__name__}: {error}")


def _end_with(parent):
    """End this process when its parent has ended, whatever it is doing: it may hold the GPU."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _work(order):
    """What a child does."""
    order = json.loads(order)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    module, _, name = order["target"].partition(":")
    function = getattr(importlib.import_module(module), name)
    with open(order["lines"], "a", encoding="utf-8") as file:
        for variant in order["variants"]:
            print(json.dumps({"variant": variant}), file=file, flush=True)
            row = attempt(function, variant, order["spec"])
            print(json.dumps({"variant": variant, "row": row}), file=file, flush=True)


if __name__ == "__main__":
    _work(sys.argv[1])

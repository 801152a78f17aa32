"""Launching on the SIMT machine: arguments into memory, the runtime's answer into findings and counters.

May import: errors, the other modules of simt.
"""

import ctypes
import functools
import json
import os
import threading

import torch

from ...errors import KernelFault, LaunchError
from .absent import drop_discarded
from .build import runtime_library
from .findings import Reader, stop_findings
from .lines import LineTable, variables
from .memory import OBJECT_KINDS, Memory, Object, Task, value_bytes
from .report import Line, Report
from .source import AUTHOR

SCHEDULES = ("forward", "reverse", "random", "resident")  # the order is that of Schedule in runtime/state.h
STOPS = ("none", "kernel_fault", "step_limit", "time_limit", "interrupted", "deadlock", "trap", "no_memory")
STEP_LIMIT = 10_000_000  # basic blocks of one thread in the checked build
STATIC_SHARED_LIMIT = 48 * 1024  # bytes that a kernel may declare, on every GPU
BLOCK_SHARED_LIMIT = 227 * 1024  # bytes of a block, declared and dynamic, on compute capability 9.0
TIME_LIMIT_S = 60.0  # of one launch; COURSE_TIME_LIMIT_S overrides
_lock = threading.RLock()  # the runtime serves one launch at a time


@functools.cache
def load_runtime():
    """The runtime's library, loaded once."""
    library = ctypes.CDLL(str(runtime_library()))
    library.simt_launch.argtypes = [
        ctypes.POINTER(Task),
        ctypes.POINTER(ctypes.c_char_p),
        ctypes.POINTER(ctypes.c_char_p),
    ]
    return library


def _triple(value):
    """An int or a tuple of up to three as a tuple of three."""
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return tuple(int(item) for item in values) + (1,) * (3 - len(values))


class Module:
    """A kernel built for the SIMT machine.

    Attributes
    ----------
    name : str
    path : Path of the built library
    mode : str, "fast" or "checked"
    static_shared : int, bytes of shared memory that the kernel declares
    """

    def __init__(self, path, name, parameters, *, filename, mode):
        self.path, self.name, self.parameters, self.filename, self.mode = path, name, parameters, filename, mode
        load_runtime()
        self._library = ctypes.CDLL(str(path))
        self._entry = ctypes.cast(self._library.simt_entry, ctypes.c_void_p).value
        dynamic = getattr(self._library, "simt_dynamic_base", None)
        self._dynamic = ctypes.cast(dynamic, ctypes.c_void_p).value if dynamic is not None else None
        self._lines = LineTable(path, AUTHOR)
        self.variables, self.static_shared = variables(path), 0
        self._variables = self.variables if mode == "checked" else []
        self._objects = (Object * max(1, len(self._variables)))(
            *[(one.offset, one.bytes, OBJECT_KINDS.index(one.kind)) for one in self._variables]
        )

    def launch(self, grid, block, arguments, shared_bytes=0):
        """Runs the kernel; tensors are changed in place.

        Parameters
        ----------
        grid, block : int or tuple of up to 3
        arguments : list of CPU tensors, numbers and bytes, in order of the parameters
        shared_bytes : int, dynamic shared memory

        Raises
        ------
        KernelFault   crash, deadlock, endless loop, failed assertion
        """
        self._need("fast")
        answer, memory, printed = self._run(grid, block, arguments, shared_bytes, checked=False)
        _show(printed)
        if STOPS[answer["stop"]] != "none":
            findings = self._findings(answer, memory)
            message = findings[0].message if findings else f"{self.name} stopped: {STOPS[answer['stop']]}."
            raise KernelFault(f"{self.name}: {message}", findings)

    def profile(
        self, grid, block, arguments, shared_bytes=0, *, schedule="forward", seed=0, step_limit=None, outputs=()
    ):
        """Runs the kernel under observation.

        Parameters
        ----------
        grid, block, arguments, shared_bytes : as for launch
        schedule : str, "forward", "reverse", "random" or "resident"
        seed : int, for random and resident
        step_limit : int or None; basic blocks of one thread before its loop counts as endless (default 10 million)
        outputs : tensors among the arguments whose contents count as not yet written

        Returns
        -------
        report : Report
        """
        if schedule not in SCHEDULES:
            raise LaunchError(f"schedule is {schedule!r}; it must be one of {', '.join(SCHEDULES)}.")
        self._need("checked")
        options = {"schedule": SCHEDULES.index(schedule), "seed": seed, "step_limit": step_limit or STEP_LIMIT}
        options |= {"outputs": outputs, "checked": True}
        with _lock:
            before = Memory(self.parameters, arguments, outputs).copy()
            answer, memory, printed = self._run(grid, block, arguments, shared_bytes, **options)
            if STOPS[answer["stop"]] == "none" and not any(one.kind == "device" for one in self.variables):
                # __device__ variables outlive a launch, so that a second one would begin with others

                def again():
                    repeated, _, text = self._run(grid, block, arguments, shared_bytes, **options)
                    return repeated, text

                drop_discarded(answer, printed, memory, before, again, self._set_absent_byte)
        _show(printed)
        report = Report(kernel=self.name, schedule=schedule, exact=answer["exact"], printed=printed)
        report.findings = self._findings(answer, memory)
        self._count(report, answer["counters"])
        return report

    def _set_absent_byte(self, byte):
        load_runtime().simt_set_absent_byte(byte)

    def _need(self, mode):
        if self.mode != mode:
            raise LaunchError(f"This module was built {self.mode}; build it with mode={mode!r} for that.")

    def _findings(self, answer, memory):
        """Findings of a launch, what ended it last."""
        reader = Reader(self._lines, self._variables, memory.shown, answer)
        reader.resolve(answer)
        findings = reader.findings(answer["findings"])
        return findings + [last for last in stop_findings(answer, reader) if not _said(findings, last)]

    def _run(self, grid, block, arguments, shared_bytes, *, checked, schedule=0, seed=0, step_limit=0, outputs=()):
        if shared_bytes and self.static_shared + shared_bytes > BLOCK_SHARED_LIMIT:
            raise LaunchError(
                f"{self.name}: it declares {self.static_shared:,} bytes of shared memory and is launched with "
                f"{shared_bytes:,} more; a block may have {BLOCK_SHARED_LIMIT:,} together."
            )
        memory = Memory(self.parameters, arguments, outputs)
        buffers = [
            None if isinstance(value, torch.Tensor) else value_bytes(parameter, value)
            for parameter, value in zip(self.parameters, arguments, strict=True)
        ]
        count = max(1, len(arguments))
        pointers = (ctypes.c_void_p * count)(*[ctypes.addressof(one) if one is not None else None for one in buffers])
        tensors = memory.as_c()
        limit = float(os.environ.get("COURSE_TIME_LIMIT_S", TIME_LIMIT_S))
        task = Task(
            self._entry,
            self._dynamic,
            pointers,
            tensors,
            len(memory.extents),
            (ctypes.c_int * count)(*memory.piece_of),
            (ctypes.c_uint64 * count)(*memory.offset_of),
            len(arguments),
            _triple(grid),
            _triple(block),
            shared_bytes,
            checked,
            schedule,
            self._objects,
            len(self._variables),
            seed & 0xFFFFFFFF,
            1 if checked else _num_workers(),
            step_limit,
            limit,
        )
        result, printed = ctypes.c_char_p(), ctypes.c_char_p()
        with _lock:
            failed = load_runtime().simt_launch(ctypes.byref(task), ctypes.byref(result), ctypes.byref(printed))
            if failed:
                raise LaunchError(
                    f"{self.name}: there is not enough memory for a copy of its tensors; use smaller ones."
                )
            answer, text = json.loads(result.value), printed.value.decode(errors="replace")
        answer["shared_bytes"] = shared_bytes
        if STOPS[answer["stop"]] == "interrupted":
            raise KeyboardInterrupt
        return answer, memory, text

    def _count(self, report, counters):
        """Counters of code addresses into lines and totals."""
        for code, flags, requests, num_bytes, sectors, ideal, wavefronts, conflicts in counters:
            place = self._lines.place(code)
            number = place[1] if place else None
            key = f"{place[0]}:{number}" if place and place[0] else number
            line = report.lines.setdefault(key, Line(number, place[0] if place else ""))
            for target in (line, report):
                if flags & 0x40:
                    target.atomics += requests
                    continue
                side = "store" if flags & 0x10 else "load"
                traffic = getattr(target, f"{'shared' if flags & 0x20 else 'global'}_{side}")
                traffic.requests += requests
                traffic.bytes += num_bytes
                if flags & 0x20:
                    traffic.wavefronts += wavefronts
                    traffic.conflicts += conflicts
                else:
                    traffic.sectors += sectors
                    traffic.ideal_sectors += ideal


def _said(findings, finding):
    """Is this finding the consequence of another that says more?"""
    if finding.kind == "deadlock":
        return any(one.kind in ("deadlock", "bad_shuffle") for one in findings)
    # a vector instruction of the host may crash where the address is misaligned: that has been said
    return any(one.kind in (finding.kind, "misaligned") and one.line == finding.line for one in findings)


def _show(printed):
    if printed:
        print(printed, end="")


def _num_workers():
    """Worker threads of a fast launch: the cores this process may use."""
    chosen = os.environ.get("COURSE_SIMT_WORKERS")
    return int(chosen) if chosen else min(16, len(os.sched_getaffinity(0)))

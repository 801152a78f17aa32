"""Launch a kernel on the SIMT machine; the runtime's result becomes findings and counters.

May import: errors, the other modules of simt.
"""

import ctypes
import functools
import json
import os
import threading

from ...errors import KernelFault, LaunchError, ToolchainError
from . import apart
from .build import runtime_library
from .findings import Reader, stop_findings
from .inactive_lanes import drop_discarded
from .lines import LineTable, variables
from .memory import OBJECT_KINDS, Memory, Object, Task, value_buffers
from .report import EVENTS, MMA_TYPES, TRAFFIC, Event, Line, Report
from .source import AUTHOR

SCHEDULES = ("forward", "reverse", "random", "resident")  # the order is that of Schedule in runtime/state.h
# The order is that of Stop in runtime/state.h.
STOPS = ("none", "kernel_fault", "step_limit", "time_limit", "interrupted", "deadlock", "trap", "no_memory")
FLAG_WRITE, FLAG_SHARED, FLAG_ATOMIC = 0x10, 0x20, 0x40  # of an instruction; the values of runtime/requests.h
STEP_LIMIT = 10_000_000  # basic blocks of one thread in the checked build
STATIC_SHARED_LIMIT = 48 * 1024  # bytes that a kernel may declare, on every GPU
BLOCK_SHARED_LIMIT = 227 * 1024  # bytes of a block, declared and dynamic, on compute capability 9.0
TIME_LIMIT_S = 60.0  # of one launch; COURSE_TIME_LIMIT_S overrides
_lock = threading.RLock()  # the runtime serves one launch at a time
_enter = None  # see launch_apart


def loaded(path):
    """A compiled library, loaded.

    Raises
    ------
    ToolchainError  the system does not run what lies in the cache
    """
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise ToolchainError(
            f"{path.parent} holds compiled kernels that this system does not load ({error}). Is the folder mounted "
            "without the right to execute? Set COURSE_CACHE_DIR to another one."
        ) from None


@functools.cache
def load_runtime():
    """Load the runtime's library, once."""
    library = loaded(runtime_library())
    library.simt_launch.argtypes = [
        ctypes.POINTER(Task),
        ctypes.POINTER(ctypes.c_char_p),
        ctypes.POINTER(ctypes.c_char_p),
    ]
    return library


def launch_apart(enter):
    """From now on every launch has a process of its own (apart.py), which calls `enter` first; None: as usual."""
    global _enter
    _enter = enter


def _triple(value):
    """Return an int or a tuple of up to three as a tuple of three."""
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return tuple(int(item) for item in values) + (1,) * (3 - len(values))


class Module:
    """A kernel built for the SIMT machine.

    Attributes
    ----------
    name : str
    path : Path of the kernel's library
    mode : str, "fast" or "checked"
    source : (str, int), the text and the number of its first line; for the names in findings
    static_shared : int, bytes of shared memory that the kernel declares; set by simt.build
    """

    source = ("", 1)

    def __init__(self, path, name, parameters, *, filename, mode, source=("", 1)):
        self.path, self.name, self.parameters, self.filename, self.mode = path, name, parameters, filename, mode
        self.source = source
        load_runtime()
        self._library = loaded(path)
        self._entry = ctypes.cast(self._library.simt_entry, ctypes.c_void_p).value
        self._dynamic, self._blocks_per_sm = map(self._address, ("simt_dynamic_base", "simt_blocks_per_sm"))
        self._lines = LineTable(path, AUTHOR)
        self.variables, self.static_shared = variables(path), 0
        self._variables = self.variables if mode == "checked" else []
        self._objects = (Object * max(1, len(self._variables)))(
            *[(one.offset, one.bytes, OBJECT_KINDS.index(one.kind)) for one in self._variables]
        )

    def _address(self, name):
        """The address of a function that not every kernel's library has, or None."""
        function = getattr(self._library, name, None)
        return None if function is None else ctypes.cast(function, ctypes.c_void_p).value

    def launch(self, grid, block, arguments, shared_bytes=0):
        """Run the kernel; tensors are changed in location.

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
        memory = Memory(self.parameters, arguments, ())
        result, printed = self._run(grid, block, arguments, shared_bytes, memory, checked=False)
        _show(printed)
        if STOPS[result["stop"]] != "none":
            findings = self._findings(result, memory)
            message = findings[0].message if findings else f"{self.name} stopped: {STOPS[result['stop']]}."
            raise KernelFault(f"{self.name}: {message}", findings)

    def profile(
        self, grid, block, arguments, shared_bytes=0, *, schedule="forward", seed=0, step_limit=None, outputs=(),
        timeline=False,
    ):  # fmt: skip
        """Run the kernel with every access checked and counted.

        Parameters
        ----------
        grid, block, arguments, shared_bytes : as for launch
        schedule : str, "forward", "reverse", "random" or "resident"
        seed : int, for random and resident
        step_limit : int or None; basic blocks of one thread before its loop counts as endless (default 10 million)
        outputs : tensors among the arguments that count as uninitialised
        timeline : bool, record report.timeline

        Returns
        -------
        report : Report
        """
        if schedule not in SCHEDULES:
            raise LaunchError(f"schedule is {schedule!r}; it must be one of {', '.join(SCHEDULES)}.")
        self._need("checked")
        options = {"schedule": SCHEDULES.index(schedule), "seed": seed, "step_limit": step_limit or STEP_LIMIT}
        options |= {"checked": True, "timeline": timeline}
        with _lock:
            memory = Memory(self.parameters, arguments, outputs)
            before = memory.copy()
            result, printed = self._run(grid, block, arguments, shared_bytes, memory, **options)
            # __device__ variables keep their values between launches: a repeated launch would start from others.
            repeatable = not any(one.kind == "device" for one in self.variables)
            if STOPS[result["stop"]] == "none" and repeatable:

                def run_again():
                    return self._run(grid, block, arguments, shared_bytes, memory, **options)

                drop_discarded(result, printed, memory, before, run_again, self._set_inactive_byte)
        _show(printed)
        return self._report(result, memory, schedule, printed)

    def _report(self, result, memory, schedule, printed):
        """The Report of a checked launch."""
        report = Report(kernel=self.name, schedule=schedule, exact=result["exact"], printed=printed)
        findings = self._findings(result, memory)
        report.findings = [one for one in findings if one.kind != "remark"]
        report.remarks = [one.message for one in findings if one.kind == "remark"]
        report.timeline = [self._event(row) for row in result["timeline"]]
        self._count(report, result["counters"])
        report.largest_share = dict(zip(TRAFFIC, result["shares"], strict=True))
        report.mma = dict(zip(MMA_TYPES, result["mma"], strict=True))
        return report

    def _set_inactive_byte(self, byte):
        load_runtime().simt_set_inactive_byte(byte)

    def _need(self, mode):
        if self.mode != mode:
            raise LaunchError(f"This module was built {self.mode}; build it with mode={mode!r} for that.")

    def _findings(self, result, memory):
        """The findings of a launch; the one that ended it comes last."""
        reader = Reader(self._lines, self.variables, memory.shown, result, self.source)
        reader.resolve()
        findings = reader.findings(result["findings"])
        return findings + [last for last in stop_findings(reader) if not _is_consequence(findings, last)]

    def _run(
        self, grid, block, arguments, shared_bytes, memory, *, checked, schedule=0, seed=0, step_limit=0, timeline=False
    ):
        """Launch once. Returns the runtime's result (a dict) and what the kernel printed."""
        self._check_shared(shared_bytes)
        buffers = value_buffers(self.parameters, arguments)  # the runtime reads them during the call
        task = Task(
            entry=self._entry,
            dynamic_base=self._dynamic,
            blocks_per_sm=self._blocks_per_sm,
            num_arguments=len(arguments),
            grid=_triple(grid),
            block=_triple(block),
            shared_bytes=shared_bytes,
            checked=checked,
            schedule=schedule,
            objects=self._objects,
            num_objects=len(self._variables),
            seed=seed & 0xFFFFFFFF,
            num_workers=1 if checked else _num_workers(),
            step_limit=step_limit,
            time_limit_s=float(os.environ.get("COURSE_TIME_LIMIT_S", TIME_LIMIT_S)),
            timeline=timeline,
            **memory.task_fields(buffers),
        )
        result, text = self._call(task, memory)
        result["shared_bytes"] = shared_bytes
        if STOPS[result["stop"]] == "interrupted":
            raise KeyboardInterrupt
        return result, text

    def _call(self, task, memory):
        """Hand a task to the runtime. Returns its result and the printed text."""
        with _lock:
            if _enter is None:
                failed, result, printed = _launched(task)
            else:
                kept = [(low, high - low) for low, high, _ in memory.extents]
                kept += apart.places(self._entry, self.variables)
                failed, result, printed = apart.run(functools.partial(_launched, task), _enter, kept)
        if failed:
            raise LaunchError(f"{self.name}: there is not enough memory for a copy of its tensors; use smaller ones.")
        return json.loads(result), printed.decode(errors="replace")

    def _check_shared(self, shared_bytes):
        if shared_bytes and self.static_shared + shared_bytes > BLOCK_SHARED_LIMIT:
            raise LaunchError(
                f"{self.name}: it declares {self.static_shared:,} bytes of shared memory and is launched with "
                f"{shared_bytes:,} more; a block may have {BLOCK_SHARED_LIMIT:,} together."
            )

    def _event(self, row):
        block, warp, kind, start, end, code, number = row
        line = self._lines.caller(code) or self._lines.line(code)  # of the author's text, not of kernels_cu/common
        barrier, parity = None, None
        if EVENTS[kind] == "mbarrier_wait":  # number: the barrier, and how many of its phases are complete
            barrier, parity = number >> 32, (number - 1) % 2
        thread, offset = None, None
        if EVENTS[kind] == "tma_load":  # number: that of the copy, the thread (12 bits), the offset (20 bits)
            thread, offset = number >> 20 & 0xFFF, number & 0xFFFFF
        return Event(block, warp, EVENTS[kind], start, end, line, barrier, parity, thread, offset)

    def _count(self, report, counters):
        """Add the counters of code addresses to the report's lines and totals."""
        for code, flags, *numbers in counters:
            location = self._lines.location(code)
            number = location[1] if location else None
            key = f"{location[0]}:{number}" if location and location[0] else number
            line = report.lines.setdefault(key, Line(number, location[0] if location else ""))
            for target in (line, report):
                _add_counters(target, flags, *numbers)


def _launched(task):
    """The runtime's status, its result and the printed text, both as bytes."""
    result, printed = ctypes.c_char_p(), ctypes.c_char_p()
    failed = load_runtime().simt_launch(ctypes.byref(task), ctypes.byref(result), ctypes.byref(printed))
    return failed, result.value or b"", printed.value or b""


def _add_counters(target, flags, requests, num_bytes, sectors, ideal_sectors, wavefronts, conflicts):
    """Add the counters of one instruction to a Line (or a Report)."""
    if flags & FLAG_ATOMIC:
        target.atomics += requests
        return
    space = "shared" if flags & FLAG_SHARED else "global"
    traffic = getattr(target, f"{space}_{'store' if flags & FLAG_WRITE else 'load'}")
    traffic.requests += requests
    traffic.bytes += num_bytes
    if space == "shared":
        traffic.wavefronts += wavefronts
        traffic.conflicts += conflicts
    else:
        traffic.sectors += sectors
        traffic.ideal_sectors += ideal_sectors


def _is_consequence(findings, finding):
    """True when another finding explains this one and says more."""
    if finding.kind == "deadlock":
        return any(one.kind in ("deadlock", "bad_shuffle", "bad_registers") for one in findings)
    # a vector instruction of the host may crash on a misaligned address, which has its own finding
    return any(one.kind in (finding.kind, "misaligned") and one.line == finding.line for one in findings)


def _show(printed):
    if printed:
        print(printed, end="")


def _num_workers():
    """Number of worker threads of a fast launch: the cores that this process may use."""
    chosen = os.environ.get("COURSE_SIMT_WORKERS")
    return int(chosen) if chosen else min(16, len(os.sched_getaffinity(0)))

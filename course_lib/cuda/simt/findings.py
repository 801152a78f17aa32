"""The runtime's findings as sentences: code addresses become lines, memory addresses become elements of tensors.

May import: simt.lines, simt.report, simt.async_findings, simt.indices, simt.race_findings,
simt.wgmma_findings.
"""

from .async_findings import AsyncSentences
from .indices import index_text
from .race_findings import RaceSentences
from .report import KINDS, Finding
from .wgmma_findings import WgmmaSentences

DYNAMIC_BYTES = 240 * 1024  # of the buffer in build.py, _dynamic_shared_object
SPACES = (None, "shared", "global")  # the order is that of Space in runtime/findings.h


def _triple_text(index):
    return f"({index[0]},{index[1]},{index[2]})"


def _thread_text(thread, block):
    return f"thread {_triple_text(thread)} of block {_triple_text(block)}"


class Reader(RaceSentences, AsyncSentences, WgmmaSentences):
    """Turns raw findings into Finding objects.

    Parameters
    ----------
    lines : LineTable
    variables : list of lines.Variable, of the kernel's library
    shown : list of (name, piece, host address, bytes, itemsize), the tensors
    result : dict, of the runtime
    source : (str, int), the author's text and the number of its first line
    """

    def __init__(self, lines, variables, shown, result, source):
        self.lines, self.variables, self.result, self.source = lines, variables, result, source
        lows = {}
        for _, piece, low, _, _ in shown:
            lows[piece] = min(lows.get(piece, low), low)
        # (name, address as the kernel saw it, bytes, itemsize)
        self.tensors = [
            (name, result["tensors"][piece] + low - lows[piece], size, itemsize)
            for name, piece, low, size, itemsize in shown
        ]

    def resolve(self):
        """Look up all code addresses of the result in one call of addr2line."""
        codes = [row[0] for row in self.result["counters"]] + [self.result["stop_code"]]
        codes += [row[5] for row in self.result["timeline"]]
        for raw in self.result["findings"]:
            codes += [raw["code"], raw["other_code"]]
        self.lines.resolve(codes)

    def findings(self, raws):
        """Return a list of Finding; those of equal kind, lines, space and call lines are merged into one."""
        merged = {}
        for raw in raws:
            finding = self.finding(raw)
            if finding is None:
                continue
            calls = finding.call_line, finding.other_call_line
            key = (finding.kind, finding.line, finding.other_line, finding.space, *calls)
            if key in merged:
                merged[key] = _more(merged[key], finding.count)
            else:
                merged[key] = finding
        return list(merged.values())

    def finding(self, raw):
        """Return one Finding, or None when it is a duplicate made by the compiler."""
        kind, space = KINDS[raw["kind"]], SPACES[raw["space"]]
        location, other = self.lines.location(raw["code"]), self.lines.location(raw["other_code"])
        call, other_call = self.lines.caller(raw["code"]), self.lines.caller(raw["other_code"])
        if raw["detail"] == "unequal|line" and (location, call) == (other, other_call):
            return None  # one call of the source that the compiler duplicated
        if raw["detail"].startswith("index|") and index_text(raw, *self.source) is None:
            return None
        message = getattr(self, "_" + kind)(raw, space, _where(other, other_call))
        return Finding(
            kind,
            location[1] if location else None,
            f"{_where(location, call)}: {message}",
            other[1] if other else None,
            space,
            raw["count"],
            tuple(raw["thread"]),
            tuple(raw["block"]),
            location[0] if location else "",
            other[0] if other else "",
            call,
            other_call,
        )

    def _const_write(self, raw, space, other):
        name = self.object(raw)
        return (
            f"{self.actor(raw)} writes {name}, but {name.partition('[')[0]} is a const parameter, an input; write "
            f"to an output instead."
        )

    def _out_of_bounds(self, raw, space, other):
        if raw["detail"].startswith("index|"):
            return f"{_thread_text(raw['thread'], raw['block'])} {index_text(raw, *self.source)}."
        verb = "writes" if raw["is_write"] else "reads"
        return f"{_thread_text(raw['thread'], raw['block'])} {verb} {raw['bytes']} bytes at {self.outside(raw)}."

    def _misaligned(self, raw, space, other):
        verb = "writes" if raw["is_write"] else "reads"
        return (
            f"thread {_triple_text(raw['thread'])} {verb} {raw['bytes']} bytes at {self.object(raw)}, an address that "
            f"is not a multiple of {raw['bytes']}."
        )

    def _uninitialised_read(self, raw, space, other):
        actor = self.actor(raw) if raw["issues_async"] else _thread_text(raw["thread"], raw["block"])
        return f"{actor} reads {self.object(raw)}, which has not been written."

    def _divergent_barrier(self, raw, space, other):
        if raw["other_code"]:
            return (
                f"thread {_triple_text(raw['thread'])} waits here, thread {_triple_text(raw['other_thread'])} at "
                f"{self._barrier_at(raw, other)}; all threads of a block must meet at the same barrier."
            )
        returned, waiting = raw["detail"].split()
        return (
            f"{returned} threads of block {_triple_text(raw['block'])} returned, {waiting} wait at this barrier; every "
            f"thread of the block must reach it."
        )

    def _barrier_at(self, raw, other):
        """Return `the barrier of line 7`, or `another barrier of line 7`: two in the branches of an `if`."""
        same = self.lines.location(raw["code"]) == self.lines.location(raw["other_code"])
        same = same and self.lines.caller(raw["code"]) == self.lines.caller(raw["other_code"])
        return f"another barrier of {other}" if same else f"the barrier of {other}"

    def _deadlock(self, raw, space, other):
        if raw["detail"].startswith("wgmma|"):
            return self.wgmma_deadlock(raw, other)
        sentence = self.async_deadlock(raw)
        if sentence:
            return sentence
        if "|" in raw["detail"]:
            return self._bad_shuffle(raw, space, other)
        return f"{_thread_text(raw['thread'], raw['block'])} waits forever."

    def _bad_shuffle(self, raw, space, other):
        parts = raw["detail"].split("|")
        if parts[0] == "inactive":
            return f"lane {parts[1]} takes its value from lane {parts[2]}, which {parts[3]}."
        if parts[0] == "not_named":
            return f"lane {parts[1]} calls it with a mask that names only lanes {parts[2]}, not itself."
        name, arrived, missing, warp, other_name = parts
        return (
            f"lanes {arrived} of warp {warp} wait in {name} whose mask names lanes {missing}, and those wait at "
            f"{other} ({other_name})."
        )

    def object(self, raw):
        """Name the accessed element: `x[7]`, `s[6]`."""
        address, size = raw["address"], raw["bytes"]
        for name, low, span, itemsize in self.tensors:
            if low <= address < low + span:
                return f"{name}[{(address - low) // itemsize}]"
        variable = self._variable(address)
        if variable:
            name, offset, whole = variable
            if raw["issues_async"]:  # the size of an element is not known
                return f"{size} bytes of {name} from byte {offset:,} on"
            if offset == 0 and whole == size:
                return name
            return f"{name}[{offset // size}]" if offset % size == 0 else f"{name} + {offset} bytes"
        return "memory"

    def _variable(self, address, slack=0):
        """(name, offset in bytes, its bytes) of the shared or __device__ variable within `slack` of an address."""
        shared, dynamic = self.result["shared"]
        if dynamic and dynamic <= address < dynamic + DYNAMIC_BYTES:
            return "dynamic shared memory", address - dynamic, 0
        lows = [(one, one.offset + (shared if one.kind == "shared" else self.result["base"])) for one in self.variables]
        near = [(one, low) for one, low in lows if low - slack <= address < low + one.bytes + slack]
        if not near:
            return None
        one, low = min(near, key=lambda pair: max(pair[1] - address, address - pair[1] - pair[0].bytes + 1, 0))
        return one.name, address - low, one.bytes

    def outside(self, raw):
        """Describe an address outside every tensor by the nearest tensor or variable."""
        address = raw["address"]
        variable = self._variable(address, slack=256)
        if variable and SPACES[raw["space"]]:
            name, offset, size = variable
            if not size:
                given = self.result["shared_bytes"]
                return f"byte {offset} of the dynamic shared memory, which has {given} bytes (shared_bytes)"
            return f"{name}[{offset // raw['bytes']}], but {name} has {size // raw['bytes']} elements"
        near = min(
            self.tensors, default=None, key=lambda one: min(abs(address - one[1]), abs(address - one[1] - one[2]))
        )
        if near is None or min(abs(address - near[1]), abs(address - near[1] - near[2])) > 1 << 20:
            return f"address {address:#x}, which belongs to no tensor"
        name, low, span, itemsize = near
        return f"{name}[{(address - low) // itemsize}], but {name} has {span // itemsize} elements"


def _where(location, call=None):
    """Return `line 7`, `common/softmax_state.cuh, line 7`, `line 25 (in common/block_reduce.cuh, line 16)`."""
    if not location:
        return "an unknown line"
    text = f"{location[0]}, line {location[1]}" if location[0] else f"line {location[1]}"
    return f"line {call} (in {text})" if call else text


def _more(finding, count):
    return Finding(**{**vars(finding), "count": finding.count + count})


def stop_findings(reader):
    """Return the finding that ended a launch (crash, limit, assertion), as a list of one or none."""
    result, lines = reader.result, reader.lines
    stop, detail = result["stop"], result["stop_detail"]
    location, call = lines.location(result["stop_code"]), lines.caller(result["stop_code"])
    thread = _thread_text(result["stop_thread"], result["stop_block"])
    texts = {
        2: ("step_limit", f"{thread} is still in a loop here after the step limit."),
        3: ("step_limit", f"{thread} was still running here when the time limit was reached."),
        5: ("deadlock", "every thread that has not returned waits for another one that never arrives."),
        6: ("trap", f"{thread} failed the assertion `{detail}`." if detail else f"{thread} called __trap()."),
        7: ("trap", "there is no memory left for the threads' stacks."),
    }
    if stop == 1:
        kind, text = _crash(reader, thread)
    elif detail.startswith("poll|"):
        kind, text = "step_limit", _poll(reader, thread)
    elif stop in texts:
        kind, text = texts[stop]
    else:
        return []
    return [
        Finding(
            kind,
            location[1] if location else None,
            f"{_where(location, call)}: {text}",
            file=location[0] if location else "",
            call_line=call,
            thread=tuple(result["stop_thread"]),
            block=tuple(result["stop_block"]),
        )
    ]


def _poll(reader, thread):
    """The sentence for a loop that only reads one address, plainly."""
    name = reader.object({"address": reader.result["stop_address"], "bytes": 4})
    waiting, blocks = map(int, reader.result["stop_detail"].split("|")[1:])
    others = f", and {waiting} of the {blocks} blocks have not started: none does before this loop ends"
    return (
        f"{thread} reads {name} here again and again and does nothing else{others if waiting else ''}. To wait for "
        f"another thread read a volatile variable or use an atomic, then __threadfence(): of plain reads and of __ldcg "
        f"the compiler may leave one, or none."
    )


def _crash(reader, thread):
    """Return (kind, sentence) for a signal of the host, by the detail that runtime/faults.cpp gives."""
    detail = reader.result["stop_detail"]
    if detail == "stack":
        return (
            "stack_overflow",
            f"{thread} ran out of its 64 KB of stack: endless recursion, or local arrays too large.",
        )
    if detail == "division":
        return "trap", f"{thread} divides an integer by zero (or the smallest one by -1)."
    if detail == "alignment":
        rule = "a float4 must lie at a multiple of 16 bytes, a float2 at a multiple of 8"
        return "misaligned", f"{thread} touches an address of a wrong alignment ({rule}), or one far beyond all memory."
    if detail == "instruction":
        return "trap", f"{thread} reached an instruction that does not exist (code that cannot be reached?)."
    if detail == "abort":
        return "out_of_bounds", f"{thread} was stopped by the C library: did it write past a local array?"
    raw = {"address": reader.result["stop_address"], "space": 0}
    return "out_of_bounds", f"{thread} touches {reader.outside(raw)}."

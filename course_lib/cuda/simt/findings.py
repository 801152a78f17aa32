"""The runtime's findings, which speak of addresses, as sentences that speak of lines, threads and tensors.

May import: simt.lines, simt.report.
"""

from .report import KINDS, Finding

DYNAMIC_BYTES = 240 * 1024  # book.py, _dynamic_shared_object
SPACES = (None, "shared", "global")  # the order is that of Space in runtime/findings.h


def _triple_text(index):
    return f"({index[0]},{index[1]},{index[2]})"


class Reader:
    """Turns raw findings into Finding objects.

    Parameters
    ----------
    lines : LineTable
    variables : list of lines.Variable, of the kernel's library
    shown : list of (name, piece, host address, bytes, itemsize), the tensors
    answer : dict, the runtime's answer
    """

    def __init__(self, lines, variables, shown, answer):
        self.lines, self.variables, self.answer = lines, variables, answer
        lows = {}
        for _, piece, low, _, _ in shown:
            lows[piece] = min(lows.get(piece, low), low)
        # (name, address as the kernel saw it, bytes, itemsize)
        self.tensors = [
            (name, answer["tensors"][piece] + low - lows[piece], size, itemsize)
            for name, piece, low, size, itemsize in shown
        ]

    def resolve(self, answer):
        """Looks up all code addresses of an answer at once."""
        codes = [row[0] for row in answer["counters"]] + [answer["stop_code"]]
        for raw in answer["findings"]:
            codes += [raw["code"], raw["other_code"]]
        self.lines.resolve(codes)

    def findings(self, raws):
        """Without repeats of (kind, line, other_line, space), and of where these lines were called."""
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
        """One Finding, or None when it turns out to be none."""
        kind, space = KINDS[raw["kind"]], SPACES[raw["space"]]
        place, other = self.lines.place(raw["code"]), self.lines.place(raw["other_code"])
        call, other_call = self.lines.caller(raw["code"]), self.lines.caller(raw["other_code"])
        if kind == "divergent_barrier" and raw["other_code"] and (place, call) == (other, other_call):
            return None  # one barrier of the source that the compiler wrote twice
        message = getattr(self, "_" + kind)(raw, space, _where(other, other_call))
        return Finding(
            kind,
            place[1] if place else None,
            f"{_where(place, call)}: {message}",
            other[1] if other else None,
            space,
            raw["count"],
            tuple(raw["thread"]),
            tuple(raw["block"]),
            place[0] if place else "",
            other[0] if other else "",
            call,
            other_call,
        )

    def _race(self, raw, space, other):
        same_block = raw["block"] == raw["other_block"]
        does = "writes" if raw["is_write"] else "reads"
        did = "wrote" if raw["other_is_write"] else "read"
        who = f"thread {_triple_text(raw['thread'])}"
        whom = f"thread {_triple_text(raw['other_thread'])}"
        if not same_block:
            who += f" of block {_triple_text(raw['block'])}"
            whom += f" of block {_triple_text(raw['other_block'])}"
        missing = "with no barrier between" if same_block else "with nothing that orders the two blocks"
        if raw["detail"] == "under way":
            return (
                f"{who} {does} {self.object(raw)} while the asynchronous copy that {whom} started at {other} is under "
                f"way; it must have been waited for (a race on shared memory)."
            )
        if raw["detail"] == "landed":
            did = "wrote by the asynchronous copy it waited for at"
            return f"{who} {does} {self.object(raw)}, which {whom} {did} {other}, {missing} (a race on shared memory)."
        return f"{who} {does} {self.object(raw)}, which {whom} {did} at {other} {missing} (a race on {space} memory)."

    def _out_of_bounds(self, raw, space, other):
        does = "writes" if raw["is_write"] else "reads"
        who = f"thread {_triple_text(raw['thread'])} of block {_triple_text(raw['block'])}"
        return f"{who} {does} {raw['bytes']} bytes at {self.outside(raw)}."

    def _misaligned(self, raw, space, other):
        does = "writes" if raw["is_write"] else "reads"
        return (
            f"thread {_triple_text(raw['thread'])} {does} {raw['bytes']} bytes at {self.object(raw)}, an address that "
            f"is not a multiple of {raw['bytes']}."
        )

    def _uninitialised_read(self, raw, space, other):
        return (
            f"thread {_triple_text(raw['thread'])} of block {_triple_text(raw['block'])} reads {self.object(raw)}, "
            f"which nobody has written."
        )

    def _divergent_barrier(self, raw, space, other):
        if raw["other_code"]:
            return (
                f"thread {_triple_text(raw['thread'])} waits here, thread {_triple_text(raw['other_thread'])} at the "
                f"barrier of {other}; all threads of a block must meet at the same barrier."
            )
        returned, waiting = raw["detail"].split()
        return (
            f"{returned} threads of block {_triple_text(raw['block'])} returned, {waiting} wait at this barrier; every "
            f"thread of the block must reach it."
        )

    def _deadlock(self, raw, space, other):
        if "|" in raw["detail"]:
            return self._bad_shuffle(raw, space, other)
        return f"thread {_triple_text(raw['thread'])} of block {_triple_text(raw['block'])} waits for ever."

    def _bad_shuffle(self, raw, space, other):
        parts = raw["detail"].split("|")
        if parts[0] == "absent":
            return f"lane {parts[1]} takes its value from lane {parts[2]}, which {parts[3]}."
        if parts[0] == "not_named":
            return f"lane {parts[1]} calls it with a mask that names only lanes {parts[2]}, not itself."
        name, here, missing, warp, there = parts
        return (
            f"lanes {here} of warp {warp} wait in {name} whose mask names lanes {missing}, and those wait at "
            f"{other} ({there})."
        )

    def object(self, raw):
        """`x[7]`, `s[6]`: what stands at the address, counted in elements."""
        address, size = raw["address"], raw["bytes"]
        for name, low, span, itemsize in self.tensors:
            if low <= address < low + span:
                return f"{name}[{(address - low) // itemsize}]"
        found = self._variable(address)
        if found:
            name, offset, whole = found
            if offset == 0 and whole == size:
                return name
            return f"{name}[{offset // size}]" if offset % size == 0 else f"{name} + {offset} bytes"
        return "memory"

    def _variable(self, address, slack=0):
        """(name, offset in bytes, its bytes) of the shared or __device__ variable within `slack` of an address."""
        shared, dynamic = self.answer["shared"]
        if dynamic and dynamic <= address < dynamic + DYNAMIC_BYTES:
            return "dynamic shared memory", address - dynamic, 0
        lows = [(one, one.offset + (shared if one.kind == "shared" else self.answer["base"])) for one in self.variables]
        near = [(one, low) for one, low in lows if low - slack <= address < low + one.bytes + slack]
        if not near:
            return None
        one, low = min(near, key=lambda pair: max(pair[1] - address, address - pair[1] - pair[0].bytes + 1, 0))
        return one.name, address - low, one.bytes

    def outside(self, raw):
        """Where an access beyond every tensor lies, told from the nearest tensor."""
        address = raw["address"]
        variable = self._variable(address, slack=256)
        if variable and SPACES[raw["space"]]:
            name, offset, size = variable
            if not size:
                given = self.answer["shared_bytes"]
                return f"byte {offset} of the dynamic shared memory, which has {given} bytes (shared_bytes)"
            return f"{name}[{offset // raw['bytes']}], but {name} has {size // raw['bytes']} elements"
        near = min(
            self.tensors, default=None, key=lambda one: min(abs(address - one[1]), abs(address - one[1] - one[2]))
        )
        if near is None or min(abs(address - near[1]), abs(address - near[1] - near[2])) > 1 << 20:
            return f"address {address:#x}, which belongs to no tensor"
        name, low, span, itemsize = near
        return f"{name}[{(address - low) // itemsize}], but {name} has {span // itemsize} elements"


def _where(place, call=None):
    """`line 7`, `common/softmax_state.cuh, line 7`, `line 25 (in common/block_reduce.cuh, line 16)`."""
    if not place:
        return "an unknown line"
    there = f"{place[0]}, line {place[1]}" if place[0] else f"line {place[1]}"
    return f"line {call} (in {there})" if call else there


def _more(finding, count):
    return Finding(**{**vars(finding), "count": finding.count + count})


def stop_findings(answer, reader):
    """The findings that ended a launch: crash, limit, assertion."""
    stop, detail = answer["stop"], answer["stop_detail"]
    place, call = reader.lines.place(answer["stop_code"]), reader.lines.caller(answer["stop_code"])
    who = f"thread {_triple_text(answer['stop_thread'])} of block {_triple_text(answer['stop_block'])}"
    texts = {
        2: ("step_limit", f"{who} is still in a loop here after the step limit."),
        3: ("step_limit", f"{who} was still running here when the time limit was reached."),
        5: ("deadlock", "every thread that is left waits for one that will not come."),
        6: ("trap", f"{who} failed the assertion `{detail}`." if detail else f"{who} called __trap()."),
        7: ("trap", "there is no memory left for the threads' stacks."),
    }
    if stop == 1:
        kind, text = _crash(answer, reader, who)
    elif stop in texts:
        kind, text = texts[stop]
    else:
        return []
    return [
        Finding(
            kind,
            place[1] if place else None,
            f"{_where(place, call)}: {text}",
            file=place[0] if place else "",
            call_line=call,
            thread=tuple(answer["stop_thread"]),
            block=tuple(answer["stop_block"]),
        )
    ]


def _crash(answer, reader, who):
    if answer["stop_detail"] == "stack":
        return "stack_overflow", f"{who} ran out of its 64 KB of stack: endless recursion, or local arrays too large."
    if answer["stop_detail"] == "division":
        return "trap", f"{who} divides an integer by zero (or the smallest one by -1)."
    if answer["stop_detail"] == "alignment":
        what = "a float4 must lie at a multiple of 16 bytes, a float2 at a multiple of 8"
        return "misaligned", f"{who} touches an address of a wrong alignment ({what}), or one far beyond all memory."
    if answer["stop_detail"] == "instruction":
        return "trap", f"{who} reached an instruction that does not exist (code that cannot be reached?)."
    raw = {"address": answer["stop_address"], "space": 0}
    return "out_of_bounds", f"{who} touches {reader.outside(raw)}."

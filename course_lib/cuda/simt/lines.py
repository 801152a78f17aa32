"""Source lines of code addresses, and the variables of a kernel library, read from its debug information and symbols.

May import: nothing of the course.
"""

import re
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path


class LineTable:
    """Source lines of one kernel library.

    Parameters
    ----------
    path : Path of the library
    author : str, the name under which the author's text was compiled
    """

    def __init__(self, path, author):
        self.path, self.author = path, author
        self._known = {0: (None, None)}  # code address -> (location, caller)

    def resolve(self, codes):
        """Look up many code addresses with one call of addr2line; `location`, `caller` and `line` use the result."""
        missing = sorted(set(codes) - self._known.keys())
        if not missing:
            return
        tool = shutil.which("addr2line") or shutil.which("llvm-addr2line") or shutil.which("llvm-symbolizer")
        if not tool:
            return
        text = subprocess.run(
            [tool, "-a", "-i", "-e", str(self.path), *map(hex, missing)],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        ).stdout
        for entry in re.split(r"^(?=0x)", text, flags=re.MULTILINE):
            rows = entry.split("\n")
            if rows[0].startswith("0x"):
                self._known[int(rows[0], 16)] = self._read(rows[1:])

    def location(self, code):
        """(file, line) of a code address, or None; file is "" for the author's own."""
        return self._look(code)[0]

    def caller(self, code):
        """The author's line from which code of kernels_cu/common was called; None for the author's own code."""
        return self._look(code)[1]

    def line(self, code):
        """The line in the author's own file; for code of kernels_cu/common, that file's line; None when unknown."""
        location = self.location(code)
        return location[1] if location else None

    def _look(self, code):
        if code not in self._known:
            self.resolve([code])
        return self._known.get(code, (None, None))

    def _read(self, rows):
        """Return (location, caller) of an address from addr2line's rows.

        `location` is the innermost frame of the author's file or of kernels_cu/common, `caller` the line from which the
        latter was called. Frames come innermost first; only inlined functions have more than one.
        """
        location = None
        for row in rows:
            frame = re.match(r"(.*):(\d+)", row)
            if not frame or frame[2] == "0":
                continue
            if frame[1] == self.author:
                return (location, int(frame[2])) if location else (("", int(frame[2])), None)
            if location is None and "/kernels_cu/" in frame[1]:
                location = frame[1].rpartition("/kernels_cu/")[2], int(frame[2])
        return location, None


@dataclass(frozen=True)
class Variable:
    """A variable of a kernel's library. offset: in the thread-local segment for "shared", else in the library."""

    name: str
    kind: str  # "shared", "device" or "constant"
    offset: int
    bytes: int
    owner: str = ""  # the function in which it is declared


def variables(path):
    """Return the shared, __device__ and __constant__ variables of a library, read from its ELF symbol table.

    Source of the layout: System V ABI, "Symbol Table" and "Sections"; 64-bit, little endian.
    """
    data = Path(path).read_bytes()
    table, entry_bytes, count, names_section = _header(data)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * entry_bytes) for i in range(count)]
    names = [_text(data, sections[names_section][4] + section[0]) for section in sections]
    result = []
    for section in sections:
        if section[1] != 2:  # SHT_SYMTAB
            continue
        strings = sections[section[6]][4]
        for offset in range(section[4], section[4] + section[5], 24):
            name, info, _, where, value, size = struct.unpack_from("<IBBHQQ", data, offset)
            if size == 0 or info & 15 not in (1, 6) or where >= count:  # STT_OBJECT, STT_TLS
                continue
            writable = sections[where][2] & 1
            kind = "shared" if info & 15 == 6 else "constant" if names[where].startswith(".simt_constant") else "device"
            text = _text(data, strings + name)
            if (writable or kind != "device") and not text.startswith("DW.ref."):  # the C++ runtime's own
                result.append(Variable(_plain_name(text), kind, value, size, _owner(text)))
    return result


def static_shared_bytes(variables, name, others):
    """Return the bytes of shared memory that kernel `name` declares; arrays inside one of the `others` do not count."""
    own = [one for one in variables if one.kind == "shared" and one.name != "simt_dynamic_buffer"]
    return sum(one.bytes for one in own if one.owner == name or one.owner not in others)


def _header(data):
    """Return offset of the section table, bytes of an entry, number of entries, index of the names."""
    (table,) = struct.unpack_from("<Q", data, 40)
    return table, *struct.unpack_from("<HHH", data, 58)


def _text(data, offset):
    return data[offset : data.index(b"\0", offset)].decode(errors="replace")


def _owner(symbol):
    """Return `kernel` of `_ZZ6kernelPfE1s`, "" when the symbol is in no function."""
    match = re.match(r"_ZZN?(\d+)(\w+)$", symbol)
    return match[2][: int(match[1])] if match else ""


def _plain_name(symbol):
    """Return `s` of `_ZZ6kernelPfE1s`; C names stay as they are."""
    for pattern in (r"_ZZ.*E(\d+)(\w+)$", r"_ZL?(\d+)(\w+)$"):
        match = re.match(pattern, symbol)
        if match:
            return match[2][: int(match[1])]
    return symbol

"""Code addresses to the author's lines, and names of what stands in a library, read from its debug information.

May import: nothing of the course.
"""

import functools
import re
import shutil
import subprocess


class LineTable:
    """Source lines of one kernel library.

    Parameters
    ----------
    path : Path of the library
    author : str, the name under which the author's text was compiled
    """

    def __init__(self, path, author):
        self.path, self.author = path, author
        self._known = {0: None}

    def resolve(self, codes):
        """Looks up many code addresses in one go; `line` then answers from memory."""
        missing = sorted(set(codes) - self._known.keys())
        tool = shutil.which("addr2line") or shutil.which("llvm-addr2line") or shutil.which("llvm-symbolizer")
        if not missing or not tool:
            return
        text = subprocess.run([tool, "-a", "-i", "-e", str(self.path), *map(hex, missing)], capture_output=True, text=True,
                              check=False).stdout
        for entry in re.split(r"^(?=0x)", text, flags=re.MULTILINE):
            rows = entry.split("\n")
            if rows[0].startswith("0x"):
                self._known[int(rows[0], 16)] = self._innermost(rows[1:])

    def place(self, code):
        """(file, line) of a code address, or None; file is "" for the author's own."""
        if code not in self._known:
            self.resolve([code])
        return self._known.get(code)

    def line(self, code):
        """The line in the author's own file; for code of kernels_cu/common, the line there; None when unknown."""
        place = self.place(code)
        return place[1] if place else None

    def _innermost(self, rows):
        """The innermost frame that is the author's or of kernels_cu/common; frames come innermost first."""
        for row in rows:
            found = re.match(r"(.*):(\d+)", row)
            if not found or found[2] == "0":
                continue
            if found[1] == self.author:
                return "", int(found[2])
            if "/kernels_cu/" in found[1]:
                return found[1].rpartition("/kernels_cu/")[2], int(found[2])
        return None


@functools.lru_cache(maxsize=64)
def symbols(path):
    """Variables of a library: a list of (name, section kind, offset, bytes), kind "shared" or "device"."""
    tool = shutil.which("nm")
    if not tool:
        return []
    text = subprocess.run([tool, "-S", str(path)], capture_output=True, text=True, check=False).stdout
    rows = []
    for row in text.splitlines():
        parts = row.split()
        if len(parts) == 4 and parts[2] in "bBdDuVv":
            rows.append((_plain_name(parts[3]), int(parts[0], 16), int(parts[1], 16)))
    return rows


def _plain_name(symbol):
    """`s` of `_ZZ6kernelPfE1s`; C names stay as they are."""
    found = re.match(r"_ZZ.*E(\d+)(\w+)$", symbol)
    if found:
        return found[2][: int(found[1])]
    found = re.match(r"_ZL?(\d+)(\w+)$", symbol)
    return found[2][: int(found[1])] if found else symbol

"""What has been graded, one line of JSON a verdict, beside the output: a run that was stopped goes on from there.

May import: errors, grading.report.states.
"""

import json
import os

from ...errors import CourseError
from ...grading.report.states import NOT_VERIFIED_HERE


class Journal:
    """A file of lines {"key": …, "verdict": …}; `verdicts` has them by key. One run at a time."""

    def __init__(self, path):
        self.path = path
        try:
            self._file = open(path, "a+b")
        except OSError as error:
            raise CourseError(f"{path} cannot be written: {error.strerror}") from None
        _lock(self._file, path)
        self._file.seek(0)
        text = self._file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self.verdicts = dict(_entry(line) for line in whole.splitlines() if _entry(line))
        self._file.truncate(len(whole))  # a line that a crash left half written

    def add(self, key, verdict):
        """Keep a verdict; it is on the disk when this returns, unless this machine could not verify the answer."""
        line = json.dumps({"key": key, "verdict": verdict}, sort_keys=True)
        self.verdicts[key] = _entry(line)[1]
        if verdict["verdict"] == NOT_VERIFIED_HERE:
            return  # what the machine lacks may be there next time
        self._file.write(line.encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self):
        self._file.close()


def _entry(line):
    """(key, verdict) of a line, or None for one that is damaged."""
    try:
        plain = json.loads(line)
        return (str(plain["key"]), plain["verdict"]) if isinstance(plain["verdict"], dict) else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _lock(file, path):
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise CourseError(f"another run writes {path} now; wait for it, or give another --out") from None
    except (ImportError, OSError):
        pass  # a file system without locks

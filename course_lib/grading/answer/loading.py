"""Turns an answer's text into a module, keeping the learner's own line numbers.

A text that gather.py took from several cells holds marks, `# %% line 5 of In [3]`: what follows a mark is
numbered as in that cell, so that tracebacks, Triton findings and faulthandler all name the line that the learner sees.

May import: nothing of the course.
"""

import linecache
import re
import sys
import traceback
import types

MODULE = "answer"
_PREFIX = "<answer: "
_MARK = re.compile(r"^# %% line (\d+) of (.*)$")


def mark(line, filename):
    """The mark that says: the next line is line `line` of `filename`."""
    return f"# %% line {line} of {filename}"


def is_learners_file(filename):
    """Whether a code object's file name is one that `load` gave."""
    return filename.startswith(_PREFIX)


def split(source, filename="answer", first_line=1):
    """The segments of a text. Returns [(text, filename, line number of its first line)]; one of them without marks."""
    segments = [([], filename, first_line)]
    for number, text in enumerate(source.splitlines(), first_line):
        found = _MARK.match(text)
        if found:
            segments.append(([], found[2], int(found[1])))
            continue
        if not segments[-1][0] and len(segments) == 1:
            segments[-1] = ([], filename, number)
        segments[-1][0].append(text)
    return [("\n".join(lines) + "\n", name, line) for lines, name, line in segments if any(map(str.strip, lines))]


def load(source, filename="answer", first_line=1):
    """Execute an answer's text in a module of its own. Returns the module; whatever the text raises comes through."""
    module = types.ModuleType(MODULE)
    sys.modules[MODULE] = module
    for text, name, line in split(source, filename, first_line):
        shown = f"{_PREFIX}{name}>"
        padded = "\n" * (line - 1) + text
        linecache.cache[shown] = (len(padded), None, padded.splitlines(True), shown)
        exec(compile(padded, shown, "exec", dont_inherit=True), module.__dict__)
    return module


def learners_line(error):
    """The innermost line of the learner's text through which an exception came, or None."""
    if isinstance(error, SyntaxError) and is_learners_file(error.filename or ""):
        return error.lineno
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if is_learners_file(frame.filename)]
    return lines[-1] if lines else None


def readable_trace(error):
    """The traceback from the learner's first frame on, with the file names as the learner knows them."""
    frames = traceback.extract_tb(error.__traceback__)
    first = next((index for index, frame in enumerate(frames) if is_learners_file(frame.filename)), len(frames))
    text = "".join(traceback.format_list(frames[first:])) + "".join(traceback.format_exception_only(error))
    return text.replace(_PREFIX, "<")[-4000:]

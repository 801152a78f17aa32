"""The cell magic ``%%cuda``: compiles the cell and binds its kernel to a Python name.

    %%cuda NAME [-D KEY=VALUE …] [--entry KERNEL]

compiles the cell and binds NAME to the Kernel. When the cell does not compile, the compiler's message is shown with
the cell's own line and NAME is bound to a ``NotCompiled`` that carries the text, so that ``check`` reports the compile
error and never judges a kernel of an earlier run. Under COURSE_STRICT=1 the error is raised instead.

May import: errors, loading, notation, cuda, IPython, and grading.client to start the judge early.
"""

import argparse
import keyword
import os
import re
import shlex
import sys
import traceback

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, magics_class

from .errors import CourseError
from .loading import no_collections
from .notation import number_or_text

BODY_LINE = 2  # the line %%cuda is line 1 of the cell
_TODO = re.compile(r"//\s*TODO \d\d\.\d+")


class NotCompiled:
    """A kernel whose cell did not compile: it holds the text; launching it raises the compiler's error.

    Attributes
    ----------
    source, filename, first_line, name, defines : as a Kernel has them; name is the requested entry, or None
    error : CourseError, the reason
    """

    def __init__(self, source, name, *, defines, filename, first_line, error):
        self.source, self.name, self.defines = source, name, defines
        self.filename, self.first_line, self.error = filename, first_line, error

    def __call__(self, *_, **__):
        raise self.error

    profile = as_compiled = __call__

    def __repr__(self):
        return f"<kernel of {self.filename} that did not compile: {self.error}>"


def _raise_usage(message):
    raise UsageError(f"%%cuda: {message}; expected: %%cuda NAME [-D KEY=VALUE …] [--entry KERNEL]")


def parse_line(line):
    """Parse the arguments of ``%%cuda``. Returns (name, defines, entry).

    Raises
    ------
    UsageError  no name, a name that is no Python identifier or a keyword, a define without a value
    """
    parser = argparse.ArgumentParser(prog="%%cuda", add_help=False)
    parser.error = _raise_usage
    parser.add_argument("name", nargs="?")
    parser.add_argument("-D", action="append", default=[], dest="defines", metavar="KEY=VALUE")
    parser.add_argument("--entry")
    options = parser.parse_args(shlex.split(line, comments=True))
    if not options.name or not options.name.isidentifier() or keyword.iskeyword(options.name):
        _raise_usage(f"{options.name!r} is not a name" if options.name else "the kernel needs a Python name")
    defines = {}
    for define in options.defines:
        key, equals, value = define.partition("=")
        if not equals or not key.isidentifier() or not value:
            _raise_usage(f"-D {define} has no value")
        defines[key] = number_or_text(value)
    return options.name, defines, options.entry


def excerpt(source, error, *, first_line=BODY_LINE, context=1):
    """Return the message of a compile error with the cell's lines around it, the erroneous one marked.

    Parameters
    ----------
    source : str, the cell without its magic line
    error : CourseError; ``.line`` counts in the cell, whose body starts at `first_line`
    """
    lines = source.splitlines()
    line = getattr(error, "line", None)
    text = [f"{type(error).__name__}: {error}"]
    index = None if line is None else line - first_line
    if index is not None and 0 <= index < len(lines):
        text.append("")
        column = _column(getattr(error, "log", ""), line)
        for shown in range(max(index - context, 0), min(index + context + 1, len(lines))):
            mark = "-->" if shown == index else "   "
            text.append(f"{mark} {shown + first_line:4d} | {lines[shown]}")
            if shown == index and column:
                text.append(" " * 9 + "| " + re.sub(r"[^\t]", " ", lines[shown][: column - 1]) + "^")
    return "\n".join(text)


def _column(log, line):
    """Return the column that the compiler's log names for `line`, or None."""
    match = re.search(rf":{line}:(\d+):", log)
    return int(match[1]) if match else None


@magics_class
class CudaMagics(Magics):
    """Registers ``%%cuda`` with IPython."""

    @cell_magic
    def cuda(self, line, cell):
        """%%cuda NAME [-D KEY=VALUE …] [--entry KERNEL]: compile this cell and bind its kernel to NAME."""
        from . import cuda

        name, defines, entry = parse_line(line)
        self.shell.user_ns.pop(name, None)  # also when compiling fails: no kernel of an earlier run keeps the name
        where = {"filename": f"In [{self.shell.execution_count}]", "first_line": BODY_LINE}
        try:
            kernel = cuda.compile(cell, entry, defines=defines, **where)
        except CourseError as error:
            kernel = NotCompiled(cell, entry, defines=defines, error=error, **where)
            if os.environ.get("COURSE_STRICT") == "1" and not _TODO.search(cell):
                self.shell.user_ns[name] = kernel
                raise
            print(excerpt(cell, error), file=sys.stderr)
        self.shell.user_ns[name] = kernel


def in_a_cell(error, shell):
    """Return what a cell shows of a CourseError: its sentence and the cell's own line, without course_lib's frames.

    Returns
    -------
    lines : list of str, as IPython's ``_render_traceback_`` wants them; COURSE_DEBUG=1 gives the whole traceback
    """
    if os.environ.get("COURSE_DEBUG") == "1":
        return traceback.format_exception(error)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if shell.compile.format_code_name(frame.filename)]
    where = [f"in {' '.join(shell.compile.format_code_name(f.filename))}, line {f.lineno}: {f.line}" for f in own]
    return [*where, f"{type(error).__name__}: {error}"]


def load_ipython_extension(shell):
    """Called by ``%load_ext course_lib``."""
    shell.register_magics(CudaMagics)
    CourseError._render_traceback_ = lambda error: in_a_cell(error, shell)
    shell.events.register("post_run_cell", _StartJudgeEarly(shell))
    with no_collections():
        import torch  # noqa: F401  every notebook needs it


class _StartJudgeEarly:
    """A post-run hook: starts the judge after the cell that imports ``check``. Lectures do not import it."""

    def __init__(self, shell):
        self.shell = shell

    def __call__(self, *_):
        if getattr(self.shell.user_ns.get("check"), "__module__", None) != "course_lib.grading.check":
            return
        from .grading.judge import client

        self.shell.events.unregister("post_run_cell", self)
        client.start_early()

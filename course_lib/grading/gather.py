"""Gathers a function's text with all that it uses: helpers, imports, simple constants, from as many cells as it takes.

Names are followed through the function's text (inspect and ast), transitively. A module becomes an import line, a
function from a notebook its source under a mark with its line numbers (loading.py), a simple constant its literal. What
cannot be taken along is named in one sentence.

May import: errors, loading.
"""

import ast
import builtins
import inspect
import math
import types

from ..errors import CourseError
from .loading import MODULE, mark

_OWN_MODULES = {"__main__", MODULE, "builtins"}


class _Gatherer:
    def __init__(self):
        self.imports, self.constants, self.functions = (
            {},
            {},
            {},
        )  # text pieces by name, in the order in which they were met

    def add_function(self, function, handed_over=None):
        python = getattr(function, "fn", function)
        name = python.__name__
        if name in self.functions:
            return
        self.functions[name] = None  # keeps its place, and ends recursion
        lines, first = _source(python)
        indent = len(lines[0]) - len(lines[0].lstrip())
        text = "".join(line[indent:] if line.strip() else line for line in lines).rstrip() + "\n"
        scope = _scope(python)
        for used in _names(text):
            if used in scope and used != name:
                self.add(used, scope[used], name)
        self.functions[name] = f"{mark(first, _cell_name(python))}\n{text}"

    def add(self, name, value, user):
        """Take along what `name` means in the function `user`."""
        if isinstance(value, types.ModuleType):
            self.imports[name] = f"import {value.__name__} as {name}" if value.__name__ != name else f"import {name}"
            return
        function = getattr(value, "fn", value)
        if isinstance(function, types.FunctionType | type) and function.__module__ in _OWN_MODULES:
            self._own(name, value, function)
            return
        home, own_name = (
            getattr(value, "__module__", None),
            getattr(value, "__qualname__", getattr(value, "__name__", None)),
        )
        if home and own_name and _same_in(home, own_name, value):
            root, _, rest = own_name.partition(".")
            self.imports[name] = f"from {home} import {root}" + (f" as {name}" if name != root and not rest else "")
            return
        self.constants[name] = f"{name} = {self._literal(name, value, user)}"

    def _own(self, name, value, function):
        if isinstance(function, types.FunctionType) and function.__name__ == "<lambda>":
            raise CourseError(f"{name} is a lambda, which cannot be taken along; write it as a def.")
        self.add_function(value)
        if function.__name__ != name:
            self.constants[name] = f"{name} = {function.__name__}"

    def _literal(self, name, value, user):
        home = type(value).__module__.split(".")[0]
        if home == "torch" and type(value).__name__ in ("dtype", "device"):
            self.imports["torch"] = "import torch"
            return f"torch.device({str(value)!r})" if type(value).__name__ == "device" else str(value)
        if home == "triton" and type(value).__name__ == "constexpr":
            self.imports["triton"] = "import triton"
            return f"triton.language.constexpr({self._literal(name, value.value, user)})"
        if _is_simple(value):
            return _text_of(value)
        raise CourseError(
            f"{user} uses {name}, a {type(value).__name__} that lives only in this notebook and cannot be taken "
            f"along to the judge; make {name} inside {user}, or pass it as an argument."
        )

    def text(self):
        functions = list(self.functions.values())
        head = "\n".join([*self.imports.values(), *self.constants.values()])
        return "\n\n".join(([head] if head else []) + functions[1:] + functions[:1]) + "\n"


def text_of(function, handed_over=None):
    """The text that rebuilds `function` in another process.

    Parameters
    ----------
    function : Python function
    handed_over : what the learner handed over (a Triton function around `function`), for the decorator

    Returns
    -------
    str, imports and constants first, then helpers, then the function, each under a mark with its line

    Raises
    ------
    CourseError  something that it uses cannot be taken along
    """
    if function.__name__ == "<lambda>":
        raise CourseError("the answer is a lambda; write it as a def with its name.")
    gatherer = _Gatherer()
    gatherer.add_function(handed_over if handed_over is not None else function)
    return gatherer.text()


def _source(function):
    try:
        return inspect.getsourcelines(function)
    except (OSError, TypeError):
        raise CourseError(
            f"the text of {function.__name__} cannot be found (was its cell deleted, or was it made by exec?); "
            "run its cell again."
        ) from None


def _cell_name(function):
    path = inspect.getsourcefile(function) or ""
    short = path.rsplit("/", 1)[-1]
    return "<cell>" if "ipykernel" in path or path.startswith("<") else short


def _scope(function):
    """What the names in a function mean: its module's names, and over them those of the functions around it."""
    if isinstance(function, type):
        import sys

        return vars(sys.modules[function.__module__])
    closure = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
    return function.__globals__ | {name: cell.cell_contents for name, cell in closure.items() if _filled(cell)}


def _filled(cell):
    try:
        return cell.cell_contents is not None or True
    except ValueError:
        return False


def _names(text):
    """Names read in a piece of source, decorators, defaults and annotations included, without builtins; in order."""
    found = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and not hasattr(builtins, node.id):
            found[node.id] = None
    return list(found)


def _same_in(home, name, value):
    """Whether `from home import name` gives this very object in another process."""
    import sys

    if home in _OWN_MODULES or home not in sys.modules or "<" in name:
        return False
    there = sys.modules[home]
    for part in name.split("."):
        there = getattr(there, part, None)
    return there is value


def _is_simple(value):
    if isinstance(value, tuple | list | set | frozenset):
        return len(value) < 1000 and all(_is_simple(item) for item in value)
    if isinstance(value, dict):
        return len(value) < 1000 and all(_is_simple(part) for item in value.items() for part in item)
    return value is None or type(value) in (bool, int, float, complex, str, bytes)


def _text_of(value):
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, list):
        return f"[{', '.join(map(_text_of, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_text_of, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text_of(key)}: {_text_of(item)}" for key, item in value.items()) + "}"
    return repr(value)

"""Gathers a function's text with all that it uses: helpers, imports, simple constants, from as many cells as it takes.

Names are followed through the function's text (inspect and ast), transitively. A module becomes an import line, a
function from a notebook its source under a mark with its line numbers (loading.py), a simple constant its literal. What
cannot be taken along is named in one sentence.

May import: errors, loading.
"""

import ast
import builtins
import inspect
import linecache
import math
import symtable
import sys
import types
from pathlib import Path

from ...errors import CourseError
from .loading import MODULE, mark

_COURSE = Path(__file__).resolve().parents[2]
_USUAL_HOMES = ("torch", "torch.nn.functional", "math", "numpy")
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
        for used in outside_names(text):
            if used in scope and used != name:
                self.add(used, scope[used], name)
        self.functions[name] = f"{mark(first, _cell_name(python))}\n{text}"

    def add(self, name, value, user):
        """Take along what `name` means in the function `user`."""
        if isinstance(value, types.ModuleType):
            if not _is_installed(value):
                raise CourseError(
                    f"{user} uses the module {name}, a file beside the notebook that the judge does not have; "
                    "put what is needed of it into a cell."
                )
            self.imports[name] = f"import {value.__name__} as {name}" if value.__name__ != name else f"import {name}"
            return
        home = _home(value)
        if home is not None:
            self.imports[name] = f"from {home} import {value.__name__}" + (
                f" as {name}" if name != value.__name__ else ""
            )
            return
        function = getattr(value, "fn", value)
        if isinstance(function, types.FunctionType | type):
            self._own(name, value, function)
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
        if isinstance(function, type) and (found := _class_in_a_cell(function.__name__)):
            return found
        raise CourseError(
            f"the text of {function.__name__} cannot be found (was its cell deleted, or was it made by exec?); "
            "run its cell again."
        ) from None


def _class_in_a_cell(name):
    """Lines and first line of the newest cell's class of this name; inspect knows no file for a notebook's classes."""
    for path in reversed([path for path in linecache.cache if "ipykernel" in path]):
        lines = linecache.getlines(path)
        try:
            tree = ast.parse("".join(lines))
        except SyntaxError:
            continue
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                return lines[first - 1 : node.end_lineno], first
    return None


def _cell_name(function):
    """How the learner knows the place: "In [5]" for a cell that ran as number 5."""
    path = "<cell>" if isinstance(function, type) else inspect.getsourcefile(function) or ""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    try:
        label = shell.compile.format_code_name(path) if shell is not None else None
    except AttributeError:
        label = None
    if label is not None:  # ("Cell", "In[5]")
        return label[1].replace("In[", "In [")
    return "<cell>" if "ipykernel" in path or path.startswith("<") else Path(path).name


def _scope(function):
    """What the names in a function mean: its module's names, and over them those of the functions around it."""
    if isinstance(function, type):
        return vars(sys.modules[function.__module__])
    closure = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
    return function.__globals__ | {name: cell.cell_contents for name, cell in closure.items() if _filled(cell)}


def _filled(cell):
    try:
        return cell.cell_contents is not None or True
    except ValueError:
        return False


def outside_names(text):
    """Names that a piece of source takes from outside, decorators, defaults and annotations included, in order.

    Builtins are left out, and so are parameters and local variables, whatever else bears their names in the notebook.
    """
    outside, tables = set(), [symtable.symtable(text, "<answer>", "exec")]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        top = table.get_type() == "module"
        outside |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global() or top}
    found = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and not hasattr(builtins, node.id):
            found[node.id] = None
    return [name for name in found if name in outside]


def _home(value):
    """The module from which another process can import this very object by its name, or None."""
    name = getattr(value, "__name__", None)
    if not isinstance(name, str):
        return None
    for home in (getattr(value, "__module__", None), *_USUAL_HOMES):  # torch's built-in functions name no module
        module = sys.modules.get(home) if home not in _OWN_MODULES else None
        if module is not None and getattr(module, name, None) is value and _is_installed(module):
            return home
    return None


def _is_installed(module):
    """Whether the judge has this module too: Python's own, an installed one, the course; no file of the learner's."""
    path = getattr(module, "__file__", None)
    roots = (sys.prefix, sys.base_prefix, str(_COURSE))
    return path is None or path.startswith(roots) or "site-packages" in path


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

"""Send a Triton function to another process: its text, the helpers and the globals that it uses.

A function from a notebook cell is in no file, and the worker process must decorate it with its own Triton. So the text
is sent with its line numbers, and each global that it names by kind: a module to import, a number, a function.

May import: errors; triton only inside functions.
"""

import ast
import importlib
import inspect
import linecache
import textwrap
from dataclasses import dataclass, field
from types import ModuleType

from ..errors import ArgumentError

_PLAIN = (int, float, str, bool, type(None))


@dataclass
class Captured:
    """Text of functions by module, and the meaning of their global names.

    functions : (module, name) -> (filename, first line of ``def``, text from ``def`` on)
    names : (module, name) -> ("module", dotted) | ("value", x) | ("constexpr", x) | ("attribute", dotted, name)
            | ("function", module, name)
    """

    entry: tuple = ()
    functions: dict = field(default_factory=dict)
    names: dict = field(default_factory=dict)


def capture(fn):
    """Return the Captured of a @triton.jit function.

    Raises
    ------
    ArgumentError   its source cannot be found, or it uses a global that cannot be sent; the message names it
    """
    captured = Captured()
    captured.entry = _capture_function(raw(fn), captured)
    return captured


def meaning(fn):
    """(texts, names): what decides, with types and constants, what a compiler makes of a @triton.jit function.

    The text of the function and of all that it uses, wherever they lie, and what the names in them mean.
    """
    captured = capture(fn)
    texts = sorted(text for _, _, text in captured.functions.values())
    return texts, sorted(captured.names.items(), key=repr)


def raw(fn):
    """Return the plain Python function under @triton.jit, @autotune and @heuristics."""
    while not inspect.isfunction(fn):
        if not hasattr(fn, "fn"):
            raise ArgumentError(f"expected a @triton.jit function, got {type(fn).__name__}")
        fn = fn.fn
    return fn


def restore(captured):
    """Define the functions under the Triton of this process; return the entry as a @triton.jit function."""
    import triton

    modules, files = {}, {}
    for filename, first, text in captured.functions.values():
        lines = files.setdefault(filename, {})
        lines.update(enumerate(text.splitlines(keepends=True), start=first))
    for filename, lines in files.items():
        whole = [lines.get(i, "\n") for i in range(1, max(lines) + 1)]
        linecache.cache[filename] = (sum(map(len, whole)), None, whole, filename)
    later = []
    for (module, name), meaning in captured.names.items():
        namespace = modules.setdefault(module, {"__name__": module})
        if meaning[0] == "function":
            later.append((namespace, name, meaning[1:]))
        else:
            namespace[name] = _value(meaning)
    made = {}
    for (module, name), (filename, first, text) in captured.functions.items():
        namespace = modules.setdefault(module, {"__name__": module})
        exec(compile("\n" * (first - 1) + text, filename, "exec"), namespace)
        made[module, name] = namespace[name] = triton.jit(namespace[name])
    for namespace, name, target in later:
        namespace[name] = made[target]
    return made[captured.entry]


def _capture_function(function, captured):
    key = (function.__module__ or "__main__", function.__name__)
    if key in captured.functions:
        return key
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError) as error:
        raise ArgumentError(
            f"the source of {function.__name__} cannot be found ({error}); define it in a cell or a file"
        ) from error
    text = textwrap.dedent("".join(lines))
    tree = ast.parse(text)
    start = tree.body[0].lineno - 1  # the def itself, without decorators
    captured.functions[key] = (
        inspect.getsourcefile(function) or function.__code__.co_filename,
        first + start,
        "".join(text.splitlines(keepends=True)[start:]),
    )
    for name in sorted(_names(tree.body[0])):
        if name in function.__globals__ and (key[0], name) not in captured.names:
            captured.names[key[0], name] = ("pending",)
            captured.names[key[0], name] = _meaning(function.__globals__[name], name, function, captured)
    return key


def _names(definition):
    """Return the global names that a function uses; what it assigns, or has as a parameter, is local."""
    definition.decorator_list = []
    nodes = list(ast.walk(definition))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    local = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return names - local - {node.arg for node in nodes if isinstance(node, ast.arg)}


def _meaning(value, name, function, captured):
    home = getattr(value, "__module__", None) or ""
    if isinstance(value, ModuleType):
        return "module", value.__name__
    if isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(isinstance(x, _PLAIN) for x in value)):
        return "value", value
    if type(value).__name__ == "constexpr" and isinstance(value.value, _PLAIN):
        return "constexpr", value.value
    if type(value).__module__.startswith("triton.language") and type(value).__name__ == "dtype":
        return "attribute", "triton.language", str(getattr(value, "__name__", None) or _dtype_name(value))
    if hasattr(value, "fn") and hasattr(value, "run"):
        inner = raw(value)
        if (inner.__module__ or "").startswith("triton."):
            return "attribute", inner.__module__, inner.__name__
        return "function", *_capture_function(inner, captured)
    if home and hasattr(value, "__name__") and hasattr(importlib.import_module(home), value.__name__):
        return "attribute", home, value.__name__
    raise ArgumentError(
        f"{function.__name__} uses the global {name}, a {type(value).__name__}; a Triton function may use numbers, "
        "tl.constexpr, modules and other @triton.jit functions"
    )


def _dtype_name(dtype):
    """Return the name of the attribute of triton.language that holds this dtype."""
    language = importlib.import_module("triton.language")
    return next(
        name
        for name in dir(language)
        if getattr(language, name) is dtype
        or (type(getattr(language, name)) is type(dtype) and getattr(language, name) == dtype)
    )


def _value(meaning):
    kind, *rest = meaning
    if kind == "module":
        return importlib.import_module(rest[0])
    if kind == "attribute":
        return getattr(importlib.import_module(rest[0]), rest[1])
    if kind == "constexpr":
        return importlib.import_module("triton.language").constexpr(rest[0])
    return rest[0]

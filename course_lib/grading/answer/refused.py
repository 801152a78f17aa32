"""What a stranger's answer may not contain: the sandbox guards the machine, this list the process that runs the answer.

A Python or Triton answer shares its process with the code that runs it, so it could change what that code reports; a
CUDA answer shares one with the SIMT machine, and could change what that counts. That cannot be prevented there. It can
be seen in the text: an answer computes, and needs no module, name or declaration of this list. A text that hides one
still has to be read by a person.

May import: nothing of the course.
"""

import ast
import re

from . import loading

_MODULES = {
    "__future__", "abc", "bisect", "cmath", "collections", "dataclasses", "enum", "fractions", "functools", "heapq",
    "itertools", "math", "numpy", "operator", "random", "statistics", "torch", "traceback", "triton", "typing",
}  # fmt: skip
_PARTS = {  # of the packages among them
    "torch": {"nn", "nn.functional", "linalg", "special", "fft", "random"},
    "numpy": {"linalg", "fft", "random", "ma"},
    "collections": {"abc"},
}
_GIVEN = {"torch.utils._pytree.tree_leaves", "weakref.ref"}  # single names of modules that are not allowed
_NAMES = {
    "__import__", "__builtins__", "__loader__", "__spec__", "breakpoint", "compile", "delattr", "eval", "exec", "exit",
    "getattr", "globals", "help", "input", "locals", "memoryview", "open", "quit", "setattr", "vars",
}  # fmt: skip
_HOST = {  # modules that another module has as its own name, `torch.os` or `random._os`
    "abc", "asyncio", "atexit", "bltns", "builtins", "codecs", "contextlib", "ctypes", "gc", "glob", "imp", "importlib",
    "inspect", "io", "linecache", "marshal", "mmap", "mp", "multiprocessing", "os", "pathlib", "pickle", "platform",
    "posix", "resource", "runpy", "shutil", "socket", "subprocess", "sys", "tempfile", "threading", "types", "weakref",
    "warnings", "zipfile",
}  # fmt: skip
_ATTRIBUTES = {
    "_C", "attrgetter", "classes", "ctypeslib", "data_ptr", "f_back", "f_builtins", "f_globals", "f_locals",
    "DataSource", "UntypedStorage", "TypedStorage", "ag_frame", "cr_frame", "cpp_extension", "f2py", "from_blob",
    "from_file", "frombuffer", "from_buffer", "fromfile", "fromregex", "func_globals", "gi_code", "load_library",
    "load_state_dict_from_url", "open_memmap", "package", "serialization", "set_default_device", "set_default_dtype",
    "set_printoptions", "storage", "untyped_storage", "typed_storage",
    "gi_frame", "hub", "library", "lib", "memmap", "methodcaller", "modules", "multiprocessing", "ops",
    "set_default_tensor_type", "sys", "tb_frame", "tb_next", "tofile", "utils", "walk_stack", "walk_tb",
}  # fmt: skip
_FILES = {"load", "save", "savez", "savetxt", "loadtxt", "genfromtxt"}  # of torch and numpy; Triton's load is another
_DUNDER = {"__init__", "__call__", "__getitem__", "__setitem__", "__len__", "__name__", "__iter__", "__post_init__"}
_CUDA = {
    r"\b(?:asm|__asm|__asm__)\b": "inline assembly",
    r"__attribute__|\[\[\s*gnu": "an attribute of the host's compiler",
    r"\b__builtin_(?!assume)\w+": "a function of the host's compiler",
    r"#\s*pragma\s+(?!unroll|once)\w+|\b_Pragma\b|__pragma": "a pragma of the host's compiler",
    r"#\s*include\s*[<\"]\s*(?:/|\.\.)|#\s*include_next|#\s*embed|__has_include": "a file outside the course",
    r"\bextern\s+\"C\"\s*(?:\{|(?!__global__|__device__|__launch_bounds__|void\b|__host__|template)\w)": (
        "a declaration of the host"
    ),
    r"\b(?:dlsym|dlopen|system|popen|fork|vfork|exec[lv]\w*|syscall|mmap|mprotect|ptrace|Py_?\w*_\w+|simt_\w+)\s*\(": (
        "a function of the host"
    ),
    r"##": "names pasted together, which this list cannot read",
}
_CONTINUED = re.compile(r"(?:[^\n]*\\\n)+[^\n]*")  # lines that a backslash joins
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def find(language, source, filename="answer", first_line=1):
    """What of the list an answer contains.

    Parameters
    ----------
    language : "python", "triton" or "cuda"
    source, filename, first_line : the answer

    Returns
    -------
    (str, int) or None: a sentence for the one who grades, and the line in the learner's numbering
    """
    found = _in_cuda(source, first_line) if language == "cuda" else _in_python(source, filename, first_line)
    if found is None:
        return None
    what, line = found
    return f"Line {line} uses {what}, which no answer needs; it was not run. Read it before you grade it.", line


def _in_cuda(source, first_line):
    joined = _CONTINUED.sub(lambda match: match[0].replace("\\\n", "") + "\n" * match[0].count("\\\n"), source)
    text = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), joined)
    for pattern, what in _CUDA.items():
        if hit := re.search(pattern, text):
            return f"{what} ({hit[0].split('(')[0].strip()})", first_line + text.count("\n", 0, hit.start())
    return None


def _in_python(source, filename, first_line):
    for text, _, line in loading.split(source, filename, first_line):
        try:
            tree = ast.parse(text)
        except SyntaxError:
            continue  # it gets its own sentence when it runs
        modules = dict(pair for node in ast.walk(tree) for pair in _bound(node))
        read = {id(call.func) for node in ast.walk(tree) if (call := _reads_own_names(node, modules))}
        for node in ast.walk(tree):
            if id(node) not in read and (what := _of_node(node, modules)):
                return what, getattr(node, "lineno", 1) + line - 1
    return None


def _reads_own_names(node, modules):
    """The call ``vars(x)`` in ``vars(x).items`` or ``dict(vars(x))``, which look at an object and change nothing."""
    call = None
    if isinstance(node, ast.Attribute) and node.attr == "items":
        call = node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict" and node.args:
        call = node.args[0]
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "vars"):
        return None
    named = [one.id for one in call.args if isinstance(one, ast.Name) and one.id not in modules]
    return call if len(named) == len(call.args) == 1 else None


def _bound(node):
    """(name, module) of the names that an import binds."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name.split(".")[0], getattr(node, "module", None) or alias.name


def _of_node(node, modules):
    """What of the list a node is, in words, or None."""
    if isinstance(node, ast.Import):
        return next((f"the module {alias.name}" for alias in node.names if not _allowed(alias.name)), None)
    if isinstance(node, ast.ImportFrom):
        names = [f"{node.module}.{alias.name}" for alias in node.names]
        if {*names} <= _GIVEN:
            return None
        inside = next((name for name in names if _hides(name.split(".")[-1]) or name.split(".")[-1] in _FILES), None)
        return inside or (None if _allowed(node.module or "") and not node.level else f"the module {node.module}")
    if isinstance(node, ast.Name) and node.id in _NAMES:
        return node.id
    if isinstance(node, ast.Attribute):
        own = node.attr.startswith("__") and node.attr not in _DUNDER
        if own or _hides(node.attr):
            return f".{node.attr}"
        home = modules.get(_root(node), "")
        if node.attr in _FILES and home.startswith(("torch", "numpy")):
            return f".{node.attr}"
        if isinstance(node.ctx, ast.Store | ast.Del) and home:
            return f"a change of {ast.unparse(node)}"
    return None


def _allowed(module):
    first, _, rest = module.partition(".")
    if first == "triton":
        return not rest or rest.startswith("language")
    return first in _MODULES and (not rest or rest in _PARTS.get(first, ()))


def _hides(name):
    """Whether an attribute of that name leads out of what an answer needs, on whatever object."""
    return name == "*" or name in _ATTRIBUTES or name.lstrip("_") in _HOST


def _root(node):
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return getattr(node, "id", None)

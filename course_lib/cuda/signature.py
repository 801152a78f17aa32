"""Parse the declared parameters of a kernel, so that both engines pass the same bytes.

A raw launch has no types: four bytes of an int where eight of a long long are expected shift every later argument. The
C declaration is parsed once, and arguments.py converts by it.

May import: errors, scalars.
"""

import re
from dataclasses import dataclass

from ..errors import SignatureError
from .scalars import ALIASES, SCALARS, VECTORS

_QUALIFIERS = {"const", "volatile", "__restrict__", "__restrict", "restrict", "__grid_constant__", "struct"}
_KERNEL = re.compile(r"\b__global__\b")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Parameter:
    """One declared parameter of a kernel.

    Attributes
    ----------
    name : str
    ctype : str, the declaration without the name, canonical: "const float*", "int", "unsigned long long"
    is_pointer : bool
    element : str, what it points to, or the value's own type: a key of SCALARS or VECTORS, or a struct's name
    is_const : bool, the pointee (or the value) is const
    size_bytes : int, bytes of the parameter itself (8 for a pointer); 0 for a struct: the argument's bytes decide
    """

    name: str
    ctype: str
    is_pointer: bool
    element: str
    is_const: bool
    size_bytes: int

    @property
    def is_struct(self):
        """True for a by-value parameter whose type is no CUDA scalar or vector: it is passed as bytes."""
        return not self.is_pointer and self.element not in SCALARS and self.element not in VECTORS

    @property
    def is_tensor_map(self):
        """True for ``const __grid_constant__ TensorMap``, whose argument cuda.tensor_map makes."""
        return not self.is_pointer and self.element == "TensorMap"

    @property
    def format(self):
        """str or None: the value's `struct` format character; None for pointers, vectors, bfloat16, fp8 and structs."""
        return None if self.is_pointer else SCALARS.get(self.element, (0, None))[1]


def kernel_names(source):
    """Names of the ``__global__`` functions in `source`, in order.

    Parameters
    ----------
    source : str, CUDA C++

    Returns
    -------
    names : list of str
    """
    return [name for name, _, _ in _declarations(strip_comments(source))]


def choose(source, name=None, *, filename="<cell>"):
    """Return `name` when the source has that kernel; without a name, the only kernel of the source.

    Raises
    ------
    SignatureError   no kernel, several and no name, or an unknown name: the message lists the kernels
    """
    names = list(dict.fromkeys(kernel_names(source)))
    available = ", ".join(names) if names else "none"
    if name is None:
        if len(names) == 1:
            return names[0]
        which = f"has {len(names)} kernels ({available}); say which one (in a cell: --entry {', '.join(names[:1])})"
        what = which if names else "has no __global__ function"
        raise SignatureError(f"{filename} {what}.")
    if name not in names:
        raise SignatureError(f'{filename} has no kernel called "{name}". Its kernels: {available}.')
    return name


def parse(source, name, *, defines=None, filename="<cell>"):
    """Parse the parameters of kernel `name`.

    Parameters
    ----------
    source : str, CUDA C++
    name : str
    defines : mapping of macro name to value; a macro that names a type is replaced in the declarations

    Returns
    -------
    parameters : list of Parameter

    Raises
    ------
    SignatureError   no such kernel, a template, not ``extern "C"``, or a declaration that cannot be read
    """
    name = choose(source, name, filename=filename)
    text = strip_comments(source)
    declarations = [(prefix, inside) for kernel, prefix, inside in _declarations(text) if kernel == name]
    prefix, inside = declarations[-1]
    where = f"{filename}: kernel {name}"
    if re.search(r"\btemplate\b", prefix):
        raise SignatureError(
            f"{where} is a template, which has no single name to launch. Take the parameter as a "
            'macro (-D) and declare the kernel extern "C".'
        )
    if 'extern "C"' not in prefix and not _inside_extern_block(text, name):
        raise SignatureError(f'{where} must be declared extern "C" __global__, so that its name stays as written.')
    names = _typedefs(text) | {key: str(value) for key, value in (defines or {}).items()}
    return [_parameter(piece, index, names, where) for index, piece in enumerate(_split(inside))]


def strip_comments(source):
    """Return `source` with comments replaced by blanks; lines keep their numbers, strings their contents."""
    pattern = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/', re.DOTALL)

    def blank(match):
        text = match.group()
        return re.sub(r"[^\n]", " ", text) if text.startswith("/") else text

    return pattern.sub(blank, source)


def _declarations(text):
    """Yield (name, text before it, text in its parentheses) of every __global__ function in comment-free text."""
    for match in _KERNEL.finditer(text):
        position = match.end()
        while True:
            identifier = re.compile(r"\s*([A-Za-z_]\w*)").match(text, position)
            if not identifier:
                break
            word, position = identifier.group(1), identifier.end()
            opening = re.compile(r"\s*\(").match(text, position)
            if not opening:
                continue
            closing = _closing(text, opening.end())
            if word in ("__launch_bounds__", "__maxnreg__", "__cluster_dims__", "__block_size__", "__attribute__"):
                position = closing + 1
                continue
            start = max(text.rfind(mark, 0, match.start()) for mark in ";}#")
            yield word, text[start + 1 : identifier.start()], text[opening.end() : closing]
            break


def _closing(text, position):
    """Return the index of the parenthesis that closes the one just before `position`."""
    depth = 1
    for index in range(position, len(text)):
        depth += {"(": 1, ")": -1}.get(text[index], 0)
        if depth == 0:
            return index
    raise SignatureError("A parenthesis of a kernel's declaration is never closed.")


def _inside_extern_block(text, name):
    """True when the kernel is in an ``extern "C" { … }`` block."""
    for match in re.finditer(r'extern\s+"C"\s*\{', text):
        depth = 1
        for index in range(match.end(), len(text)):
            depth += {"{": 1, "}": -1}.get(text[index], 0)
            if depth == 0:
                break
        if re.search(rf"\b{name}\b", text[match.end() : index]):
            return True
    return False


def _typedefs(text):
    """Return the source's type aliases: ``typedef A B;``, ``using B = A;`` and object-like ``#define B A``."""
    names = {}
    for old, new in re.findall(r"\btypedef\s+([\w\s]+?)\s+(\w+)\s*;", text):
        names[new] = old
    for new, old in re.findall(r"\busing\s+(\w+)\s*=\s*([\w\s]+?)\s*;", text):
        names[new] = old
    macro = r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([A-Za-z_][\w \t]*?)[ \t]*$"
    for new, old in re.findall(macro, text, re.MULTILINE):
        names[new] = old
    return names


def _split(inside):
    """Split a parameter list at its commas; `void` alone is an empty list."""
    inside = inside.strip()
    return [] if inside in ("", "void") else [piece.strip() for piece in inside.split(",")]


def _parameter(text, index, names, where):
    """Parse one declaration."""
    cleaned = re.sub(r"__align__\s*\([^)]*\)|alignas\s*\([^)]*\)|__attribute__\s*\(\(.*?\)\)", " ", text)
    if "&" in cleaned:
        raise SignatureError(f'{where}: parameter {index + 1} "{text}" is a reference; take a value or a pointer.')
    array = re.search(r"\[[^\]]*\]\s*$", cleaned)
    if array:
        cleaned = cleaned[: array.start()]
    stars = cleaned.count("*") + bool(array)
    head, _, tail = cleaned.rpartition("*") if "*" in cleaned else (cleaned, "", "")
    words = _IDENTIFIER.findall(cleaned.replace("*", " "))
    type_words = [word for word in words if word not in _QUALIFIERS]
    if len(type_words) < 2 or (stars and not [word for word in _IDENTIFIER.findall(tail or "x")]):
        raise SignatureError(f'{where}: parameter {index + 1} "{text}" needs a type and a name: "const float* x".')
    name = type_words[-1]
    element = _canonical(" ".join(type_words[:-1]), names)
    is_const = "const" in _IDENTIFIER.findall(head if stars else cleaned)
    if stars > 1:
        element = "void"  # a pointer to pointers: a tensor of any dtype
    if element == "void" and not stars:
        raise SignatureError(f'{where}: parameter {index + 1} "{text}" is void, which has no value.')
    if element == "TensorMap" and (stars or "__grid_constant__" not in words):
        raise SignatureError(
            f'{where}: parameter {index + 1} "{text}" must be "const __grid_constant__ TensorMap {name}": TMA '
            "reads the map from the arguments of the launch, not from a thread's copy of it."
        )
    size = 8 if stars else _size(element)
    ctype = f"{'const ' if is_const else ''}{element}{'*' * stars}"
    return Parameter(name, ctype, bool(stars), element, is_const, size)


def _canonical(text, names):
    """Return the canonical spelling of a type, with the source's own aliases resolved."""
    for _ in range(8):
        text = " ".join(names.get(word, word) for word in text.split())
        text = " ".join(word for word in text.split() if word not in _QUALIFIERS)
        if text in SCALARS or text in VECTORS or text in ALIASES or not any(word in names for word in text.split()):
            break
    return ALIASES.get(text, text)


def _size(element):
    """Return the bytes of a by-value parameter, 0 for a struct."""
    if element in SCALARS:
        return SCALARS[element][0]
    scalar, count = VECTORS.get(element, ("void", 0))
    return SCALARS[scalar][0] * count

"""Assemble and link a kernel against the course's runtime.

g++ starts four programs to assemble and link. The two that do the work are asked for once, with the words that g++ has
for them, and then called directly: 11 ms a kernel instead of 16. Where that is not understood or fails, g++ does it.

May import: simt.cache, simt.compilers.
"""

import functools
import hashlib
import json
import shlex
import subprocess
from pathlib import Path

from .cache import build_into, cache_dir
from .compilers import AS_TEXT, compiler, run_compiler

# stand for the paths of one kernel
_ASSEMBLY, _COMPILED, _LIBRARY, _OBJECTS = "kernel.s", "kernel.o", "kernel.so", "objects.o"


def link(assembly, path, objects):
    """Link without -fsanitize: the compiler's own sanitizer runtime must not come in.

    Parameters
    ----------
    assembly : Path of the kernel's assembly text
    path : Path of the library to make
    objects : list of Path, further objects in their order, and the runtime

    Returns
    -------
    subprocess.CompletedProcess
    """
    paths = {_ASSEMBLY: [assembly], _COMPILED: [path.with_suffix(".o")], _LIBRARY: [path], _OBJECTS: objects}
    return _run_all(_programs(compiler()), paths) or run_compiler(_words(assembly, path, objects))


def _run_all(programs, paths):
    """The last program's subprocess.CompletedProcess; None where one of them cannot do its part."""
    done = None
    for words in programs:
        command = [str(part) for word in words for part in paths.get(word, [word])]
        try:
            done = subprocess.run(command, **AS_TEXT)
        except OSError:  # the program has gone since it was asked for
            return None
        if done.returncode:
            return None  # the compiler says what is wrong
    return done


def link_files():
    """Return the paths of what `link` keeps in the cache."""
    return [_kept()] if compiler()[1] == "gcc" else []


def _words(assembly, path, objects):
    """How g++ or clang++ is asked, in less time than by default.

    The runtime brings the libraries of C and C++; -lm would open three files, and nothing was compiled for the linker's
    plugin.
    """
    words = ["-shared", "-nostartfiles", "-o", path, assembly, *objects]
    if compiler()[1] != "gcc":
        return [*words, "-lm"]
    return [*words, "-fno-use-linker-plugin", "-nodefaultlibs", "-l:libm.so.6", "-lgcc"]


@functools.cache
def _programs(of):
    """[words of the assembler, words of the linker], the names above for paths; [] where the compiler has to do it."""
    return json.loads(_kept().read_text("utf-8")) if of[1] == "gcc" else []


def _kept():
    asked = _words(_ASSEMBLY, _LIBRARY, [_OBJECTS])
    key = hashlib.sha256("\0".join([*compiler(), *asked, Path(__file__).read_text("utf-8")]).encode()).hexdigest()[:24]
    return build_into(
        cache_dir() / f"link-{key}.json", lambda path: path.write_text(json.dumps(_asked(asked)), "utf-8")
    )


def _asked(words):
    """What g++ would start for these words, its temporary object by the name above; [] where that is another pair."""
    said = run_compiler(["-###", *words]).stderr.splitlines()
    commands = [shlex.split(line) for line in said if line.startswith(" ")]
    if [Path(command[0]).name.rpartition("-")[2] for command in commands] != ["as", "collect2"]:
        return []
    assembler, linker = commands
    if assembler.count(_ASSEMBLY) != 1 or assembler.count("-o") != 1 or linker.count(_OBJECTS) != 1:
        return []
    made = assembler[assembler.index("-o") + 1]
    found = []
    for name, command in (("as", assembler), ("ld", linker)):
        program = run_compiler([f"-print-prog-name={name}"]).stdout.strip()
        found.append([program, *(_COMPILED if word == made else word for word in command[1:])])
    return found if linker.count(made) == 1 else []

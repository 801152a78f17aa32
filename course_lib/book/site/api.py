"""The API reference: one page a room of course_lib, with the public names of its modules.

May import: everything of the course.
"""

import importlib
import inspect
import pkgutil

# room -> its title; a module is listed with the public names that it defines
ROOMS = {
    "course_lib": "What a notebook imports",
    "course_lib.cuda": "CUDA on two engines",
    "course_lib.triton": "Triton on two engines",
    "course_lib.ops": "Launchers of the kernels",
    "course_lib.reference": "References in float64",
    "course_lib.kv": "The page pool",
    "course_lib.model": "A language model",
    "course_lib.serving": "A serving engine",
    "course_lib.parallel": "Several ranks",
    "course_lib.measure": "Numbers: tables, roofline, timing, stored results",
    "course_lib.viz": "Pictures",
}
OTHERS = {  # room -> modules whose names its page lists too
    "course_lib": ("course_lib.device", "course_lib.errors"),
    "course_lib.measure": ("course_lib.measure.decode", "course_lib.measure.serving_cost"),
}


def write_api(folder):
    """Write index.rst and a page for each room into `folder`."""
    folder.mkdir(parents=True)
    for room in ROOMS:
        (folder / f"{room}.rst").write_text(room_page(room), encoding="utf-8")
    entries = "\n".join(f"   {title} <{room}>" for room, title in ROOMS.items())
    head = _title("API reference", "=")
    words = "The public names of ``course_lib``, from their docstrings."
    (folder / "index.rst").write_text(f"{head}\n{words}\n\n.. toctree::\n\n{entries}\n", encoding="utf-8")


def room_page(room):
    """reStructuredText of one room: its own public names, then those of its modules."""
    parts = [_title(ROOMS[room], "="), _docstring(room)]
    names = _public(importlib.import_module(room))
    own = {f"{room}.{name}": value for name, value in names.items()}
    parts += [_entry(path, value) for path, value in own.items() if path not in OTHERS.get(room, ())]
    if not names or room in OTHERS:
        for module in OTHERS.get(room) or _modules(room):
            members = _public(importlib.import_module(module))
            if members:
                parts += [_title(module.removeprefix("course_lib."), "-"), _docstring(module)]
                parts += [_entry(f"{module}.{name}", value) for name, value in members.items()]
    return "\n\n".join(parts) + "\n"


def _public(module):
    """name -> value: those of __all__, else the functions and classes that the module defines itself."""
    if hasattr(module, "__all__"):
        return {name: getattr(module, name) for name in module.__all__}
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__
    }


def _modules(room):
    """The public modules of a package, in the order of their names."""
    package = importlib.import_module(room)
    return [f"{room}.{info.name}" for info in pkgutil.iter_modules(package.__path__) if info.name[0] != "_"]


def _entry(path, value):
    kind = "class" if inspect.isclass(value) else "function" if callable(value) else "data"
    if inspect.ismodule(value):
        return f"See :doc:`{path}`."
    members = "\n   :members:" if kind == "class" else ""
    return f".. auto{kind}:: {path}{members}"


def _docstring(module):
    return f".. automodule:: {module}\n   :no-members:"


def _title(text, underline):
    return f"{text}\n{underline * len(text)}"

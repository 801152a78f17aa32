"""The mode of Triton in this process, interpreter or compiler; chosen before triton is imported.

``@triton.jit`` reads TRITON_INTERPRET when a function is decorated, and triton decorates its own library while it is
imported. So the mode must be chosen before the first ``import triton`` of the process.

May import: errors. Importing this module must not import triton: ``import course_lib`` runs it.
"""

import os
import sys
from pathlib import Path

from ..errors import CourseError
from . import import_hook

_TRUE = {"1", "true", "yes", "on", "y"}


def choose_interpreter(has_gpu):
    """Choose Triton's interpreter on a machine without a GPU.

    A TRITON_INTERPRET that is already set is respected: "1" on a GPU machine asks for the interpreter there, "0" on a
    machine without a GPU asks for the compiler alone (the compile gate does; nothing can be launched then).

    Parameters
    ----------
    has_gpu : bool

    Returns
    -------
    interpreted : bool, True when Triton functions run on the interpreter in this process

    Raises
    ------
    CourseError   triton was imported before the choice, in the other mode
    """
    wanted = _interpret_from_environment()
    if wanted is None:
        wanted = not has_gpu
    loaded = loaded_mode()
    if loaded is not None and (loaded == "interpreter") != wanted:
        raise CourseError(_too_late(loaded, has_gpu))
    if wanted:
        os.environ["TRITON_INTERPRET"] = "1"
    os.environ.setdefault("TRITON_CACHE_DIR", str(cache_folder()))
    import_hook.install()
    return wanted


def cache_folder():
    """Return the folder of Triton's compiled kernels, next to the course's own cache."""
    root = os.environ.get("COURSE_CACHE_DIR") or Path.home() / ".cache" / "attention-kernel-by-kernel"
    return Path(root) / "triton"


def is_interpreted():
    """Return whether Triton functions of this process run on the interpreter, now or once triton is imported."""
    loaded = loaded_mode()
    return bool(_interpret_from_environment()) if loaded is None else loaded == "interpreter"


def loaded_mode():
    """Return "interpreter", "compiler", or None while triton is not imported.

    Read from a library function that triton decorated when it was imported.
    """
    library = sys.modules.get("triton.language.standard")
    decorated = getattr(library, "cdiv", None) or getattr(library, "softmax", None)
    if decorated is None:
        return None
    return "interpreter" if type(decorated).__name__ == "InterpretedFunction" else "compiler"


def _interpret_from_environment():
    value = os.environ.get("TRITON_INTERPRET", "").strip().lower()
    return None if not value else value in _TRUE


def _too_late(loaded, has_gpu):
    machine = "has a GPU" if has_gpu else "has no NVIDIA GPU"
    needed = "the interpreter" if loaded == "compiler" else "the compiler"
    return (
        f"triton was imported before course_lib, in {loaded} mode, but this machine {machine} and needs {needed}. "
        "Import course_lib first, before triton and before anything that imports it, then restart the kernel "
        "(in Jupyter: Kernel, Restart) and run again."
    )

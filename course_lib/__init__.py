"""Attention, kernel by kernel: what a notebook of the course imports.

    from course_lib import check, cuda, hint, profile_triton

Importing this package loads no torch, cupy, triton, matplotlib or IPython. It has one side effect: on a machine without
an NVIDIA GPU it chooses Triton's interpreter (TRITON_INTERPRET=1), which must happen before triton is imported.
"""

import importlib
from pathlib import Path

if not (Path(__file__).resolve().parents[1] / "kernels_cu").is_dir():
    raise ImportError(
        "course_lib was installed without the course: kernels, headers and exercises lie in the repository, and `pip "
        "install .` copies the Python files alone. Clone the repository and run `make setup` there, or `pip install "
        "--editable .`."
    )

from .device import has_gpu  # noqa: E402
from .triton.mode import choose_interpreter  # noqa: E402

__version__ = "0.1.0"

choose_interpreter(has_gpu())

# name -> its module; imported at first use
_LAZY = {
    "cuda": ".cuda",
    "check": ".grading.check",
    "hint": ".grading.check",
    "compare": ".grading.records.predictions",
    "predict": ".grading.records.predictions",
    "profile_triton": ".triton",
    "load_ipython_extension": ".magic",
}
__all__ = ["check", "compare", "cuda", "hint", "predict", "profile_triton"]


def __getattr__(name):
    if name not in _LAZY:
        raise AttributeError(f"module 'course_lib' has no attribute {name!r}")
    module = importlib.import_module(_LAZY[name], __name__)
    return module if name == "cuda" else getattr(module, name)

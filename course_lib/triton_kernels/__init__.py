"""Triton twins of kernels_cu/: one module a family, one function a step, found by the stem they share.

May import: triton (when a family is loaded). Nothing of the course: a twin reads like the .cu file beside it.
"""

from importlib import import_module

# stem of kernels_cu/ -> name of the Triton function in the family's module
REGISTRY = {
    "softmax/01_three_pass": "three_pass_softmax_kernel",
    "softmax/02_online": "online_softmax_kernel",
    "softmax/03_online_warp": "online_softmax_tile_kernel",
    "softmax/04_log_sum_exp": "log_sum_exp_kernel",
    "softmax/05_masked": "masked_softmax_kernel",
}


def load(stem):
    """The Triton function that carries `stem`, e.g. ``load("softmax/02_online")``.

    Raises
    ------
    KeyError  no twin carries this stem; the message names those that exist
    """
    if stem not in REGISTRY:
        raise KeyError(f"no Triton twin is called {stem!r}; these exist: {', '.join(REGISTRY)}")
    family = stem.split("/")[0]
    return getattr(import_module(f"{__name__}.{family}"), REGISTRY[stem])

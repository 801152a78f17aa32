"""Triton twins of kernels_cu/, one module a family; the "Twin" line of a step's header names its functions.

May import: cuda.steps (this file alone), triton (when a family is loaded). Nothing else of the course: a twin reads
like the .cu file beside it.
"""

from importlib import import_module

from ..cuda.steps import step


def load(stem, name=None):
    """The Triton function of a step, e.g. ``load("softmax/02_online")``.

    Parameters
    ----------
    stem : str, the step
    name : str or None; which one, where a step has several: ``load("decode/02_split_kv", "combine_kernel")``

    Raises
    ------
    KeyError  no such step, or no such twin of it; the message names those that exist
    """
    twins = step(stem).twins
    wanted = [twin for twin in twins if name in (None, twin[1])]
    if len(wanted) != 1:
        asked = f"{stem!r} has no single Triton twin" if name is None else f"{stem!r} has no Triton twin {name!r}"
        raise KeyError(f"{asked}; these exist: {', '.join(function for _, function in twins) or 'none'}")
    module, function = wanted[0]
    return getattr(import_module(f"{__name__}.{module}"), function)

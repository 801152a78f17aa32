"""Small, ragged launches of every step in every language it has, one module beside each launcher.

The sanitizer and the comparison of the engines run them, the Triton gate compiles them, tests count them against the
files of kernels_cu. A module of this folder takes part by having a function ``examples(device)``; most of them list the
steps of their family, so that a new step is in at once.

    python -m course_lib.ops.examples [--language cuda]      launches everything once where the course runs

May import: cuda.steps, ops, torch.
"""

import pkgutil
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

from ...cuda.steps import step


class Example(NamedTuple):
    """One small launch.

    Attributes
    ----------
    stem : str, the step: "softmax/02_online"
    language : "cuda" or "triton"
    plan : function without arguments that gives the Launch or Launches, not yet run
    case : str, what tells this launch from another one of the step; empty for the first
    """

    stem: str
    language: str
    plan: Any
    case: str = ""

    @property
    def name(self):
        return " ".join(filter(None, (self.stem, self.language, self.case)))


def examples(device):
    """Every small launch of the course, as a list of Example.

    Parameters
    ----------
    device : "cuda" or "cpu", where the tensors lie
    """
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name != "__main__")
    modules = [import_module(f"{__name__}.{name}") for name in names]
    return [example for module in modules if hasattr(module, "examples") for example in module.examples(device)]


def of_steps(family, variants, plan, inputs, *, case="", languages=("cuda", "triton"), **options):
    """Yield an Example for each step of `variants` and each of its languages.

    Parameters
    ----------
    plan : function (*inputs, variant=, language=, **options) that gives the launch
    inputs : tuple, or function of a variant that gives one
    """
    for variant in variants:
        arguments = inputs(variant) if callable(inputs) else inputs
        for language in step(f"{family}/{variant}").languages:
            if language in languages:
                planned = partial(plan, *arguments, variant=variant, language=language, **options)
                yield Example(f"{family}/{variant}", language, planned, case)

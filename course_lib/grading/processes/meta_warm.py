"""What torch imports for the first operators on the meta device, done once in the process that answers are forked from.

Many of these operators are Python there, and bring sympy and torch's compiler with them: 800 modules, more than a
second of an answer's processor time.

May import: torch.
"""

import functools
import gc

import torch


@functools.cache
def warm():
    """Make a tensor like another one, which needs sympy, and compute with it, which needs the compiler."""
    torch.empty_like(torch.empty(2, 3, device="meta").T).square()
    gc.freeze()  # as after the start: a child need not look through it

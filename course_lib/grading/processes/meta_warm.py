"""What torch imports for the first operators on the meta device, done once in the process that answers are forked from.

Many of these operators are Python there, and bring sympy and torch's compiler with them: 800 modules, more than a
second of an answer's processor time.

May import: loading, torch.
"""

import functools

import torch

from course_lib.loading import kept


@functools.cache
def warm():
    """Make a tensor like another one, which needs sympy, and compute with it, which needs the compiler."""
    with kept():
        torch.empty_like(torch.empty(2, 3, device="meta").T).square()

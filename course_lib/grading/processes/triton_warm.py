"""What every Triton answer would do first, done once in the process that its children are forked from.

May import: triton, torch.
"""

import torch
import triton
import triton.language as tl
from triton.runtime import interpreter


@triton.jit
def smallest_kernel(out, value):
    tl.store(out, value)


def warm():
    """Launch a kernel, which finds what to patch in triton.language, and rewrite its functions, such as tl.max.

    The interpreter keeps both for the life of the process, and of its forks.
    """
    smallest_kernel[(1,)](torch.zeros(1), 0.0)
    for function in list(vars(tl.standard).values()):  # a rewriting adds names to the module
        if isinstance(function, interpreter.InterpretedFunction):
            function.rewrite()

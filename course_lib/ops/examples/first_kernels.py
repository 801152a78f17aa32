"""Vectors of 301, rows of 133 and of 1000 numbers."""

from .. import first_kernels as ops
from . import of_steps
from .inputs import random


def examples(device):
    def pair(variant):  # 01_add takes whole blocks
        length = 256 if variant == "01_add" else 301
        return random(device, length), random(device, length, seed=1)

    yield from of_steps("vector", ops.VECTOR_VARIANTS, ops.plan_add, pair)
    for case, num_cols in (("", 133), ("1000 columns", 1000)):
        rows = (random(device, 5, num_cols),)
        yield from of_steps("reduction", ops.REDUCTION_VARIANTS, ops.plan_row_sum, rows, case=case)
        yield from of_steps("row_softmax", ops.ROW_SOFTMAX_VARIANTS, ops.plan_row_softmax, rows, case=case)

"""Kernels of exercises that are steps of their own."""

from functools import partial

from .. import matmul_exercises
from . import Example
from .inputs import random


def examples(device):
    families = {"matmul_exercises": _matmul}
    for family, plans in families.items():
        for name, plan in plans(device).items():
            yield Example(f"{family}/{name}", "cuda", plan)


def _matmul(device):
    a, b = random(device, 37, 40), random(device, 40, 53, seed=1)
    halves = random(device, 32, 48).half(), random(device, 48, 24, seed=1).half()
    pairs = (a, b), (a, random(device, 45, 40)), halves
    return {
        variant: partial(matmul_exercises.plan, *pair, variant=variant)
        for variant, pair in zip(matmul_exercises.VARIANTS, pairs, strict=True)
    }

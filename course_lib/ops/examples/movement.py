"""A copy and a transpose of 37 x 53 numbers; the recording of fragments."""

from functools import partial

from .. import fragments
from .. import movement as ops
from . import Example
from .inputs import random


def examples(device):
    for variant in ops.VARIANTS:
        yield Example(variant, "cuda", partial(ops.plan, random(device, 37, 53), variant=variant))
    yield Example("access/12_fragments", "cuda", partial(fragments.plan, device))

"""All ranks in one launch: two, three and four; a size below a block, and ragged ones with several packets a thread."""

from functools import partial

import torch

from .. import all_reduce as ops
from . import Example
from .inputs import random

NUM_BLOCKS = 2  # of a rank: a thread has several packets


def examples(device):
    for num_ranks, size, dtype in ((2, 36, torch.float16), (3, 550, torch.float32), (4, 1300, torch.bfloat16)):
        x, residual = (random(device, num_ranks, size, dtype=dtype, seed=seed) for seed in (0, 1))
        inbox = ops.Inbox.of_all_ranks(num_ranks, 4096, device=device, num_blocks=NUM_BLOCKS)
        planned = partial(ops.plan, x, inbox, residual=residual if num_ranks > 2 else None)
        yield Example("all_reduce/01_one_shot", "cuda", planned, f"{num_ranks} ranks" if num_ranks > 2 else "")

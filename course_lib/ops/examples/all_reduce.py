"""All ranks in one launch: below a block, ragged, several packets a thread; and at the end of a product."""

from functools import partial

import torch

from .. import all_reduce as ops
from .. import linear_all_reduce
from . import Example
from .inputs import random

NUM_BLOCKS = 2  # of a rank: a thread has several packets


def examples(device):
    for num_ranks, size, dtype in ((2, 36, torch.float16), (3, 550, torch.float32), (4, 1300, torch.bfloat16)):
        x, residual = (random(device, num_ranks, size, dtype=dtype, seed=seed) for seed in (0, 1))
        inbox = ops.Inbox.of_all_ranks(num_ranks, 4096, device=device, num_blocks=NUM_BLOCKS)
        planned = partial(ops.plan, x, inbox, residual=residual if num_ranks > 2 else None)
        yield Example("all_reduce/01_one_shot", "cuda", planned, f"{num_ranks} ranks" if num_ranks > 2 else "")
    for num_ranks, num_tokens, size_n, size_k, dtype in ((2, 1, 21, 72, torch.float16), (4, 3, 46, 40, torch.bfloat16)):
        shapes = ((num_tokens, size_k), (size_n, size_k), (num_tokens, size_n))
        x, weight, residual = (random(device, num_ranks, *shape, dtype=dtype, seed=i) for i, shape in enumerate(shapes))
        inbox = ops.Inbox.of_all_ranks(num_ranks, 1024, device=device, num_blocks=NUM_BLOCKS)
        options = {} if num_tokens == 1 else {"residual": residual, "bias": residual[0, 0].clone()}
        planned = partial(linear_all_reduce.plan, x, weight / size_k**0.5, inbox, **options)
        yield Example("decode_linear/04_linear_all_reduce", "cuda", planned, "" if num_tokens == 1 else "4 ranks")

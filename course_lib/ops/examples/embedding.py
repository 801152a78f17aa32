"""Six tokens of a table of 11 rows, one padding: rows of 33 numbers, of 1000 in bfloat16; 136 tokens backward."""

from functools import partial

import torch

from .. import embedding as ops
from . import Example
from .inputs import random

IDS = 4, 10, -1, 4, 0, 4


def examples(device):
    for case, num_cols, dtype, index in (
        ("", 33, torch.float32, torch.int64),
        ("1000 columns, bfloat16", 1000, torch.bfloat16, torch.int32),
    ):
        ids, positions = (torch.tensor(x, dtype=index, device=device) for x in (IDS, (0, 1, 2, 2, 1, 0)))
        table, others = (random(device, rows, num_cols, dtype=dtype, seed=rows) for rows in (11, 3))
        many = torch.cat(
            (ids, ids.new_full((100,), 4), ids.new_full((30,), 7))
        )  # a row of several pieces, and one of one
        d_out = random(device, len(many), num_cols, dtype=dtype)
        both = {"positions": positions, "position_table": others}
        for language in ("cuda", "triton"):
            yield Example(
                "embedding/01_lookup", language, partial(ops.plan, ids, table, language=language, **both), case
            )
            back = partial(ops.plan_backward, d_out, many, 11, language=language)
            yield Example("embedding/02_sorted_backward", language, back, case)

"""Sampling on the GPU in hand: every filter, any vocabulary up to 256k, the same tokens alone and in a batch."""

import pytest
import torch

from course_lib.ops import sampling as ops
from course_lib.reference import sampling as reference


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [(3, 1), (300, 10), (40, 1001), (24, 50257), (24, 128256), (6, 262144)], ids=str)
def test_every_filter(size, dtype):
    num_rows, num_cols = size
    torch.manual_seed(num_cols)
    logits, row = (3.0 * torch.randn(size, device="cuda")).to(dtype), torch.arange(num_rows, device="cuda")
    temperature = torch.where(row % 7 == 6, 0.0, 0.3 + torch.rand(num_rows, device="cuda"))
    filters = {
        "top_k": torch.where(row % 3 == 0, 1 + row, 0).int(),
        "top_p": torch.where(row % 4 < 2, torch.rand(num_rows, device="cuda"), 1.0),
        "min_p": torch.where(row % 5 == 0, 0.1, 0.0),
    }
    noise = torch.rand(num_rows, device="cuda")
    tokens = ops.sample(logits, temperature, noise, **filters)
    kept = reference.kept_probabilities(logits, temperature, **filters)
    upto = torch.cumsum(kept, dim=-1).gather(-1, tokens[:, None])[:, 0]
    own = kept.gather(-1, tokens[:, None])[:, 0]
    assert bool((own > 0).all())
    assert bool((noise.double() >= upto - own - 1e-4).all()) and bool((noise.double() <= upto + 1e-4).all())
    last = slice(num_rows - 1, num_rows)
    alone = ops.sample(logits[last], temperature[last], noise[last], **{n: x[last] for n, x in filters.items()})
    assert alone == tokens[-1]
    assert torch.equal(tokens, ops.sample(logits, temperature, noise, **filters))

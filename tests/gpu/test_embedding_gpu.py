"""Embedding and the gradient of its table on the GPU in hand, in both languages."""

import pytest
import torch
from norm_cases import assert_near

from course_lib.ops import embedding as ops
from course_lib.reference import embedding as reference


@pytest.mark.parametrize("language", ["cuda", "triton"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("num_tokens", "num_cols"), [(1, 1), (5000, 33), (3000, 1000), (8, 4096), (4000, 4096)])
def test_lookup_and_gradient(num_tokens, num_cols, dtype, language):
    table = torch.randn(1000, num_cols, device="cuda").to(dtype)
    ids = (1000 * torch.rand(num_tokens, device="cuda") ** 3).long()  # some rows of many tokens
    ids[0] = -1
    positions = torch.arange(num_tokens, device="cuda") % 500
    both = {"positions": positions, "position_table": torch.randn(500, num_cols, device="cuda").to(dtype)}
    assert torch.equal(ops.embedding(ids, table, language=language).double(), reference.lookup(ids, table))
    assert_near(ops.embedding(ids, table, language=language, **both), reference.lookup(ids, table, **both), dtype)
    d_out = torch.randn(num_tokens, num_cols, device="cuda").to(dtype)
    got = ops.embedding_backward(d_out, ids, 1000, language=language)
    assert_near(got, reference.lookup_backward(d_out, ids, 1000), dtype)
    assert torch.equal(got, ops.embedding_backward(d_out, ids, 1000, language=language))

"""A mixture of experts on the GPU in hand: router, sort, products in both languages, whole."""

import pytest
import torch
from norm_cases import assert_near

from course_lib.ops import moe as ops
from course_lib.reference import moe as reference


@pytest.mark.parametrize(("language", "block_m"), [("cuda", 64), ("triton", 16), ("triton", 64), ("triton", 128)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [(1, 8, 2), (300, 8, 2), (3000, 128, 8), (50, 512, 4)], ids=str)
def test_mixture(size, dtype, language, block_m):
    num_tokens, num_experts, top_k = size
    torch.manual_seed(num_tokens)
    logits = torch.randn(num_tokens, num_experts, device="cuda")
    experts, weights = ops.route(logits, top_k)
    want, want_weights = reference.route(logits, top_k)
    assert torch.equal(experts.long(), want)
    assert_near(weights, want_weights, torch.float32)
    pairs = ops.sort(experts, num_experts, block_m=block_m)
    order = torch.sort(experts.flatten(), stable=True).indices
    assert torch.equal(pairs.order.long(), order)
    x = torch.randn(num_tokens, 200, device="cuda").to(dtype)
    w_up = (0.1 * torch.randn(num_experts, 96, 200, device="cuda")).to(dtype)
    w_down = (0.1 * torch.randn(num_experts, 200, 48, device="cuda")).to(dtype)
    got = ops.grouped(x, w_up, pairs, gather=True, language=language)
    some = torch.randperm(len(order), device="cuda")[:200]  # places
    right = torch.einsum("pk,pnk->pn", x[order[some] // top_k].double(), w_up[want.flatten()[order[some]]].double())
    assert_near(got[some], right, dtype)
    few = slice(0, 20)
    whole = ops.moe(x, logits, w_up, w_down, top_k=top_k, language=language)
    assert_near(whole[few], reference.moe(x[few], logits[few], w_up, w_down, top_k=top_k), dtype, units=4)

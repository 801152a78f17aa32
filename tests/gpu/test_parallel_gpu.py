"""Several ranks on GPUs: the merge kernel, the all-reduce of several ranks on one, and every scheme by NCCL."""

import pytest
import torch

from course_lib import device
from course_lib.ops.all_reduce import Inbox, one_shot
from course_lib.ops.linear_all_reduce import linear_all_reduce
from course_lib.parallel import run
from course_lib.parallel.states import merge, merge_into
from tests.gpu.parallel_on_gpus import schemes


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_merge_kernel_on_a_view(dtype):
    out, part = (torch.randn(1, 8, 300, 128, device="cuda").to(dtype) for _ in range(2))
    lse, part_lse = (4 * torch.randn(1, 8, 300, device="cuda") for _ in range(2))
    lse[:, :, 150:160], part_lse[:, :, 5:15] = -torch.inf, -torch.inf
    part, part_lse = part[:, :, :150].contiguous(), part_lse[:, :, :150].contiguous()
    kept, rows = out[:, :, :150].clone(), (out[:, :, 150:], lse[:, :, 150:])
    expected = merge(*(x.double() for x in (*rows, part, part_lse)))
    merge_into(*rows, part, part_lse)
    tolerance = 2.0**-7 if dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(rows[0].double(), expected[0], rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(rows[1].double(), expected[1], rtol=1e-5, atol=1e-5)
    assert torch.equal(out[:, :, :150], kept)


@pytest.mark.parametrize("num_ranks", [2, 4, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_the_all_reduce_of_several_ranks_on_one_gpu(num_ranks, dtype):
    inbox = Inbox.of_all_ranks(num_ranks, 1 << 17, device="cuda", num_blocks=16)
    for size in (8, 4096, 5 * 4096 + 8, 24, 4096) * 4:
        x, residual = torch.randn(num_ranks, size, device="cuda").to(dtype), torch.randn(size, device="cuda").to(dtype)
        found = one_shot(x, inbox, residual=residual.expand(num_ranks, size).contiguous())
        expected = x.double().sum(0) + residual.double()
        limit = torch.finfo(dtype).eps / 2 * expected.abs() + 1e-5
        assert ((found.double() - expected).abs() <= limit).all()
        assert all(torch.equal(row, found[0]) for row in found)


@pytest.mark.skipif(device.current().num_sms < 4 * 32, reason="blocks of all ranks must be resident together")
@pytest.mark.parametrize("num_tokens, size_k", [(1, 1024), (1, 3584), (8, 3584)])
def test_a_product_that_ends_in_its_all_reduce_on_one_gpu(num_tokens, size_k):
    num_ranks, size_n = 4, 4096
    inbox = Inbox.of_all_ranks(num_ranks, 1 << 17, device="cuda", num_blocks=32)
    weight = (torch.randn(num_ranks, size_n, size_k, device="cuda") / (num_ranks * size_k) ** 0.5).bfloat16()
    for _ in range(20):
        x = torch.randn(num_ranks, num_tokens, size_k, device="cuda").bfloat16()
        residual = torch.randn(1, num_tokens, size_n, device="cuda").bfloat16().repeat(num_ranks, 1, 1)
        expected = torch.einsum("rtk,rnk->tn", x.double(), weight.double()) + residual[0].double()
        found = linear_all_reduce(x, weight, inbox, residual=residual, out=residual)
        limit = torch.finfo(x.dtype).eps / 2 * expected.abs() + 1e-4
        assert ((found.double() - expected).abs() <= limit).all()
        assert all(torch.equal(row, found[0]) for row in found)


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_every_scheme_by_nccl(num_ranks):
    if torch.cuda.device_count() < num_ranks:
        pytest.skip(f"{num_ranks} GPUs are needed")
    for errors in run(schemes, num_ranks, backend="nccl", seconds=200).results:
        assert all(error <= 0.03 for error in errors.values()), errors

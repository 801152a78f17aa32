"""Several ranks on GPUs: the merge kernel, and on two GPUs every scheme by NCCL against one rank."""

import pytest
import torch

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


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="two GPUs are needed")
def test_every_scheme_by_nccl():
    for errors in run(schemes, 2, backend="nccl", seconds=200).results:
        assert all(error <= 0.03 for error in errors.values()), errors

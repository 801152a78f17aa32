"""Cooperative groups, CUB, cuda::barrier and cuda::pipeline: on the SIMT machine and for a compiler of GPUs."""

from pathlib import Path

import pytest
import torch

from course_lib.cuda import nvrtc
from course_lib.errors import CompileError

SOURCE = Path(__file__).with_name("group_kernels.cu").read_text()
SCHEDULES = ["forward", "reverse", "random", "resident"]


@pytest.fixture(params=["fast", *SCHEDULES])
def run(request, profile, launch):
    """run(name, grid, block, *arguments, outputs=…): in the fast build, and in every schedule without a finding."""

    def both(name, grid, block, *arguments):
        if request.param == "fast":
            launch(SOURCE, name, grid, block, *arguments)
        else:
            report = profile(SOURCE, name, grid, block, *arguments, schedule=request.param)
            assert report.ok and not report.remarks, str(report)

    return both


def test_ranks_and_sizes(run):
    out = torch.zeros(8, 96, dtype=torch.int32)
    run("ranks_kernel", 1, 96, out)
    thread = torch.arange(96, dtype=torch.int32)
    constant = torch.ones_like(thread)
    expected = [thread, 96 * constant, thread % 32, thread // 32, 3 * constant, thread % 4, 4 * constant, thread]
    assert torch.equal(out, torch.stack(expected))


def test_sums_scans_and_shuffles(run):
    x = (torch.arange(96) * 37 % 64).float()
    out = torch.zeros(5, 96)
    run("exchanges_kernel", 1, 96, x, out)
    warps, halves = x.view(3, 32), x.view(6, 16)
    down = torch.cat([halves[:, 1:], halves[:, -1:]], 1)
    expected = [warps.sum(1, keepdim=True).expand(3, 32), halves.amax(1, keepdim=True).expand(6, 16), warps.cumsum(1)]
    expected += [halves[:, 3:4].expand(6, 16), down]
    assert torch.equal(out, torch.stack([one.reshape(96) for one in expected]))


def test_one_atomic_for_the_lanes_that_are_together(run):
    x = torch.where(torch.arange(96) % 3 == 0, 1.0, -1.0)
    count, slots = torch.zeros(1, dtype=torch.int32), torch.zeros(96, dtype=torch.int32)
    run("coalesced_kernel", 1, 96, x, count, slots)
    assert count.item() == 32 and sorted(slots[x > 0].tolist()) == list(range(32))
    assert (slots[x < 0] == -1).all()


@pytest.mark.parametrize("num", [1, 100, 128, 1000])
def test_the_reductions_of_a_block(run, num):
    x, out = (torch.arange(num) * 29 % 127).float() - 64, torch.zeros(2)
    run("block_reduce_kernel", 1, 128, x, out, num)
    assert out.tolist() == [x.sum().item(), x.max().item()]


def test_the_reductions_of_a_warp(run):
    x, out = torch.arange(64.0), torch.zeros(2)
    run("warp_reduce_kernel", 1, 64, x, out, 20)
    assert out.tolist() == [x[:20].sum().item(), x[32:52].sum().item()]


def test_copies_of_a_group_and_of_a_thread(run):
    x, out = torch.arange(6 * 128.0), torch.zeros(6 * 128)
    run("copies_kernel", 1, 128, x, out, 6)
    assert torch.equal(out, x.view(6, 128).flip(1).reshape(-1))
    x, out = torch.arange(64.0), torch.zeros(64)
    run("primitives_kernel", 1, 64, x, out)
    assert torch.equal(out, x.flip(0))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("wrong", "name", "line"),
    [
        (1, "block_reduce_kernel", "largest = Reduce(storage)"),
        (2, "copies_kernel", "cg::memcpy_async(block"),
        (3, "copies_kernel", "cuda::memcpy_async(block"),
        (4, "copies_kernel", "cuda::memcpy_async(tile_smem + threadIdx.x"),
    ],
)
def test_a_missing_wait_is_a_finding_at_the_line_of_the_kernel(profile, wrong, name, line, schedule):
    x, out = torch.arange(6 * 128.0), torch.zeros(6 * 128)
    num = 6 if name == "copies_kernel" else 500
    report = profile(SOURCE, name, 1, 128, x, out, num, schedule=schedule, defines={"WRONG": wrong})
    (number,) = [number for number, text in enumerate(SOURCE.splitlines(), 1) if line in text]
    assert not report.ok
    assert any(number in (one.line, one.other_line) for one in report.findings), str(report)


def test_the_compiler_of_a_gpu_takes_the_same_text():
    assert nvrtc.compile_cubin(SOURCE, arch="sm_90")


def test_what_is_missing_says_so(profile):
    with pytest.raises(CompileError, match="takes a cooperative launch, which the course does not make"):
        head = '#include <cooperative_groups.h>\nextern "C" __global__ void k(int* x)'
        profile(head + " { cooperative_groups::this_grid().sync(); }", "k", 1, 32, torch.zeros(1, dtype=torch.int32))
    with pytest.raises(
        CompileError, match=r"#include <cub/block/block_scan.cuh> is a host header.*cub/block/block_reduce.cuh"
    ):
        profile(
            '#include <cub/block/block_scan.cuh>\nextern "C" __global__ void k(int* x) {}', "k", 1, 32, torch.zeros(1)
        )

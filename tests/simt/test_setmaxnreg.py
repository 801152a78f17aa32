"""setmaxnreg of kernels_cu/common on the SIMT machine: the pool of a block, and each way to ask for too much of it."""

from pathlib import Path

import pytest
import torch

from course_lib.cuda import nvrtc
from course_lib.errors import CompileError
from tests.simt import mistakes

SOURCE = Path(__file__).with_name("sync_kernels.cu").read_text()
SCHEDULES = ["forward", "reverse", "random", "resident"]


def line_of(text):
    return mistakes.line_of(SOURCE, text)


def registers(profile, schedule, wrong=0, threads=384):
    out = torch.zeros(threads)
    report = profile(SOURCE, "registers_kernel", 1, threads, out, schedule=schedule, defines={"WRONG": wrong})
    return report, out


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_registers_move_from_producer_to_consumers(profile, schedule):
    """168 each at entry: 240 * 256 + 24 * 128 = 168 * 384. Whoever asks first, the consumers wait for the producer."""
    report, out = registers(profile, schedule)
    assert report.ok and (out == 1).all(), str(report)


def test_the_fast_build_agrees(launch):
    out = torch.zeros(384)
    launch(SOURCE, "registers_kernel", 1, 384, out, defines={"WRONG": 0})
    assert (out == 1).all()


POOL = r"""
#include "common/setmaxnreg.cuh"
extern "C" __global__ void pool_kernel(float* out) {
    if (threadIdx.x / 128 == 0) setmaxnreg_dec<GIVEN>();
    else setmaxnreg_inc<TAKEN>();
    out[threadIdx.x] = 1.0f;
}
"""


@pytest.mark.parametrize(
    "threads, given, taken, fits",
    [
        (512, 32, 160, True),  # 128 each at entry: 160 * 384 + 32 * 128 = 65,536
        (512, 32, 168, False),
        (512, 40, 160, False),
        (256, 24, 256, True),  # 256 each at entry
        (384, 24, 248, False),
    ],
)
def test_the_arithmetic_of_the_pool(profile, threads, given, taken, fits):
    out = torch.zeros(threads)
    report = profile(POOL, "pool_kernel", 1, threads, out, defines={"GIVEN": given, "TAKEN": taken})
    assert report.ok == fits, str(report)
    if not fits:
        total = 65536 // threads // 8 * 8 * threads
        held = f"registers {given} x 128 + {taken} x {threads - 128} exceed the {total:,} of the block"
        assert held in report.of_kind("deadlock")[0].message


def test_launch_bounds_of_two_blocks_halve_the_registers(profile):
    """Two blocks of 256 threads: 128 registers each at entry, not 256, so 96 are fewer and 160 are more."""
    text = POOL.replace("void pool_kernel", "void __launch_bounds__(2 * (WARPS * 32), BLOCKS) pool_kernel")
    for blocks, given, taken, fits in ((2, 96, 160, True), (1, 96, 160, False), (2, 96, 168, False)):
        macros = {"GIVEN": given, "TAKEN": taken, "BLOCKS": blocks, "WARPS": 4}
        report = profile(text, "pool_kernel", 1, 256, torch.zeros(256), defines=macros)
        assert report.ok == fits, (blocks, given, taken, str(report))
        if fits:
            nvrtc.compile_cubin(text, arch="sm_90a", defines=macros)


WRONG = {
    "INC_FOR_DEC": ("bad_registers", "// fewer", "setmaxnreg_inc<24> where each thread holds 168 registers"),
    "DEC_FOR_INC": ("bad_registers", "// more", "setmaxnreg_dec<240> where each thread holds 168 registers"),
    "TOO_MANY": ("deadlock", "// too many", r"registers 80 x 128 \+ 224 x 256 exceed the 64,512 of the block"),
    "ABSENT_FROM_SETMAXNREG": ("deadlock", "// the consumers", r"registers 168 x 128 \+ 240 x 256 exceed the 64,512"),
    "ONE_PRODUCER_WARP": (
        "bad_registers",
        "// the producer",
        "32 threads of warpgroup 0 execute this setmaxnreg; all 128",
    ),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("wrong", WRONG)
def test_each_mistake_has_its_sentence(profile, wrong, schedule):
    report, _ = registers(profile, schedule, wrong)
    mistakes.require_finding(report, SOURCE, *WRONG[wrong])


@pytest.mark.parametrize("wrong", ["INC_FOR_DEC", "TOO_MANY", "ABSENT_FROM_SETMAXNREG", "ONE_PRODUCER_WARP"])
def test_is_real_cuda(wrong):
    nvrtc.compile_cubin(SOURCE, arch="sm_90a", defines={"WRONG": wrong})


def test_the_compiler_agrees_on_the_registers_at_entry():
    with pytest.raises(CompileError, match=r"register count \(240\) which is larger than .* \(168\)"):
        nvrtc.compile_cubin(SOURCE, arch="sm_90a", defines={"WRONG": "DEC_FOR_INC"})

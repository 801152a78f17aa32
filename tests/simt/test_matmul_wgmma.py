"""matmul/09_wgmma on the SIMT machine: right at every edge, clean in every schedule, and each barrier is needed."""

import dataclasses
import re
from types import SimpleNamespace

import pytest
import torch
from matmul_operands import operands

from course_lib import cuda
from course_lib.errors import CompileError, ShapeError, UnsupportedError
from course_lib.ops._foundation.checks import require_hopper
from course_lib.ops.matmul import WGMMA, matmul, plan_matmul

SCHEDULES = ["forward", "reverse", "random", "resident"]
SMALL = {"BLOCK_N": 128, "NUM_STAGES": 2, "GROUP_M": 2}
# one chunk, ragged in every direction, one row below a tile, more of k than the ring holds
SHAPES = [(1, 8, 8), (200, 136, 72), (129, 64, 64), (40, 72, 328)]
ROUNDING = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
WAIT_FULL = "mbarrier_wait_parity(&barriers.full[ring.stage], ring.parity);"
WAIT_EMPTY = "mbarrier_wait_parity(&barriers.empty[ring.stage], ring.parity ^ 1);"
SYNC = "named_barrier_sync(1 + consumer, WARPGROUP);"
# what is broken -> (text before, text after, words of the finding)
MUTANTS = {
    "reads before the copies arrive": (WAIT_FULL, "", "which the bulk load of line"),
    "copies over a stage that is read": (WAIT_EMPTY, "", "which the bulk load of line"),
    "parity swapped": (WAIT_FULL, WAIT_FULL.replace("ring.parity", "ring.parity ^ 1"), "which the bulk load|forever"),
    "released too early": ("    wgmma_wait_group<0>();", "", "which the wgmma of line"),
    "half of the bytes": (
        "(full, STAGE_BYTES)",
        "(full, STAGE_BYTES / 2)",
        "expected 16,384 bytes|which the bulk load",
    ),
    "no proxy fence": ("fence_proxy_async();", "", "without fence_proxy_async"),
    "store before all have written": (f"{SYNC}  // separates all", "//", "no barrier|has not been written"),
    "slot not waited for": (
        "if (thread == 0) bulk_wait_group_read<OUT_SLOTS - 1>();",
        "",
        "which the bulk store of line",
    ),
    "wait for the slot not shared": (f"{SYNC}  // separates TMA", "//", "which the bulk store of line"),
    "barriers not published": ("__syncthreads();", "", "initialised"),
    "an arrival too many": ("empty[stage], NUM_CONSUMERS)", "empty[stage], NUM_CONSUMERS + 1)", "forever"),
    "panels of b overlap": ("panel * B_PANEL_BYTES", "panel * B_PANEL_BYTES / 2", "has not been written"),
}


@pytest.fixture(autouse=True)
def on_the_machine(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")


def is_right(a, b, out):
    exact = a.double() @ b.double()
    return bool(((out.double() - exact).abs() <= ROUNDING[a.dtype] * exact.abs() + 1e-5 * a.shape[1]).all())


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("shape", SHAPES)
def test_any_sizes(shape, dtype):
    a, b = operands(*shape, dtype)
    launch = plan_matmul(a, b, variant="09_wgmma", tiles=SMALL)
    launch.outputs[0].fill_(float("nan"))
    launch.run()
    assert is_right(a, b, launch.outputs[0])


def test_the_tile_of_a_card():
    a, b = operands(130, 264, 72)
    launch = plan_matmul(a, b, variant="09_wgmma")
    assert launch.shared_bytes == 4 * (128 + 256) * 64 * 2 + 32768 and launch.block == 384
    launch.run()
    assert is_right(a, b, launch.outputs[0])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("stages", [2, 3, 5])
def test_clean_in_every_schedule(stages, schedule):
    """Each of two blocks walks over two tiles; rings shorter and longer than the steps of k."""
    a, b = operands(200, 136, 200)
    launch = plan_matmul(a, b, variant="09_wgmma", tiles=SMALL | {"NUM_STAGES": stages})
    assert launch.grid == 2
    report = launch.profile(schedule)
    assert report.ok, str(report)
    assert report.shared_store.conflicts == 0
    assert is_right(a, b, launch.outputs[0])


@pytest.mark.parametrize("blocks", [1, 3, 4])
def test_any_number_of_blocks(blocks):
    a, b = operands(200, 136, 72)
    launch = dataclasses.replace(plan_matmul(a, b, variant="09_wgmma", tiles=SMALL), grid=blocks)
    launch.run()
    assert is_right(a, b, launch.outputs[0])


def assert_found(launch, before, after, words, **defines):
    """With `after` in place of `before`, each schedule finds something that says `words`."""
    source = launch.function.source
    assert source.count(before) == 1
    function = cuda.compile(source.replace(before, after), defines=launch.function.defines | defines, checked=True)
    for schedule in SCHEDULES:
        report = dataclasses.replace(launch, function=function).profile(schedule)
        assert not report.ok and re.search(words, str(report)), f"{schedule}: {report}"


@pytest.mark.parametrize("mutant", MUTANTS)
def test_every_part_of_the_protocol_is_needed(mutant):
    a, b = operands(200, 136, 200)
    assert_found(plan_matmul(a, b, variant="09_wgmma", tiles=SMALL), *MUTANTS[mutant])


def test_an_odd_number_of_panels_is_refused():
    """The next tile would begin with the slot that was filled last, whose store has not been waited for."""
    a, b = operands(200, 136, 72)
    launch = plan_matmul(a, b, variant="09_wgmma", tiles=SMALL)
    with pytest.raises(CompileError, match="each tile begins with slot 0"):
        cuda.compile(launch.function.source, defines=launch.function.defines | {"BLOCK_N": 64})
    assert_found(launch, "NUM_PANELS % OUT_SLOTS == 0", "true", "which the bulk store of line", BLOCK_N=64)


def test_what_does_not_fit_is_said():
    a, b = operands(16, 16, 16)
    with pytest.raises(ShapeError, match="size_k, the columns of a, is 12; 09_wgmma copies 8 numbers"):
        matmul(a[:, :12].contiguous(), b[:12], variant="09_wgmma")
    with pytest.raises(ShapeError, match="this kernel takes torch.float16"):
        matmul(a.float(), b.float(), variant="09_wgmma")
    with pytest.raises(UnsupportedError, match="for 08_pipelined"):
        matmul(a, b, variant="09_wgmma", language="triton")


@pytest.mark.parametrize("capability", [(8, 6), (10, 0), (12, 0)])
def test_a_card_without_wgmma_is_refused(monkeypatch, capability):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    with pytest.raises(UnsupportedError, match=f"this one has {capability[0]}.{capability[1]}"):
        require_hopper(SimpleNamespace(is_cuda=True, device="cuda"), "09_wgmma")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    require_hopper(SimpleNamespace(is_cuda=True, device="cuda"), "09_wgmma")


def test_the_ring_fits_a_hopper():
    assert WGMMA["NUM_STAGES"] * (128 + WGMMA["BLOCK_N"]) * 64 * 2 + 32768 + 1024 <= 227 * 1024

"""The ladder of kernels_cu/matmul: right for any sizes, clean in every schedule, and each step saves what it says."""

import dataclasses
import functools

import matmul_operands
import pytest
import torch

from course_lib import device
from course_lib.errors import ShapeError, UnsupportedError
from course_lib.ops.matmul import HALF_VARIANTS, VARIANTS, matmul, plan_matmul

SCHEDULES = ["forward", "reverse", "random", "resident"]
SHAPES = [(1, 1, 1), (5, 7, 3), (64, 64, 32), (33, 68, 20), (70, 65, 37), (3, 200, 8)]  # size_m, size_n, size_k
# of whole 16-byte chunks, for 08: one tile and less, ragged in every direction, more tiles of k than stages
CHUNKED = [(1, 8, 8), (64, 64, 32), (33, 72, 24), (130, 264, 40), (3, 200, 328)]
SMALL = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "WARP_M": 32, "WARP_N": 32, "NUM_STAGES": 3, "GROUP_M": 2}
MORE_STAGES = {"BLOCK_N": 128, "BLOCK_K": 32, "NUM_STAGES": 4, "GROUP_M": 3}


def operands(variant, *sizes):
    """As matmul_operands.operands, in the dtype of the variant."""
    return matmul_operands.operands(*sizes, torch.float16 if variant in HALF_VARIANTS else torch.float32)


def assert_right(a, b, out):
    tolerance = {"rtol": 1e-3, "atol": 1e-5 * a.shape[1]} if a.dtype == torch.float16 else {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(out.double(), a.double() @ b.double(), **tolerance)


@pytest.fixture(autouse=True)
def on_the_machine(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")


@pytest.mark.parametrize("variant", VARIANTS)
def test_any_sizes(variant):
    for shape in CHUNKED if variant == "08_pipelined" else SHAPES:
        a, b = operands(variant, *shape)
        assert_right(a, b, matmul(a, b, variant=variant))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_clean_in_every_schedule(variant, schedule):
    for shape in [(33, 72, 104), (24, 8, 40)] if variant == "08_pipelined" else [(33, 20, 21), (24, 72, 40)]:
        a, b = operands(variant, *shape)
        launch = plan_matmul(a, b, variant=variant)
        report = launch.profile(schedule)
        assert report.ok, str(report)
        assert_right(a, b, launch.outputs[0])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("tiles", [SMALL, MORE_STAGES], ids=["small", "more_stages"])
def test_other_tiles_of_the_pipeline(tiles, schedule):
    """Several blocks in ragged groups; fewer tiles of k than stages and more, so that the last lies in any stage."""
    for shape in [(140, 136, 8), (70, 72, 64), (8, 72, 96), (8, 264, 232)]:
        a, b = operands("08_pipelined", *shape)
        launch = plan_matmul(a, b, variant="08_pipelined", tiles=tiles)
        report = launch.profile(schedule)
        assert report.ok, str(report)
        assert report.shared_load.conflicts == report.shared_store.conflicts == 0
        assert_right(a, b, launch.outputs[0])


def test_a_card_with_little_shared_memory_gets_smaller_tiles(monkeypatch):
    a, b = operands("08_pipelined", 130, 72, 40)
    assert plan_matmul(a, b).shared_bytes == 3 * (128 + 256) * 64 * 2
    small = dataclasses.replace(device.current(), shared_bytes_per_block=99 * 1024)
    monkeypatch.setattr(device, "current", lambda: small)
    launch = plan_matmul(a, b)
    assert launch.shared_bytes <= 99 * 1024
    launch.run()
    assert_right(a, b, launch.outputs[0])


@functools.cache
def traffic(variant):
    return plan_matmul(*operands(variant, 64, 64, 32), variant=variant).profile()


def test_each_step_saves_what_it_says():
    reports = {variant: traffic(variant) for variant in VARIANTS}
    pipelined = reports.pop("08_pipelined")
    sectors = {variant: report.global_load.sectors for variant, report in reports.items()}
    assert sectors["01_naive"] > 6 * sectors["02_coalesced"]
    assert sectors["02_coalesced"] == 10 * sectors["03_shared_tile"]
    assert sectors["03_shared_tile"] == 4 * sectors["04_register_tile"]  # tiles of 64 instead of 16
    assert sectors["04_register_tile"] == sectors["05_vectorised"]
    assert sectors["05_vectorised"] == 2 * sectors["06_wmma"] == 2 * sectors["07_mma"]  # halves have half the bytes
    shared = {variant: report.shared_load.requests for variant, report in reports.items()}
    assert shared["03_shared_tile"] == 4 * shared["04_register_tile"] == 16 * shared["05_vectorised"]
    assert reports["05_vectorised"].global_load.requests * 4 == reports["04_register_tile"].global_load.requests
    assert reports["06_wmma"].shared_load.conflicts > 0
    assert reports["07_mma"].shared_load.conflicts == reports["07_mma"].shared_store.conflicts == 0
    assert pipelined.shared_load.conflicts == pipelined.shared_store.conflicts == 0
    assert pipelined.global_store.sectors == pipelined.global_store.ideal_sectors  # whole lines


def test_what_does_not_fit_is_said():
    a, b = operands("05_vectorised", 4, 5, 6)
    with pytest.raises(ShapeError, match="a has 6 columns and b 4 rows"):
        matmul(a, a, variant="01_naive")
    with pytest.raises(ShapeError, match="float16"):
        matmul(a, b, variant="07_mma")
    with pytest.raises(ShapeError, match="b starts at an address that is no multiple of 16 bytes"):
        matmul(a, torch.zeros(31)[1:].view(6, 5), variant="05_vectorised")
    half = torch.zeros(4, 12).half()
    with pytest.raises(ShapeError, match="size_k, the columns of a, is 12; 08_pipelined"):
        matmul(half, torch.zeros(12, 8).half())
    with pytest.raises(UnsupportedError, match="variant='7'"):
        matmul(a, b, variant="7")

"""The ladder of kernels_cu/matmul: right for any sizes, clean in every schedule, and each step saves what it says."""

import functools

import pytest
import torch

from course_lib import cuda

SCHEDULES = ["forward", "reverse", "random", "resident"]
SHAPES = [(1, 1, 1), (5, 7, 3), (64, 64, 32), (33, 68, 20), (70, 65, 37), (3, 200, 8)]  # size_m, size_n, size_k


def up(size, tile):
    return (size + tile - 1) // tile


# stem -> (defines, grid of (size_m, size_n), block)
TILES = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 16}
STEPS = {
    "01_naive": ({}, lambda m, n: (up(m, 32), up(n, 8)), (32, 8)),
    "02_coalesced": ({}, lambda m, n: (up(n, 32), up(m, 8)), (32, 8)),
    "03_shared_tile": ({"TILE": 16}, lambda m, n: (up(n, 16), up(m, 16)), (16, 16)),
    "04_register_tile": ({**TILES, "THREAD_M": 4, "THREAD_N": 4}, lambda m, n: (up(n, 64), up(m, 64)), 256),
    "05_vectorised": (TILES, lambda m, n: (up(n, 64), up(m, 64)), 256),
    "06_mma": ({}, lambda m, n: (up(n, 64), up(m, 64)), 128),
}


@functools.cache
def kernel(stem):
    return cuda.load(f"matmul/{stem}.cu", defines=STEPS[stem][0])


def arguments(stem, size_m, size_n, size_k):
    generator = torch.Generator().manual_seed(size_m + size_n)
    dtype = torch.float16 if stem == "06_mma" else torch.float32
    a = torch.randn(size_m, size_k, generator=generator).to(dtype)
    b = torch.randn(size_k, size_n, generator=generator).to(dtype)
    return a, b, torch.full((size_m, size_n), torch.nan, dtype=dtype), size_m, size_n, size_k


def assert_right(a, b, out):
    tolerance = {"rtol": 1e-3, "atol": 1e-5 * a.shape[1]} if a.dtype == torch.float16 else {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(out.double(), a.double() @ b.double(), **tolerance)


@pytest.fixture(autouse=True)
def on_the_machine(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")


@pytest.mark.parametrize("stem", STEPS)
def test_any_sizes(stem):
    _, grid, block = STEPS[stem]
    for shape in SHAPES:
        values = arguments(stem, *shape)
        kernel(stem)(grid(*shape[:2]), block, *values)
        assert_right(*values[:3])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("stem", STEPS)
def test_clean_in_every_schedule(stem, schedule):
    _, grid, block = STEPS[stem]
    for shape in [(33, 20, 21), (24, 72, 40)]:
        values = arguments(stem, *shape)
        report = kernel(stem).profile(grid(*shape[:2]), block, *values, schedule=schedule, outputs=[values[2]])
        assert report.ok, str(report)
        assert_right(*values[:3])


@functools.cache
def traffic(stem):
    _, grid, block = STEPS[stem]
    return kernel(stem).profile(grid(64, 64), block, *arguments(stem, 64, 64, 32))


def test_each_step_saves_what_it_says():
    reports = {stem: traffic(stem) for stem in STEPS}
    sectors = {stem: report.global_load.sectors for stem, report in reports.items()}
    assert sectors["01_naive"] > 6 * sectors["02_coalesced"]
    assert sectors["02_coalesced"] == 10 * sectors["03_shared_tile"]
    assert sectors["03_shared_tile"] == 4 * sectors["04_register_tile"]  # tiles of 64 instead of 16
    assert sectors["04_register_tile"] == sectors["05_vectorised"]
    assert sectors["05_vectorised"] == 2 * sectors["06_mma"]  # halves have half the bytes
    shared = {stem: report.shared_load.requests for stem, report in reports.items()}
    assert shared["03_shared_tile"] == 4 * shared["04_register_tile"] == 16 * shared["05_vectorised"]
    assert reports["05_vectorised"].global_load.requests * 4 == reports["04_register_tile"].global_load.requests
    assert reports["06_mma"].shared_load.conflicts == reports["06_mma"].shared_store.conflicts == 0

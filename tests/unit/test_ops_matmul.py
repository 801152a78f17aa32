"""The Triton twin of the matrix product: right for any sizes, clean in every order; its tiles fit a Hopper card."""

import pytest
import torch
from compiled_before import of_triton
from matmul_operands import operands

from course_lib import triton_kernels
from course_lib.errors import ShapeError, UnsupportedError
from course_lib.ops.matmul import TRITON_TILES, matmul, plan_matmul
from course_lib.triton.aot import compile_for
from course_lib.triton_kernels.matmul import GROUP_M, TILES, tuned_matmul_kernel

SHARED_LIMIT = 227 * 1024  # bytes of a block on compute capability 9.0


@pytest.fixture(autouse=True)
def on_the_interpreter(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 7, 3), (64, 64, 32), (130, 65, 37), (40, 200, 100)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float16, 1e-3), (torch.bfloat16, 8e-3)])
def test_any_sizes(shape, dtype, tolerance):
    a, b = operands(*shape, dtype)
    got = matmul(a, b, language="triton")
    torch.testing.assert_close(got.double(), a.double() @ b.double(), rtol=tolerance, atol=1e-5 * shape[2])


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random"])
def test_clean_in_every_order_and_each_number_is_written_once(schedule):
    a, b = operands(50, 70, 40)
    launch = plan_matmul(a, b, language="triton", tiles={"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 16, "GROUP_M": 3})
    report = launch.profile(schedule)
    assert report.ok, str(report)
    assert report.load.bytes == 2 * (50 * 40 * 3 + 40 * 70 * 4)  # a once a column of tiles, b once a row of tiles
    assert report.store.bytes == 2 * 50 * 70
    torch.testing.assert_close(launch.outputs[0].double(), a.double() @ b.double(), rtol=1e-3, atol=1e-3)


def test_every_group_size_covers_every_tile():
    a, b = operands(50, 70, 16)
    for group_m in (1, 2, 4, 9):
        got = plan_matmul(a, b, language="triton", tiles={"BLOCK_M": 16, "BLOCK_N": 16, "GROUP_M": group_m})
        got.outputs[0].fill_(float("nan"))
        got.run()
        torch.testing.assert_close(got.outputs[0].double(), a.double() @ b.double(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("tile", TILES, ids=str)
def test_tiles_of_autotune_fit_a_hopper(tile, compiled_before):
    block_m, block_n, block_k, num_stages, num_warps = tile
    types = dict.fromkeys(("a_ptr", "b_ptr", "out_ptr"), "*fp16") | dict.fromkeys(("size_m", "size_n"), "i32:16")
    constexprs = {"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k, "GROUP_M": GROUP_M}
    request = triton_kernels.load("matmul/08_pipelined"), types | {"size_k": "i32:16"}, constexprs, "sm_90"
    if compiled_before(of_triton(*request), num_stages, num_warps):
        return
    compiled = compile_for(*request, num_stages=num_stages, num_warps=num_warps)
    assert compiled.spill_bytes == 0
    assert compiled.shared_bytes <= SHARED_LIMIT
    assert "wgmma" in compiled.ptx


def test_autotune_tries_every_tile_and_compiles_the_same_function():
    assert tuned_matmul_kernel.fn is triton_kernels.load("matmul/08_pipelined")
    assert [config.kwargs.keys() for config in tuned_matmul_kernel.configs] == [TRITON_TILES.keys()] * len(TILES)


def test_what_does_not_fit_is_said():
    a, b = operands(8, 8, 8)
    with pytest.raises(UnsupportedError, match="for 08_pipelined"):
        matmul(a, b, variant="07_mma", language="triton")
    with pytest.raises(ShapeError, match="b is torch.float16; this kernel takes torch.bfloat16"):
        matmul(a.bfloat16(), b, language="triton")

"""The tensor-core and copy wrappers of kernels_cu/common on a GPU, beside the SIMT machine.

The kernels are those of tests/simt; there every lane is compared with the layouts of the PTX ISA, here with the GPU.
The matrix products built on them are compared with torch.
"""

from pathlib import Path

import pytest
import torch

from course_lib import cuda, device
from course_lib.ops.matmul import HALF_VARIANTS, VARIANTS, matmul, plan_matmul

KERNELS = Path(__file__).parents[1] / "simt"
NEEDS_90A = pytest.mark.skipif(torch.cuda.get_device_capability() != (9, 0), reason="wgmma needs capability 9.0")
NEEDS_80 = pytest.mark.skipif(
    torch.cuda.get_device_capability() < (8, 0), reason="mma.m16n8k16 and cp.async need compute capability 8.0"
)


def both(file, name, block, *arguments, defines=None):
    """Tensors after the launch on the GPU, and after that on the SIMT machine, in order of the arguments."""
    kernel = cuda.compile((KERNELS / file).read_text(), name, defines=defines, filename=file)
    on_gpu = [one.cuda() if isinstance(one, torch.Tensor) else one for one in arguments]
    on_machine = [one.clone() if isinstance(one, torch.Tensor) else one for one in arguments]
    kernel(1, block, *on_gpu)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_ENGINE", "cpu")
        assert device.engine() == "cpu"
        kernel(1, block, *on_machine)
    return [
        (first.cpu(), second)
        for first, second in zip(on_gpu, on_machine, strict=True)
        if isinstance(first, torch.Tensor)
    ]


def whole_numbers(*size, dtype=torch.float16):
    """Small whole numbers as 16-bit patterns: sums of their products are exact whatever the order."""
    return torch.randint(-9, 10, size).to(dtype).view(torch.int16).view(torch.uint16)


def test_ldmatrix():
    tiles = torch.arange(256, dtype=torch.int32).mul(257).to(torch.int16).view(torch.uint16)
    gpu, machine = both("ldmatrix_kernels.cu", "ldmatrix_kernel", 32, tiles, torch.zeros(768, dtype=torch.uint32))[1]
    assert torch.equal(gpu.view(torch.int32), machine.view(torch.int32))


@NEEDS_80
@pytest.mark.parametrize(("dtype", "which"), [(torch.float16, 0), (torch.bfloat16, 1)])
def test_mma_of_whole_numbers(dtype, which):
    a, b = (whole_numbers(32, count, dtype=dtype).view(torch.int32).view(torch.uint32) for count in (8, 4))
    c = torch.randint(-9, 10, (32, 4)).float()
    c_half = whole_numbers(32, 4).view(torch.int32).view(torch.uint32)
    d, d_half = torch.zeros(2, 32, 4), torch.zeros(32, 2, dtype=torch.uint32)
    results = both("mma_kernels.cu", "mma_kernel", 32, a, b, c, c_half, d, d_half)
    gpu, machine = results[4]
    assert torch.equal(gpu[which], machine[which])
    if dtype == torch.float16:
        assert torch.equal(*(half.view(torch.int32) for half in results[5]))


@NEEDS_80
def test_mma_of_any_numbers():
    """The tensor core keeps other digits than a float between the sixteen products."""
    a, b = (torch.randn(32, count).half().view(torch.int32).view(torch.uint32) for count in (8, 4))
    c, c_half = torch.randn(32, 4), torch.zeros(32, 2, dtype=torch.uint32)
    d, d_half = torch.zeros(2, 32, 4), torch.zeros(32, 2, dtype=torch.uint32)
    results = both("mma_kernels.cu", "mma_kernel", 32, a, b, c, c_half, d, d_half)
    torch.testing.assert_close(results[4][0][0], results[4][1][0], rtol=1e-5, atol=1e-5)
    halves = [half.view(torch.float16).float() for half in results[5]]
    torch.testing.assert_close(*halves, rtol=2e-3, atol=2e-2)


@NEEDS_80
def test_product_through_shared_memory():
    a, b = whole_numbers(16, 16), whole_numbers(16, 8)
    gpu, machine = both("mma_kernels.cu", "product_kernel", 32, a, b, torch.zeros(16, 8))[2]
    assert torch.equal(gpu, machine)
    assert torch.equal(gpu, a.view(torch.float16).float() @ b.view(torch.float16).float())


@NEEDS_80
@pytest.mark.parametrize("layouts", [(a, b) for a in ("row_major", "col_major") for b in ("row_major", "col_major")])
@pytest.mark.parametrize("shape", [(16, 16), (32, 8), (8, 32)])
@pytest.mark.parametrize("kinds", [("__half", "float"), ("__half", "__half"), ("__nv_bfloat16", "float")])
def test_wmma_of_whole_numbers(shape, layouts, kinds):
    """Every shape, layout and type of nvcuda::wmma that the course's header promises, both engines."""
    (size_m, size_n), (a_layout, b_layout), (operand, total) = shape, layouts, kinds
    dtype = torch.bfloat16 if operand == "__nv_bfloat16" else torch.float16
    a, b = torch.randint(-9, 10, (size_m, 16)).to(dtype), torch.randint(-9, 10, (16, size_n)).to(dtype)
    c = torch.randint(-9, 10, shape).to(torch.float32 if total == "float" else torch.float16)
    a_memory, b_memory = (
        (x if layout == "row_major" else x.T).contiguous() for x, layout in ((a, a_layout), (b, b_layout))
    )
    defines = {"SIZE_M": size_m, "SIZE_N": size_n, "A_LAYOUT": a_layout, "B_LAYOUT": b_layout, "OPERAND": operand}
    defines |= {"SUM": total, "A_LD": a_memory.shape[1], "B_LD": b_memory.shape[1]}
    operands = (x.view(torch.int16).view(torch.uint16) for x in (a_memory, b_memory))
    results = both("wmma_kernels.cu", "wmma_kernel", 32, *operands, c, c.new_zeros(size_n, size_m), defines=defines)
    gpu, machine = results[3]
    assert torch.equal(gpu, machine)
    assert torch.equal(gpu.T.double(), (c.double() + a.double() @ b.double()) / 2)


@NEEDS_80
def test_copies_of_every_size_and_tail():
    x, lengths = torch.randint(0, 200, (32, 32), dtype=torch.uint8), torch.arange(32, dtype=torch.int32) % 17
    out = torch.zeros(6, 32, 16, dtype=torch.uint8)
    assert torch.equal(*both("async_copy_kernels.cu", "sizes_kernel", 32, x, lengths, out)[2])


@NEEDS_80
@pytest.mark.parametrize("num_tiles", [1, 2, 5, 100])
def test_double_buffer(num_tiles):
    x = torch.arange(num_tiles * 64).reshape(num_tiles, 64).float()
    assert torch.equal(*both("async_copy_kernels.cu", "double_buffer_kernel", 64, x, torch.zeros(64), num_tiles, 15)[1])


@NEEDS_80
@pytest.mark.parametrize("row_bytes", [64, 128, 256])
def test_swizzled_tile(row_bytes):
    x = torch.arange(16 * row_bytes, dtype=torch.int16).view(torch.uint16)
    out = torch.zeros(row_bytes // 16 * 128, dtype=torch.uint32)
    results = both("swizzle_kernels.cu", "swizzle_kernel", 32, x, out, defines={"ROW_BYTES": row_bytes})
    assert torch.equal(*(one.view(torch.int32) for one in results[1]))


@NEEDS_80
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (70, 65, 37), (256, 192, 320)])
def test_matmul(variant, shape):
    size_m, size_n, size_k = shape
    if variant == "08_pipelined":
        size_n, size_k = size_n + -size_n % 8, size_k + -size_k % 8  # whole 16-byte chunks
    dtype = torch.float16 if variant in HALF_VARIANTS else torch.float32
    a, b = torch.randn(size_m, size_k).to(dtype), torch.randn(size_k, size_n).to(dtype)
    got = matmul(a.cuda(), b.cuda(), variant=variant).cpu()
    tolerance = {"rtol": 2e-3, "atol": 1e-3} if variant in HALF_VARIANTS else {"rtol": 1e-5, "atol": 1e-4}
    torch.testing.assert_close(got.double(), a.double() @ b.double(), **tolerance)


# an element, ragged in every direction, more of k than the ring holds, several tiles a block on any card
WGMMA_SHAPES = [(1, 8, 8), (200, 136, 72), (300, 520, 1000), (129, 264, 64), (3000, 8200, 136)]


@NEEDS_90A
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("tiles", [{}, {"BLOCK_N": 128, "NUM_STAGES": 2, "GROUP_M": 3}], ids=["large", "small"])
@pytest.mark.parametrize("shape", WGMMA_SHAPES)
def test_matmul_with_wgmma(shape, tiles, dtype):
    """Twice: the barriers of the second launch start anew; NaN shows what is not written."""
    size_m, size_n, size_k = shape
    a, b = torch.randn(size_m, size_k).to(dtype).cuda(), torch.randn(size_k, size_n).to(dtype).cuda()
    launch, exact = plan_matmul(a, b, variant="09_wgmma", tiles=tiles), a.double() @ b.double()
    for _ in range(2):
        launch.outputs[0].fill_(float("nan"))
        launch.run()
        rounding = 2.0**-11 if dtype == torch.float16 else 2.0**-8
        torch.testing.assert_close(launch.outputs[0].double(), exact, rtol=rounding, atol=1e-5 * size_k)


@NEEDS_90A
def test_wgmma_sums_whole_numbers_exactly():
    a, b = (torch.randint(-9, 10, size).half().cuda() for size in ((200, 136), (136, 328)))
    assert torch.equal(matmul(a, b, variant="09_wgmma").double(), (a.double() @ b.double()).half().double())

"""What the tests of tensor maps on the CPU and on a GPU share: boxes, a kernel that copies one, what is right.

A box is loaded with TMA, its bytes are copied out as they lie in shared memory, and it is stored through a second map
unless it begins before the tensor: a load may, a store may not.
"""

from dataclasses import dataclass

import torch

from course_lib import cuda

KERNEL = """#include "common/tma.cuh"
extern "C" __global__ void box_kernel(const __grid_constant__ TensorMap from, const __grid_constant__ TensorMap to,
                                      unsigned char* seen, int c0, int c1, int c2, int c3) {
    __shared__ alignas(1024) unsigned char tile_smem[BOX_BYTES];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect_tx(&full, BOX_BYTES);
        LOAD;
    }
    mbarrier_wait_parity(&full, 0);
    for (int i = threadIdx.x; i < BOX_BYTES; i += blockDim.x) seen[i] = tile_smem[i];
    if (threadIdx.x == 0) {
        STORE;
        bulk_commit_group();
        bulk_wait_group<0>();
    }
}
"""
COPIES = {
    rank: {
        "LOAD": f"tma_load_{rank}d(tile_smem, &from, &full, {coordinates})",
        "STORE": f"tma_store_{rank}d(&to, tile_smem, {coordinates})",
    }
    for rank, coordinates in ((2, "c0, c1"), (3, "c0, c1, c2"), (4, "c0, c1, c2, c3"))
}
SWIZZLED_BITS = {None: 0, "32B": 1, "64B": 2, "128B": 3}  # of the 16-byte chunk's number, taken from bits 7 and up


@dataclass(frozen=True)
class Case:
    """One box of one tensor; `at` is its first element. Sizes, box and `at` are outermost first."""

    sizes: tuple
    box: tuple
    at: tuple
    swizzle: str | None = None
    dtype: torch.dtype = torch.float16
    order: tuple = ()  # of the dimensions in memory, outermost first; empty: as they are
    padding: int = 0  # elements between one row in memory and the next

    def __str__(self):
        words = ["x".join(map(str, self.sizes)), "box", "x".join(map(str, self.box)), "at", *map(str, self.at)]
        return " ".join([*words, str(self.swizzle), str(self.dtype)[6:], *(["permuted"] if self.order else [])])

    def tensor(self, device):
        """A tensor with these sizes whose elements all differ, up to the range of the dtype."""
        order = self.order or tuple(range(len(self.sizes)))
        in_memory = [self.sizes[index] for index in order]
        in_memory[-1] += self.padding
        whole = torch.arange(1, 1 + torch.Size(in_memory).numel()).reshape(in_memory)
        whole = (whole % 251 if self.dtype.itemsize == 1 else whole % 32749).to(_plain(self.dtype)).to(device)
        whole = whole[..., : whole.shape[-1] - self.padding]
        return whole.view(self.dtype).permute([order.index(index) for index in range(len(order))])


CASES = [
    *(Case((96, 64), (16, 64), (32, 0), swizzle) for swizzle in (None, "128B")),
    *(Case((96, 160), (48, width), (16, 32), swizzle) for width, swizzle in ((32, "64B"), (16, "32B"), (64, "128B"))),
    *(Case((37, 56), (16, 32), at, "64B") for at in ((32, 32), (-3, -8), (36, 48), (40, 0))),  # edges, and outside
    Case((50, 40), (24, 32), (0, 16), "128B", torch.float32),
    Case((50, 144), (24, 128), (30, 32), "128B", torch.float8_e4m3fn),
    Case((50, 48), (256, 16), (0, 0), None, torch.uint8, padding=16),
    Case((3, 70, 64), (1, 32, 64), (2, 48, 0), "128B", torch.bfloat16),
    Case((3, 70, 64), (2, 5, 64), (2, 68, 0), "128B", torch.int16),
    Case((2, 3, 70, 128), (1, 1, 64, 64), (1, 2, 32, 64), "128B", torch.bfloat16),
    Case((2, 3, 70, 128), (1, 1, 64, 64), (1, 2, 32, 64), "128B", torch.bfloat16, order=(0, 2, 1, 3)),
    Case((2, 3, 20, 32), (2, 2, 9, 8), (0, 2, 15, 16), "32B", torch.int32, order=(2, 0, 1, 3), padding=4),
    Case((1, 3, 20, 32), (1, 2, 9, 8), (0, -1, -2, 8), None, torch.float64),
]


def run(case, device, *, schedule=None):
    """Load and store the box of a case; with a schedule, checked on the SIMT machine.

    Returns
    -------
    (seen, stored, report) : the bytes in shared memory; the tensor behind the second map, filled with ones before; the
        Report with a schedule, else None
    """
    source, rank = case.tensor(device), len(case.sizes)
    stored = torch.empty_strided(source.shape, source.stride(), dtype=_plain(case.dtype), device=device).fill_(1)
    maps = [cuda.tensor_map(x, case.box, case.swizzle) for x in (source, stored.view(case.dtype))]
    seen = torch.zeros(maps[0].box_bytes, dtype=torch.uint8, device=device)
    copies = COPIES[rank] if min(case.at) >= 0 else {**COPIES[rank], "STORE": ""}
    kernel = cuda.compile(KERNEL, defines={"BOX_BYTES": maps[0].box_bytes, **copies})
    coordinates = (*case.at[::-1], 0, 0)[:4]
    if schedule is None:
        return seen, stored, kernel(1, 64, *maps, seen, *coordinates)
    return seen, stored, kernel.profile(1, 64, *maps, seen, *coordinates, schedule=schedule)


def require_right(case, seen, stored):
    """Hold what `run` returned against torch."""
    source = case.tensor("cpu").view(_plain(case.dtype))
    outside = torch.zeros(case.box, dtype=source.dtype)
    inside_box, inside_tensor = _overlap(case)
    outside[inside_box] = source[inside_tensor]
    rows = outside.contiguous().flatten().view(torch.uint8)
    assert torch.equal(seen.cpu(), swizzled(rows, case.swizzle))
    expected = torch.ones_like(source)
    if min(case.at) >= 0:
        expected[inside_tensor] = source[inside_tensor]
    assert torch.equal(stored.cpu(), expected)


def swizzled(rows, swizzle):
    """Bytes as they lie in shared memory: bits 4, 5, 6 of an address change with bits 7, 8, 9."""
    address = torch.arange(rows.numel())
    mask = (1 << SWIZZLED_BITS[swizzle]) - 1
    laid = torch.empty_like(rows)
    laid[address ^ ((address >> 7 & mask) << 4)] = rows
    return laid


def _overlap(case):
    """The part of the box that is inside the tensor, as slices of the box and of the tensor."""
    in_box, in_tensor = [], []
    for size, side, first in zip(case.sizes, case.box, case.at, strict=True):
        low, high = max(first, 0), max(min(first + side, size), max(first, 0))
        in_box.append(slice(low - first, high - first))
        in_tensor.append(slice(low, high))
    return tuple(in_box), tuple(in_tensor)


def _plain(dtype):
    """A dtype of the same bytes in which torch can compare and copy everything."""
    return {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]

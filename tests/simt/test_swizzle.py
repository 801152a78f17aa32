"""The XOR swizzle of kernels_cu/common: what is stored is found again, and no access of a tile shares a bank.

Both are shown by what the machine records, row by plain row beside it.
"""

from pathlib import Path

import numpy as np
import pytest
import torch

from course_lib.cuda import nvrtc

SOURCE = Path(__file__).with_name("swizzle_kernels.cu").read_text()
WIDTHS = [64, 128, 256]
PLAIN_PASSES = {64: 4, 128: 8, 256: 8}  # of one tile: rows 128 bytes apart meet in the same banks
LINES = {text: SOURCE[: SOURCE.index(text)].count("\n") + 1 for text in ("cp_async_16(", "ldmatrix_x4(")}


def tile(row_bytes):
    """x (32, row_bytes / 2) of 16-bit numbers, all different, and what ldmatrix gives of each column of chunks."""
    x = np.arange(16 * row_bytes, dtype=np.uint16).reshape(32, row_bytes // 2)
    lane = np.arange(32)
    out = np.zeros((row_bytes // 16, 32, 4, 2), np.uint16)
    for chunk in range(row_bytes // 16):
        for i in range(4):
            for half in range(2):
                out[chunk, :, i, half] = x[8 * i + lane // 4, chunk * 8 + 2 * (lane % 4) + half]
    return torch.from_numpy(x), out


def arguments(row_bytes):
    x, expected = tile(row_bytes)
    return x, torch.zeros(row_bytes // 16 * 32 * 4, dtype=torch.uint32), expected


def same(out, expected):
    return np.array_equal(out.view(torch.int32).numpy().view(np.uint16).reshape(expected.shape), expected)


@pytest.mark.parametrize("row_bytes", WIDTHS)
def test_swizzled_tiles_have_no_conflicts(profile, launch, row_bytes):
    x, out, expected = arguments(row_bytes)
    report = profile(SOURCE, "swizzle_kernel", 1, 32, x, out, defines={"ROW_BYTES": row_bytes})
    assert report.ok and same(out, expected), str(report)
    load, store = report.lines[LINES["ldmatrix_x4("]].shared_load, report.lines[LINES["cp_async_16("]].shared_store
    assert load.requests == row_bytes // 16 and load.wavefronts == 4 * load.requests and load.conflicts == 0
    assert store.wavefronts == 4 * store.requests and store.conflicts == 0
    out.zero_()
    launch(SOURCE, "swizzle_kernel", 1, 32, x, out, defines={"ROW_BYTES": row_bytes})
    assert same(out, expected)


@pytest.mark.parametrize("row_bytes", WIDTHS)
def test_plain_rows_have_them(profile, row_bytes):
    x, out, expected = arguments(row_bytes)
    report = profile(SOURCE, "swizzle_kernel", 1, 32, x, out, defines={"ROW_BYTES": row_bytes, "PLAIN": 1})
    assert report.ok and same(out, expected), str(report)
    load = report.lines[LINES["ldmatrix_x4("]].shared_load
    assert load.wavefronts == 4 * PLAIN_PASSES[row_bytes] * load.requests
    assert load.conflicts == 4 * (PLAIN_PASSES[row_bytes] - 1) * load.requests


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_compiles_for_gpus(arch):
    cubin = nvrtc.compile_cubin(SOURCE, arch=arch, defines={"ROW_BYTES": 128})
    assert not cubin.notes and cubin.resources["swizzle_kernel"].spill_bytes == 0


def test_compiles_by_itself_for_older_gpus():
    text = '#include "common/swizzle.cuh"\nextern "C" __global__ void k(int* x) { x[0] = swizzle_offset<64>(x[1], 2); }'
    nvrtc.compile_cubin(text, arch="sm_75")

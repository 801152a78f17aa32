"""ldmatrix and mma.m16n8k16 of kernels_cu/common: every lane and register against the layouts of the PTX ISA.

The layouts are written a second time, in the PTX ISA's own form, so that an error in either shows.
"""

from pathlib import Path

import numpy as np
import pytest
import torch

from course_lib.cuda import nvrtc, sass
from course_lib.cuda.source import with_headers_digest
from course_lib.errors import KernelFault
from tests.simt.mistakes import line_of, require_refused

HERE = Path(__file__).parent
LDMATRIX, MMA = (HERE / "ldmatrix_kernels.cu").read_text(), (HERE / "mma_kernels.cu").read_text()
SCHEDULES = ["forward", "reverse", "random", "resident"]
ARCHITECTURES = ["sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120"]


def words(array):
    """A numpy array of 16-bit patterns, last axis in pairs, as a tensor of 32-bit words."""
    return torch.from_numpy(np.ascontiguousarray(array).view(np.uint32).view(np.int32).copy()).view(torch.uint32)


def halves(tensor):
    """The other way round: 16-bit patterns of a tensor of words."""
    return tensor.view(torch.int32).numpy().view(np.uint16)


# ---- layouts: (row, column) of number i of every lane, as arrays (32,) ----
LANE = np.arange(32)
GROUP, IN_GROUP = LANE // 4, LANE % 4


def place_a(i):
    return GROUP + (0 if i < 2 or 4 <= i < 6 else 8), 2 * IN_GROUP + (i & 1) + (8 if i >= 4 else 0)


def place_b(i):  # (k, column)
    return 2 * IN_GROUP + (i & 1) + (8 if i >= 2 else 0), GROUP


def place_c(i):
    return GROUP + (0 if i < 2 else 8), 2 * IN_GROUP + (i & 1)


def to_lanes(matrix, position, count):
    return np.stack([matrix[position(i)] for i in range(count)], axis=1)


def from_lanes(lanes, position, shape):
    matrix = np.full(shape, np.nan)
    for i in range(lanes.shape[1]):
        matrix[position(i)] = lanes[:, i]
    return matrix


def expected_ldmatrix(tiles):
    out = np.zeros((6, 32, 4, 2), np.uint16)
    for kind, count in enumerate([1, 2, 4]):
        for i in range(count):
            for half in range(2):
                out[kind, :, i, half] = tiles[i, GROUP, 2 * IN_GROUP + half]
                out[kind + 3, :, i, half] = tiles[i, 2 * IN_GROUP + half, GROUP]
    return out


@pytest.fixture
def run(profile, launch):
    """run(build, source, name, *arguments): on the fast build, or on the checked one, where it must be clean."""

    def run(build, source, name, *arguments):
        if build == "fast":
            launch(source, name, 1, 32, *arguments)
            return
        report = profile(source, name, 1, 32, *arguments, schedule=build)
        assert report.ok, str(report)

    return run


BUILDS = ["fast", *SCHEDULES]


@pytest.mark.parametrize("build", BUILDS)
def test_ldmatrix_gives_every_lane_its_pairs(run, build):
    tiles = np.arange(256, dtype=np.uint16).reshape(4, 8, 8) * 257
    out = torch.zeros(6 * 32 * 4, dtype=torch.uint32)
    run(build, LDMATRIX, "ldmatrix_kernel", torch.from_numpy(tiles), out)
    np.testing.assert_array_equal(halves(out).reshape(6, 32, 4, 2), expected_ldmatrix(tiles))


def random_operands(draw):
    """a (16, 16), b (16, 8), c (16, 8) as float arrays of numbers that half and bf16 hold exactly."""
    generator = np.random.default_rng(0)
    return tuple(draw(generator, size).astype(np.float32) for size in [(16, 16), (16, 8), (16, 8)])


def bits_of(array, dtype):
    return torch.from_numpy(array).to(dtype).view(torch.int16).numpy().view(np.uint16)


def mma(run, build, a, b, c, dtype):
    """d of all three instructions, as matrices; a and b are given as `dtype`."""
    a_reg = words(to_lanes(bits_of(a, dtype), place_a, 8))
    b_reg = words(to_lanes(bits_of(b, dtype), place_b, 4))
    c_half = words(to_lanes(bits_of(c, torch.float16), place_c, 4))
    d, d_half = torch.zeros(2, 32, 4), torch.zeros(32 * 2, dtype=torch.uint32)
    c_reg = torch.from_numpy(to_lanes(c, place_c, 4).copy())
    run(build, MMA, "mma_kernel", a_reg.flatten(), b_reg.flatten(), c_reg, c_half.flatten(), d, d_half)
    lanes_half = halves(d_half).view(np.float16).reshape(32, 4)
    return [from_lanes(lanes, place_c, (16, 8)) for lanes in (*d.numpy(), lanes_half.astype(np.float32))]


@pytest.mark.parametrize("build", BUILDS)
def test_mma_multiplies_whole_numbers_exactly(run, build):
    a, b, c = random_operands(lambda generator, size: generator.integers(-9, 10, size))
    expected = a.astype(np.float64) @ b + c
    f16, _, f16_sums = mma(run, build, a, b, c, torch.float16)
    _, bf16, _ = mma(run, build, a, b, c, torch.bfloat16)
    for got in (f16, bf16, f16_sums):
        np.testing.assert_array_equal(got, expected)


def test_mma_of_any_numbers(run):
    a, b, c = random_operands(lambda generator, size: generator.standard_normal(size))
    for dtype, which in [(torch.float16, 0), (torch.bfloat16, 1)]:
        rounded = [torch.from_numpy(one).to(dtype).double().numpy() for one in (a, b)]
        got = mma(run, "fast", a, b, c, dtype)
        np.testing.assert_allclose(got[which], rounded[0] @ rounded[1] + c, rtol=1e-5, atol=1e-5)
        if dtype == torch.float16:
            np.testing.assert_allclose(got[2], rounded[0] @ rounded[1] + c, rtol=0, atol=0.02)


def test_half_sums_forget_what_float_sums_keep(run):
    """2048 + 1 has twelve bits."""
    a, b, c = np.zeros((16, 16), np.float32), np.zeros((16, 8), np.float32), np.full((16, 8), 2048, np.float32)
    a[:, 0], b[0] = 1, 1
    f16, _, f16_sums = mma(run, "fast", a, b, c, torch.float16)
    assert (f16 == 2049).all() and (f16_sums == 2048).all()


@pytest.mark.parametrize("build", BUILDS)
def test_ldmatrix_and_mma_together(run, build):
    a, b, _ = random_operands(lambda generator, size: generator.integers(-9, 10, size))
    out = torch.zeros(16, 8)
    run(build, MMA, "product_kernel", *(torch.from_numpy(bits_of(one, torch.float16)) for one in (a, b)), out)
    np.testing.assert_array_equal(out.numpy(), a @ b)


# ---- what is counted ----
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_products_of_a_warp_are_counted_by_their_types(profile, schedule):
    registers = [torch.zeros(32, width, dtype=torch.uint32) for width in (4, 2)]
    sums = [torch.zeros(32, 4), torch.zeros(32, 2, dtype=torch.uint32)]
    outputs = [torch.zeros(2, 32, 4), torch.zeros(32, 2, dtype=torch.uint32)]
    report = profile(MMA, "mma_kernel", 1, 32, *registers, *sums, *outputs, schedule=schedule)
    assert report.mma == {"f32_f16": 1, "f32_bf16": 1, "f16_f16": 1} == report.ledger()["mma"]
    halves = torch.zeros(256, dtype=torch.uint16), torch.zeros(128, dtype=torch.uint16)
    report = profile(MMA, "product_kernel", 1, 32, *halves, torch.zeros(16, 8), schedule=schedule)
    assert report.mma == {"f32_f16": 1, "f32_bf16": 0, "f16_f16": 0}


def test_a_tile_is_one_pass(profile):
    tiles, out = torch.zeros(256, dtype=torch.uint16), torch.zeros(768, dtype=torch.uint32)
    report = profile(LDMATRIX, "ldmatrix_kernel", 1, 32, tiles, out)
    for name, passes in [("x1", 1), ("x2", 2), ("x4", 4), ("x1_trans", 1), ("x2_trans", 2), ("x4_trans", 4)]:
        load = report.lines[line_of(LDMATRIX, f"ldmatrix_{name}(")].shared_load
        assert (load.requests, load.wavefronts, load.conflicts, load.bytes) == (1, passes, 0, passes * 128), name


# ---- what goes wrong: one kernel, `what` says how ----
FAULTS = r"""
#include "common/tensor_core.cuh"
extern "C" __global__ void faults_kernel(const unsigned short* x, unsigned* out, int what) {
    __shared__ __align__(16) unsigned short rows_smem[40][8];
    const int lane = threadIdx.x;
    unsigned r[4] = {}, b[2] = {};
    float d[4] = {};
    for (int i = lane; i < 320; i += 32) rows_smem[i / 8][i % 8] = x[i];
    if (what != 1) __syncwarp();
    if (what == 2 && lane == 31) return;
    if (what == 3 && lane >= 16) __syncthreads();
    const unsigned short* row = what == 4 ? &rows_smem[lane][1] : what == 5 ? x + lane * 8 : rows_smem[lane];
    if (what == 6) row = rows_smem[0];
    if (what == 7) mma_m16n8k16_f32_f16(d, r, b, d);
    if (what == 9) row = rows_smem[lane + 16];
    ldmatrix_x4(r[0], r[1], r[2], r[3], row);
    if (what == 8) rows_smem[lane ^ 1][0] = 1;
    if (what == 10) { __syncwarp(); rows_smem[lane ^ 1][0] = 1; }
    if (what == 11 && lane == 0) return;
    if (what == 11) mma_m16n8k16_f32_bf16(d, r, b, d);
    out[lane] = r[0] + r[3] + (unsigned)d[0];
}
"""
LDMATRIX_LINE = line_of(FAULTS, "ldmatrix_x4(")


def faults(profile, what, schedule="forward", block=32):
    x = (torch.arange(320) % 7).to(torch.uint16)
    return profile(FAULTS, "faults_kernel", 1, block, x, torch.zeros(32, dtype=torch.uint32), what, schedule=schedule)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_fault_and_no_finding(profile, schedule):
    for what in (0, 7, 10):
        report = faults(profile, what, schedule)
        assert report.ok, str(report)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_lanes_are_ordered_by_syncwarp_alone(profile, schedule):
    """ldmatrix needs one after other lanes' writes, and so do other lanes' writes after it."""
    for what, text in [(1, "ldmatrix_x4("), (8, "what == 8")]:
        report = faults(profile, what, schedule)
        assert report.races and {one.kind for one in report.findings} <= {"race", "uninitialised_read"}, str(report)
        assert line_of(FAULTS, text) in {line for one in report.races for line in (one.line, one.other_line)}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_missing_lane_is_a_finding(profile, schedule):
    returned = faults(profile, 2, schedule)
    assert [(one.kind, one.line) for one in returned.findings] == [("trap", LDMATRIX_LINE)]
    assert "all 32 lanes of the warp take part in ldmatrix" in returned.findings[0].message
    elsewhere = faults(profile, 3, schedule).findings
    assert [(one.kind, one.line) for one in elsewhere] == [("bad_shuffle", LDMATRIX_LINE)], elsewhere
    for_mma = faults(profile, 11, schedule).findings
    assert [(one.kind, one.line) for one in for_mma] == [("trap", line_of(FAULTS, "f32_bf16("))]


def test_a_warp_that_is_not_full_is_a_finding(profile):
    assert ("trap", LDMATRIX_LINE) in [(one.kind, one.line) for one in faults(profile, 0, block=16).findings]


def test_rows_at_wrong_addresses_are_findings(profile, launch):
    misaligned = faults(profile, 4)
    assert [(one.kind, one.line, one.space) for one in misaligned.findings] == [("misaligned", LDMATRIX_LINE, "shared")]
    in_global = faults(profile, 5)
    assert [(one.kind, one.line) for one in in_global.findings] == [("trap", LDMATRIX_LINE)]
    beyond = faults(profile, 9)
    assert [(one.kind, one.line, one.space) for one in beyond.findings] == [("out_of_bounds", LDMATRIX_LINE, "shared")]
    x, out = torch.zeros(320, dtype=torch.uint16), torch.zeros(32, dtype=torch.uint32)
    for what in (2, 4, 5):
        with pytest.raises(KernelFault, match=f"line {LDMATRIX_LINE}"):
            launch(FAULTS, "faults_kernel", 1, 32, x, out, what)


def test_equal_rows_do_not_make_tiles_share_a_pass(profile):
    """Neighbours with one address halve the passes of a plain 16-byte load, and not those of ldmatrix."""
    load = faults(profile, 6).lines[LDMATRIX_LINE].shared_load
    assert (load.requests, load.wavefronts, load.conflicts) == (1, 4, 0)


# ---- the same text for GPUs ----
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_compiles_for_gpus(arch, compiled_before):
    if compiled_before(with_headers_digest(LDMATRIX), with_headers_digest(MMA)):
        return
    cubin = nvrtc.compile_cubin(LDMATRIX, arch=arch)
    assert "LDSM" in sass.disassemble(cubin.code) and not cubin.notes
    if arch == "sm_75":
        require_refused(MMA, arch, r"needs compute capability 8\.0")
        return
    cubin = nvrtc.compile_cubin(MMA, arch=arch)
    listing = sass.disassemble(cubin.code)
    for instruction in ("HMMA.16816.F32", "HMMA.16816.F32.BF16", "HMMA.16816.F16", "LDSM.16.M88.4", "LDSM.16.MT88.2"):
        assert f"{instruction} " in listing, instruction
    assert not cubin.notes and all(one.spill_bytes == 0 for one in cubin.resources.values())

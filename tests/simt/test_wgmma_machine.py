"""wgmma beside the rest of the machine: groups, TMA's swizzle, traffic, timeline, stacks of large blocks."""

from pathlib import Path

import numpy as np
import pytest
import torch

from course_lib.cuda import nvrtc, tensor_map
from course_lib.cuda.simt.report import EVENTS
from tests.simt import mistakes
from tests.simt import wgmma_model as model

SOURCE = Path(__file__).with_name("wgmma_groups.cu").read_text()
SCHEDULES = ["forward", "reverse", "random", "resident"]
TILE_BYTES = 8192  # 64 rows of 128 bytes


def line_of(text, source=SOURCE):
    return mistakes.line_of(source, text)


def run(profile, name, what=0, *, source=SOURCE, **options):
    """The report, the output and a b of one launch on random 64 x 64 operands."""
    random = np.random.default_rng(3)
    (a_bits, a), (b_bits, b) = (model.numbers(random.standard_normal((64, 64)), "f16") for _ in range(2))
    image = np.concatenate([model.k_major(a_bits, 128).image, model.k_major(b_bits, 128).image])
    out = torch.zeros(128, 32)
    report = profile(
        source, name, 1, 128, torch.from_numpy(image).view(torch.float32), out, what,
        shared_bytes=2 * TILE_BYTES, defines={"LARGE_THREADS": 128}, **options,
    )  # fmt: skip
    return report, out.numpy(), a @ b.T


# ---- groups ----
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_chain_through_two_groups(profile, schedule):
    report, out, expected = run(profile, "chain_kernel", schedule=schedule)
    assert report.ok, str(report)
    np.testing.assert_allclose(model.matrix(out), expected, atol=1e-3)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_chain_belongs_to_its_last_group(profile, schedule):
    report, _, _ = run(profile, "chain_kernel", 1, schedule=schedule)
    line = line_of("// still in flight")
    issued = line_of("// its last")
    assert [(one.kind, one.line, one.other_line) for one in report.findings] == [("in_flight", line, issued)]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("what", [0, 1])
def test_many_groups_in_flight(profile, what, schedule):
    report, out, expected = run(profile, "order_kernel", what, schedule=schedule)
    assert report.ok, str(report)
    np.testing.assert_allclose(model.matrix(out), expected, atol=1e-3)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_an_early_read_gives_nan(profile, schedule):
    _, out, _ = run(profile, "chain_kernel", 1, schedule=schedule)
    assert np.isnan(out).all()  # d[0] is added to every number


# ---- operands written again after the wait ----
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("what", [0, 1])
def test_operands_may_be_reused_after_the_wait(profile, what, schedule):
    """Of a, a warp reads its own 16 rows only, so for those a __syncwarp is enough."""
    report, out, expected = run(profile, "reuse_kernel", what, schedule=schedule)
    assert report.ok, str(report)
    np.testing.assert_allclose(model.matrix(out), 3 * expected, atol=1e-2)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_rows_that_another_warp_writes_need_a_barrier(profile, schedule):
    report, _, _ = run(profile, "reuse_kernel", 2, schedule=schedule)
    expected = ("race", line_of("// the products"), line_of("// a again"))
    assert expected in {(one.kind, one.line, one.other_line) for one in report.findings}, str(report)


# ---- registers that are none ----
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_registers_that_do_not_last(profile, schedule):
    gone = run(profile, "local_kernel", 1, schedule=schedule)[0].findings
    assert [(one.kind, one.line) for one in gone] == [("bad_wgmma", line_of("// own"))], gone
    assert "are local to a function that returned before thread" in gone[0].message
    memory = run(profile, "local_kernel", 2, schedule=schedule)[0].findings
    assert ("bad_wgmma", line_of("// not registers")) in [(one.kind, one.line) for one in memory]
    assert any("must be local arrays of the thread" in one.message for one in memory)
    overlap = run(profile, "local_kernel", 3, schedule=schedule)[0].findings
    lines = line_of("// half of it again"), line_of("// the first half")
    assert ("bad_wgmma", *lines) in [(one.kind, one.line, one.other_line) for one in overlap], overlap


# ---- TMA writes the operands ----
TMA_PRODUCT = line_of("wgmma_m64k16_f32_bf16_ss(")


def tma(profile, schedule, with_=3, swizzle=1, written="128B"):
    generator = torch.Generator().manual_seed(4)
    a, b = (torch.randn(64, 64, generator=generator).to(torch.bfloat16) for _ in range(2))
    maps = [tensor_map(one, box=(64, 64), swizzle=how) for one, how in ((a, "128B"), (b, written))]
    out = torch.zeros(128, 32)
    report = profile(
        SOURCE, "tma_kernel", 1, 128, *maps, out, swizzle, with_,
        shared_bytes=2 * TILE_BYTES, defines={"LARGE_THREADS": 128}, schedule=schedule,
    )  # fmt: skip
    right = np.allclose(model.matrix(out.numpy()), a.double().numpy() @ b.double().numpy().T, atol=1e-3)
    return report, right


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_operands_from_tma_need_no_proxy_fence(profile, schedule):
    report, right = tma(profile, schedule)
    assert report.ok and right, str(report)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_another_swizzle_than_the_loads(profile, schedule):
    report, right = tma(profile, schedule, swizzle=0)
    assert [(one.kind, one.line) for one in report.findings] == [("bad_wgmma", TMA_PRODUCT)] and not right
    words = (
        "the descriptor of b says no swizzle, and its bytes were written by a TMA load with the swizzle of 128 bytes"
    )
    assert words in report.findings[0].message


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("with_", [0, 1])
def test_a_missing_wait_for_the_bytes(profile, with_, schedule):
    """Of all threads, or of all but one: what thread 0 waited for, the other warps do not know."""
    report, _ = tma(profile, schedule, with_)
    assert ("race", TMA_PRODUCT) in {(one.kind, one.line) for one in report.findings}, str(report)


# ---- ledger, timeline, stacks ----
def test_the_operands_are_counted(profile):
    report, _, _ = run(profile, "chain_kernel")
    step = report.lines[line_of("// the first group")].shared_load
    assert vars(step) == {"requests": 1, "wavefronts": 0, "conflicts": 0, "bytes": 2 * 64 * 32}


def test_the_timeline_has_the_groups(profile):
    report, _, _ = run(profile, "chain_kernel", timeline=True)
    groups = [one for one in report.timeline if one.kind == EVENTS[-1]]
    assert EVENTS[-1] == "wgmma" and {one.warp for one in groups} == {0}  # of the warpgroup
    first, second = groups
    assert first.line == line_of("// the first group") and second.line == line_of("// the second group")
    assert first.start < first.end < second.end and second.start < first.end  # both in flight at once
    assert first.end - first.start >= 2 * 64 // 8


def test_an_event_inside_a_header_has_the_authors_line(profile):
    source = SOURCE.replace(
        "wgmma_m64k16_f32_f16_ss(d, a + 2 * (k), b + 2 * (k), scale)", "wgmma_ss(d, a, b, 1, __half())"
    )
    assert source != SOURCE
    report, _, _ = run(profile, "chain_kernel", source=source, timeline=True)
    groups = [one.line for one in report.timeline if one.kind == "wgmma"]
    assert groups == [line_of("// the first group"), line_of("// the second group")]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_four_warpgroups_of_many_registers(profile, schedule):
    """n of 256 and 128: a thread has 192 sums and 32 packed weights on its stack."""
    out = torch.ones(512)
    report = profile(
        SOURCE, "large_kernel", 1, 512, torch.zeros(1024, 4), out, 0,
        shared_bytes=65536, defines={"LARGE_THREADS": 512}, schedule=schedule,
    )  # fmt: skip
    assert report.ok and (out == 0).all(), str(report)


def test_compiles_for_hopper():
    defines = {"LARGE_THREADS": 128}  # on a GPU, 512 threads have 128 registers each
    cubin = nvrtc.compile_cubin(SOURCE, arch="sm_90a", defines=defines, filename="wgmma_groups.cu")
    assert set(cubin.resources) >= {"chain_kernel", "order_kernel", "reuse_kernel", "tma_kernel", "large_kernel"}


def test_a_descriptor_names_shared_memory(profile, launch):
    source = '#include "common/wgmma.cuh"\nextern "C" __global__ void k(unsigned long long* out, int global) {\n'
    source += "    extern __shared__ __align__(1024) unsigned char smem[];\n"
    source += "    out[0] = wgmma_descriptor(global ? (unsigned char*)out : smem + 2048, 16, 1024);\n}"
    out = torch.zeros(1, dtype=torch.int64)
    launch(source, "k", 1, 1, out, 0, shared_bytes=4096)
    assert out.item() % (1 << 64) == (2048 >> 4 | 1 << 16 | 64 << 32 | 1 << 62)
    report = profile(source, "k", 1, 1, out, 1, shared_bytes=4096)
    assert [(one.kind, one.call_line) for one in report.findings] == [("trap", 4)]
    assert "takes a pointer to shared memory" in report.findings[0].message

"""cp.async of kernels_cu/common on the SIMT machine: what arrives and when, what is counted, each way to get it wrong.

A right kernel is clean in all four schedules; each thing left out of it is found in all four, with its line.
"""

from pathlib import Path

import pytest
import torch

from course_lib.cuda import nvrtc, sass
from course_lib.cuda.source import with_headers_digest
from course_lib.errors import KernelFault
from tests.simt.mistakes import line_of, require_refused

SOURCE = Path(__file__).with_name("async_copy_kernels.cu").read_text()
SCHEDULES = ["forward", "reverse", "random", "resident"]
BUILDS = ["fast", *SCHEDULES]
WAIT, BARRIER, TRAILING, TWO, ALL = 1, 2, 4, 8, 15


def found(report):
    return {(one.kind, one.line) for one in report.findings}


# ---- what arrives ----
@pytest.mark.parametrize("build", BUILDS)
def test_every_size_and_every_tail(profile, launch, build):
    x = torch.randint(0, 200, (32, 32), dtype=torch.uint8)
    lengths = torch.arange(32, dtype=torch.int32) % 17
    out = torch.zeros(6, 32, 16, dtype=torch.uint8)
    if build == "fast":
        launch(SOURCE, "sizes_kernel", 1, 32, x, lengths, out)
    else:
        report = profile(SOURCE, "sizes_kernel", 1, 32, x, lengths, out, schedule=build, outputs=[out])
        assert report.ok, str(report)
    expected = torch.full((6, 32, 16), 0xEE, dtype=torch.uint8)
    for which, size in enumerate([4, 8, 16]):
        expected[which, :, :size] = x[:, 16 : 16 + size]
        for t, length in enumerate(lengths.tolist()):
            kept = min(length, size)
            expected[which + 3, t, :size] = 0
            expected[which + 3, t, :kept] = x[t, :kept]
    assert torch.equal(out, expected)


def test_the_read_is_counted_where_it_starts(profile):
    x, out = torch.zeros(32, 32, dtype=torch.uint8), torch.zeros(6, 32, 16, dtype=torch.uint8)
    lengths = torch.tensor([16] * 8 + [0] * 24, dtype=torch.int32)
    report = profile(SOURCE, "sizes_kernel", 1, 32, x, lengths, out)
    whole = report.lines[line_of(SOURCE, "cp_async_16(")]
    assert vars(whole.global_load) == {"requests": 1, "sectors": 32, "bytes": 512, "ideal_sectors": 16}
    assert vars(whole.shared_store) == {"requests": 1, "wavefronts": 4, "conflicts": 0, "bytes": 512}
    tails = report.lines[line_of(SOURCE, "cp_async_16_zfill(")]
    assert (tails.global_load.requests, tails.global_load.sectors) == (1, 8)  # of 24 lanes nothing is read
    assert tails.shared_store.bytes == 512  # and zeros are written
    assert line_of(SOURCE, "cp_async_wait_all") not in report.lines


# ---- the double buffer ----
def double_buffer(profile, schedule, with_, num_tiles=5):
    x = torch.arange(num_tiles * 64, dtype=torch.float32).reshape(num_tiles, 64) + 1
    out = torch.zeros(64)
    report = profile(SOURCE, "double_buffer_kernel", 1, 64, x, out, num_tiles, with_, schedule=schedule)
    columns = (torch.arange(64)[:, None] + torch.arange(0, 64, 7)) % 64
    return report, torch.equal(out, x[:, columns].sum((0, 2)))


FIRST, NEXT = line_of(SOURCE, "cp_async_4(&tile_smem[0]"), line_of(SOURCE, "cp_async_4(&tile_smem[(tile + 1)")
WAITS, READS = line_of(SOURCE, "if (with & WAIT)"), line_of(SOURCE, "sum += tile_smem")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_right_double_buffer_is_clean(profile, schedule):
    for num_tiles in (1, 2, 5):
        report, is_right = double_buffer(profile, schedule, ALL, num_tiles)
        assert report.ok and is_right, str(report)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_missing_wait(profile, schedule):
    """Wrong whatever the barriers: the numbers read are those of before, and the line that reads is named."""
    report, is_right = double_buffer(profile, schedule, ALL - WAIT)
    assert not is_right
    assert {(one.kind, one.line, one.other_line) for one in report.findings} == {
        ("race", READS, FIRST),
        ("race", READS, NEXT),
    } | {("race", NEXT, FIRST), ("race", NEXT, NEXT)}
    reading = next(one for one in report.races if one.line == READS)
    assert "reads tile_smem[" in reading.message and "while the asynchronous copy that thread (" in reading.message
    assert f"started at line {FIRST} is still in flight; wait for it first" in reading.message


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_missing_barrier_behind_the_wait(profile, schedule):
    report, _ = double_buffer(profile, schedule, ALL - BARRIER)
    assert report.races and {one.space for one in report.races} == {"shared"}
    pairs = {frozenset((one.line, one.other_line)) for one in report.races}
    assert pairs <= {frozenset((READS, other)) for other in (FIRST, NEXT, WAITS)}, str(report)
    assert {one.kind for one in report.findings} <= {"race", "uninitialised_read"}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_missing_trailing_barrier(profile, schedule):
    """The classic one: its result is right whenever the copy lands late enough."""
    report, _ = double_buffer(profile, schedule, ALL - TRAILING)
    pairs = {frozenset((one.line, one.other_line)) for one in report.findings}
    assert frozenset((READS, NEXT)) in pairs, str(report)
    assert pairs <= {frozenset((READS, one)) for one in (NEXT, WAITS)}, str(report)
    assert {one.kind for one in report.findings} == {"race"}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_an_early_overwrite(profile, schedule):
    """One buffer where two are needed: the next tile is in flight into what is being read."""
    report, _ = double_buffer(profile, schedule, ALL - TWO)
    assert {(one.kind, one.line, one.other_line) for one in report.findings} >= {("race", READS, NEXT)}, str(report)


def test_the_sentence_of_a_missing_barrier(profile):
    race = next(one for one in double_buffer(profile, "reverse", ALL - BARRIER)[0].races if one.other_line == WAITS)
    assert race.message.startswith(f"line {READS}: thread (")
    assert f"wrote by the asynchronous copy it waited for at line {WAITS}, with no barrier between" in race.message


# ---- the source ----
OVERWRITES = {1: "// its own thread", 2: "// another thread\n", 3: "after a barrier", 4: "// a half"}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_an_overwritten_source(profile, schedule):
    """The copy may read its source as late as at the wait, and no barrier waits for it."""
    issue = line_of(SOURCE, "// the source")
    for who, text in OVERWRITES.items():
        line = SOURCE[: SOURCE.index(text)].count("\n") + 1
        report = profile(
            SOURCE, "overwritten_source_kernel", 1, 64, torch.ones(64), torch.zeros(64), who, schedule=schedule
        )
        assert any(line in (one.line, one.other_line) for one in report.races), f"{who}: {report}"
        assert {one.space for one in report.races} == {"global"}
        if who != 2:
            race = next(one for one in report.races if one.line == line)
            assert race.other_line == issue
            assert (
                "before the asynchronous copy that thread (" in race.message
                and "wait for the copy first" in race.message
            )
    report = profile(SOURCE, "overwritten_source_kernel", 1, 64, torch.ones(64), torch.zeros(64), 0, schedule=schedule)
    assert report.ok, str(report)


def test_late_data_makes_the_fast_build_wrong_too(launch):
    x, out = torch.ones(5, 64), torch.zeros(64)
    launch(SOURCE, "double_buffer_kernel", 1, 64, x, out, 5, ALL)
    assert (out == 50).all()
    launch(SOURCE, "double_buffer_kernel", 1, 64, x, out, 5, ALL - WAIT)
    assert not (out == 50).any()


# ---- groups, and misuse: one kernel, `what` says how ----
CASES = r"""
#include "common/async_copy.cuh"
extern "C" __global__ void cases_kernel(float* x, float* out, int what) {
    __shared__ __align__(16) float s[256];
    const int t = threadIdx.x;
    const bool is_first = t < 32;
    s[t] = s[t + 64] = s[t + 128] = s[t + 192] = -1.0f;
    if (what != 8) __syncthreads();
    if (what == 0 || what == 1) {  // three groups, the oldest one or two waited for
        for (int i = 0; i < 3; ++i) {
            cp_async_4(&s[i * 64 + t], &x[i * 64 + t]);
            cp_async_commit_group();
        }
        cp_async_wait_group<1>();
        out[t] = s[t] + s[64 + t];
        if (what == 1) out[t] += s[128 + t];  // the newest may be in flight
    }
    if (what == 2 || what == 3) {  // a copy that was never committed belongs to no group
        cp_async_4(&s[t], &x[t]);
        cp_async_wait_group<0>();
        if (what == 3) cp_async_wait_all();
        out[t] = s[t];  // own, uncommitted
    }
    if (what == 4) {
        cp_async_4(&s[t], &x[t]);
        s[t] = 5.0f;  // into what the copy will write
        cp_async_wait_all();
    }
    if (what == 5) {
        cp_async_4(&s[t], &x[t]);
        cp_async_4(&s[t], &x[64 + t]);  // twice to one address
        cp_async_wait_all();
    }
    if (what == 6 && is_first) cp_async_16(&s[t * 4 + 2], &x[t * 4]);  // to half-way addresses
    if (what == 7) cp_async_8(&s[t * 2], &x[t * 2 + 1]);   // from half-way addresses
    if (what == 8) cp_async_4(&s[63 - t], &x[t]);          // no barrier after the plain writes
    if (what == 9) cp_async_4(&out[t], &x[t]);             // to global memory
    if (what == 10) cp_async_4(&s[t], &s[t + 64]);         // from shared memory
    if (what == 11) cp_async_4_zfill(&s[t], &x[t], 8);     // more than the destination holds
    if (what == 12) cp_async_4(&s[t], &x[256 + t]);        // beyond the end of x
    if (what == 13 && is_first) cp_async_4(&s[t], &x[t]);
    if (what == 13 && !is_first) x[t - 32] = 0.0f;         // others change what is being copied
    if (what == 14 && t < 63) cp_async_16_zfill(&s[t * 4], &x[1 + t], 0);  // an address counts though nothing is read
    cp_async_wait_all();
}
"""
CLEAN = {0: lambda x: x[:64] + x[64:128], 3: lambda x: x[:64]}
WRONG = {
    1: ("race", "the newest may be in flight"),
    2: ("race", "own, uncommitted"),
    4: ("race", "into what the copy will write"),
    5: ("race", "twice to one address"),
    6: ("misaligned", "to half-way addresses"),
    7: ("misaligned", "from half-way addresses"),
    8: ("race", "no barrier after the plain writes"),
    9: ("trap", "to global memory"),
    10: ("trap", "from shared memory"),
    11: ("trap", "more than the destination holds"),
    12: ("out_of_bounds", "beyond the end of x"),
    14: ("misaligned", "an address counts though nothing is read"),
}


def case(profile, what, schedule="forward"):
    x, out = torch.arange(256.0), torch.zeros(64)
    before = x.clone()
    return profile(CASES, "cases_kernel", 1, 64, x, out, what, schedule=schedule), before, out


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_groups_land_in_order(profile, schedule):
    for what, expected in CLEAN.items():
        report, x, out = case(profile, what, schedule)
        assert report.ok and torch.equal(out, expected(x)), str(report)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("what", WRONG)
def test_each_mistake_is_found_with_its_line(profile, what, schedule):
    kind, text = WRONG[what]
    report, _, _ = case(profile, what, schedule)
    lines = {(one.kind, line) for one in report.findings for line in (one.line, one.other_line)}
    assert (kind, line_of(CASES, text)) in lines, str(report)
    assert {one.kind for one in report.findings} == {kind}, str(report)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_source_that_changes_under_the_copy(profile, schedule):
    report, _, _ = case(profile, 13, schedule)
    lines = {line for one in report.races for line in (one.line, one.other_line)}
    assert line_of(CASES, "others change") in lines and {one.space for one in report.races} == {"global"}


@pytest.mark.parametrize("what", [6, 7, 9, 10, 11])
def test_misuse_stops_the_fast_build(launch, what):
    with pytest.raises(KernelFault, match=f"line {line_of(CASES, WRONG[what][1])}: .*cp.async"):
        launch(CASES, "cases_kernel", 1, 64, torch.zeros(256), torch.zeros(64), what)


# ---- the same text for GPUs ----
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_compiles_for_gpus(arch, compiled_before):
    if compiled_before(with_headers_digest(SOURCE)):
        return
    if arch == "sm_75":
        require_refused(SOURCE, arch, r"cp\.async needs compute capability 8\.0")
        return
    cubin = nvrtc.compile_cubin(SOURCE, arch=arch)
    listing = sass.disassemble(cubin.code)
    assert "LDGSTS.E.BYPASS.128" in listing and "LDGSTS.E.64" in listing and "DEPBAR" in listing
    assert not cubin.notes and all(one.spill_bytes == 0 for one in cubin.resources.values())

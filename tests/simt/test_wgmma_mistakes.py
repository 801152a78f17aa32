"""What wgmma forbids, one mistake at a time: each is found in all four schedules, with its line and sentence."""

from pathlib import Path

import numpy as np
import pytest
import torch

from course_lib.cuda import nvrtc
from tests.simt import mistakes
from tests.simt import wgmma_model as model

SOURCE = Path(__file__).with_name("wgmma_mistakes.cu").read_text()
SCHEDULES = ["forward", "reverse", "random", "resident"]
TILE_BYTES = 8192
MISTAKES = {}  # name -> number, as the kernel defines them
for _line in SOURCE.splitlines():
    if _line.startswith("#define ") and _line.split()[2:3] and _line.split()[2].isdigit():
        MISTAKES[_line.split()[1]] = int(_line.split()[2])


def line_of(text, source=SOURCE):
    return mistakes.line_of(source, text)


def run(profile, name, schedule, seed=0):
    """The report of one mistake, and whether the result is right."""
    random = np.random.default_rng(seed)
    tiles, exact = [], []
    for is_v in (False, False, True, False, True):
        bits, values = model.numbers(random.standard_normal((64, 64)), "f16")
        tiles.append((model.mn_major(bits.T.copy(), 128) if is_v else model.k_major(bits, 128)).image)
        exact.append(values)
    q, k0, v0, k1, v1 = exact
    weights = [(q @ k.T / 8).astype(np.float16).astype(np.float64) for k in (k0, k1)]
    image = torch.from_numpy(np.concatenate(tiles)).view(torch.float32)
    out = torch.zeros(128, 32)
    report = profile(
        SOURCE, "mistakes_kernel", 1, 128, image, out, MISTAKES[name], shared_bytes=5 * TILE_BYTES, schedule=schedule
    )
    error = np.abs(model.matrix(out.numpy()) - (weights[0] @ v0 / 2 + weights[1] @ v1)).max()
    return report, error < 0.01


SCALE_FIRST, SCALE_SECOND = line_of("// scale first"), line_of("// scale second")
EARLY, LATE = line_of("// rescale early"), line_of("// rescale late")
Q_K, P_V = line_of("wgmma_descriptor(q_smem + 32 * k"), line_of("wgmma_descriptor(v_smem + 2048 * k")
PACK, STORE = line_of("probs[i / 4][i % 4] = pack_pair"), line_of("// the writes of shared memory")
IN_FLIGHT = "is in flight; wait for its group first (wgmma_wait_group)"
# by mistake: kind, line and other line of its findings, and a part of the first sentence
FOUND = {
    "NO_WAIT_FIRST": (
        {("in_flight", SCALE_FIRST, Q_K), ("in_flight", PACK, Q_K)},
        f"reads accumulator d[0] while the wgmma of line {Q_K} that uses it {IN_FLIGHT}",
    ),
    "NO_WAIT_1": (
        {("in_flight", SCALE_SECOND, Q_K)},
        f"reads accumulator d[0] while the wgmma of line {Q_K} that uses it {IN_FLIGHT}",
    ),
    "NO_WAIT_0": (
        {("in_flight", PACK, P_V), ("in_flight", LATE, P_V)},
        f"writes register a[0] of the left operand while the wgmma of line {P_V} that uses it {IN_FLIGHT}",
    ),
    "EARLY_PACK": (
        {("in_flight", PACK, P_V)},
        f"writes register a[0] of the left operand while the wgmma of line {P_V} that uses it {IN_FLIGHT}",
    ),
    "EARLY_RESCALE": (
        {("in_flight", EARLY, P_V)},
        f"reads accumulator d[0] while the wgmma of line {P_V} that uses it {IN_FLIGHT}",
    ),
    "UNROLLED_READ": (
        {("in_flight", line_of("// read one"), Q_K)},
        f"reads accumulator d[5] while the wgmma of line {Q_K} that uses it {IN_FLIGHT}",
    ),
    "NO_FENCE": (
        {("missing_fence", Q_K, None)},
        "wgmma_fence() is missing: thread (0,0,0) has called none before its first wgmma",
    ),
    "NO_SECOND_FENCE": (
        {("missing_fence", Q_K, SCALE_FIRST), ("missing_fence", P_V, PACK)},
        f"wgmma_fence() is missing: thread (0,0,0) wrote accumulator d[0] at line {SCALE_FIRST}",
    ),
    "WARP_RETURNS": (
        {("deadlock", Q_K, None)},
        "wgmma waits for warp 3 of warpgroup 0, which already returned",
    ),
    "WARP_ELSEWHERE": (
        {("deadlock", Q_K, line_of("// elsewhere"))},
        f"wgmma waits for warp 3 of warpgroup 0, which waits at line {line_of('// elsewhere')}",
    ),
    "LANE_RETURNS": (
        {("deadlock", Q_K, None)},
        "wgmma waits for warp 1 (lanes 5) of warpgroup 0, which already returned",
    ),
    "OVERWRITE": (
        {("race", line_of("// overwrite K1"), Q_K)},
        f"which the wgmma of line {Q_K} reads; nothing orders this after a wait for its group (wgmma_wait_group)",
    ),
    "NO_PROXY_FENCE": (
        {("missing_fence", Q_K, STORE), ("missing_fence", P_V, STORE)},
        "is read by the async proxy here without fence_proxy_async()",
    ),
    "NO_BARRIER": ({("race", Q_K, STORE), ("race", P_V, STORE)}, "with no barrier between"),
    "ONE_WARP_KNOWS": ({("race", Q_K, STORE), ("race", P_V, STORE)}, "with no barrier between"),
    "NEVER_WRITTEN": ({("uninitialised_read", P_V, None)}, "which has not been written"),
    "NO_COMMIT": (
        {
            ("bad_wgmma", line_of("// the second wait"), P_V),
            ("in_flight", SCALE_SECOND, Q_K),
            ("in_flight", PACK, P_V),
            ("in_flight", LATE, P_V),
        },
        f"waits here for all committed groups, and the wgmma of line {P_V} is in none: wgmma_commit_group() is missing",
    ),
    "IN_FLIGHT_AT_EXIT": ({("bad_wgmma", Q_K, None)}, "returned while this wgmma was in flight; wgmma_wait_group<0>()"),
    "NEVER_COMMITTED": ({("bad_wgmma", Q_K, None)}, "in flight; wgmma_commit_group() is missing"),
    "OTHER_DESCRIPTOR": ({("bad_wgmma", Q_K, Q_K)}, "(96,0,0) passes another descriptor of b than thread (0,0,0)"),
    "OTHER_SCALE": (
        {("bad_wgmma", line_of("// other scale"), line_of("// other scale"))},
        "thread (5,0,0) passes another scale_d than thread (0,0,0)",
    ),
    "OTHER_INSTRUCTION": (
        {("deadlock", line_of("// left out by warp 1"), Q_K)},
        f"wgmma waits for warp 1 of warpgroup 0, which calls another wgmma at line {Q_K}",
    ),
    "OTHER_LINE": (
        {("bad_wgmma", line_of("// here"), line_of("// and there"))},
        "thread (96,0,0) calls another wgmma than thread (0,0,0)",
    ),
}  # fmt: skip


def test_every_mistake_is_here():
    assert set(FOUND) == set(MISTAKES) - {"RIGHT", "TILE_BYTES"}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_two_groups_in_flight_are_clean(profile, schedule):
    report, is_right = run(profile, "RIGHT", schedule)
    assert report.ok and is_right, str(report)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", FOUND)
def test_each_mistake_is_found(profile, name, schedule):
    report, _ = run(profile, name, schedule)
    expected, sentence = FOUND[name]
    assert {(one.kind, one.line, one.other_line) for one in report.findings} == expected, str(report)
    assert any(sentence in one.message for one in report.findings), str(report)


@pytest.mark.parametrize("name", ["NO_WAIT_FIRST", "NO_WAIT_0", "EARLY_RESCALE"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_poison_makes_the_result_wrong(profile, name, schedule):
    assert not run(profile, name, schedule)[1]


def test_compiles_for_hopper():
    cubin = nvrtc.compile_cubin(SOURCE, arch="sm_90a", filename="wgmma_mistakes.cu")
    assert cubin.resources["mistakes_kernel"].spill_bytes == 0

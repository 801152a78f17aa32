"""Chapter 01's launchers are right at odd sizes, their traffic is what the chapter says, recordings tell the truth."""

import math

import pytest
import torch

from course_lib.errors import ShapeError, UnsupportedError
from course_lib.ops import movement as ops

TRANSPOSES = [name for name in ops.VARIANTS if name.startswith("transpose/")]


@pytest.mark.parametrize("variant", ["copy/01_runs", "copy/02_interleaved"])
@pytest.mark.parametrize("count", [1, 255, 2048, 2049])
def test_a_copy_is_a_copy(variant, count):
    launch = ops.plan(torch.randn(count), variant=variant)
    launch.outputs[0].fill_(math.nan)
    launch.run()
    assert torch.equal(launch.outputs[0], launch.arguments[0])


@pytest.mark.parametrize("variant", TRANSPOSES)
@pytest.mark.parametrize("shape", [(1, 1), (1, 70), (31, 33), (64, 32)])
def test_a_transpose_turns(variant, shape):
    x = torch.randn(shape)
    assert torch.equal(ops.transpose(x, variant=variant), x.T)


@pytest.mark.parametrize(
    ("variant", "sectors", "wavefronts"),
    [
        ("transpose/01_naive", (768, 6144), 0),
        ("transpose/02_shared_tile", (768, 768), 6144),
        ("transpose/03_conflict_free", (768, 768), 192),
    ],
)
def test_the_traffic_of_the_transposes(variant, sectors, wavefronts):
    report = ops.plan(torch.randn(64, 96), variant=variant).profile("random")
    assert report.ok
    assert (report.global_load.sectors, report.global_store.sectors) == sectors
    assert report.shared_load.wavefronts == wavefronts


def test_the_mended_copy_moves_an_eighth_of_the_sectors():
    x = torch.randn(4096)
    slow, fast = (ops.plan(x, variant=f"copy/{name}").profile() for name in ("01_runs", "02_interleaved"))
    assert slow.ok and fast.ok
    assert slow.global_load.sectors == 8 * fast.global_load.sectors == 8 * fast.global_load.ideal_sectors


@pytest.mark.parametrize("stride", [0, 1, 2, 3, 8, 31, 32, 33])
def test_recordings_follow_the_closed_formulas(stride):
    indices = [stride * lane for lane in range(32)]
    read, sectors = ops.record_global(indices)
    assert list(read) == indices and sectors == max(min(4 * stride, 32), 1)
    read, wavefronts = ops.record_shared(indices)
    assert list(read) == indices and wavefronts == (math.gcd(stride, 32) if stride else 1)


@pytest.mark.parametrize("indices", [[0] * 31, [-1] * 32, [2048] * 32])
def test_bad_indices_are_refused(indices):
    with pytest.raises(ShapeError, match="give 32"):
        ops.record_shared(indices)


def test_bad_arguments_are_sentences():
    with pytest.raises(UnsupportedError, match="copy/01_runs"):
        ops.plan(torch.randn(3), variant="copy")
    with pytest.raises(ShapeError, match="float64"):
        ops.plan(torch.randn(3).double(), variant="copy/01_runs")
    with pytest.raises(ShapeError, match="takes 2"):
        ops.plan(torch.randn(3), variant="transpose/01_naive")

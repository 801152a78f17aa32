"""benchmarks.attention_stamps: the stamped rungs compute what the rungs compute, and their spans follow one another."""

import pytest
import torch

from benchmarks import attention_stamps as stamps
from course_lib import cuda
from course_lib.ops import flash_attention_3 as ops
from course_lib.viz import spans_of_rows


@pytest.mark.parametrize("variant", ["03_producer_consumer", "04_overlap", "05_ping_pong"])
def test_spans_of_a_stamped_rung(variant, monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")
    steps = stamps.NUM_STEPS
    q, k, v = (torch.randn(1, 1, rows, 128).bfloat16() for rows in (128, 128 * (steps + 2), 128 * (steps + 2)))
    launch = ops.plan(q, k, v, variant=variant)
    launch.run()
    right = [x.clone() for x in launch.outputs]
    defines = {"HEAD_DIM": 128, "ELEMENT": "__nv_bfloat16", "BLOCK_N": 128}
    kernel = cuda.compile(stamps.stamped(variant), "flash_attention_3_kernel", defines=defines)
    marks = torch.zeros(len(stamps.ACTORS), stamps.NUM_STAMPS, dtype=torch.int64)
    kernel(launch.grid, launch.block, *launch.arguments, marks, shared_bytes=launch.shared_bytes)
    assert all(torch.equal(one, other) for one, other in zip(right, launch.outputs, strict=True))
    rows = list(stamps.spans(variant, marks))
    assert len(rows) == 2 * steps + 2 * 5 * steps
    assert all(row["start"] <= row["end"] for row in rows) and min(row["start"] for row in rows) == 0
    softmax = [span for span in spans_of_rows(rows) if span.kind == "softmax" and span.actor == "consumer 0"]
    assert [span.label for span in softmax] == [f"softmax {step}" for step in range(steps)]
    assert all(one.end <= other.start for one, other in zip(softmax, softmax[1:], strict=False))

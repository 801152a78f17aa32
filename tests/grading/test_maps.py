"""Tensor maps as arguments of a graded kernel, the recorded timeline, and findings of asynchronous operations."""

import torch

from course_lib.cuda.simt.report import KINDS
from course_lib.grading.judge.diagnosis import FINDING_ORDER
from course_lib.grading.processes import isolation, wire
from course_lib.grading.processes.faults import _FINDING_KINDS
from course_lib.grading.processes.protocol import ChildTask, MapRef, Ref, Run

COPY = """#include "common/tma.cuh"

extern "C" __global__ void copy_kernel(const __grid_constant__ TensorMap map, float* out) {
    __shared__ __align__(128) float tile_smem[8][4];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(&full, 128);
        tma_load_2d(tile_smem, &map, &full, 0, 0);
    }
    __syncthreads();
    mbarrier_wait_parity(&full, 0);
    out[threadIdx.x] = tile_smem[threadIdx.x / 4][threadIdx.x % 4];
}
"""
X = torch.arange(24.0).reshape(6, 4)
RUN = Run(
    "one",
    {"x": X},
    {"out": ((32,), "float32")},
    (MapRef("x", (8, 4)), Ref("out")),
    block=(32, 1, 1),
    schedules=("forward", "random"),
    timeline=True,
)


def _result(source):
    [run] = isolation.run_task(ChildTask("cuda", source, "copy_kernel", (RUN,))).runs
    return run


def test_a_map_travels_as_it_is():
    task = ChildTask("cuda", COPY, "copy_kernel", (Run("a", {}, {}, (MapRef("x", (1, 8, 64), "128B"), 3)),))
    assert wire.unpack_task(wire.pack_task(task)).runs[0].arguments == task.runs[0].arguments


def test_a_kernel_loads_through_a_map_and_its_timeline_comes_back():
    run = _result(COPY)
    assert run.fault is None and not run.findings and not run.inputs_changed
    assert run.outputs["out"].tolist() == [*range(24), *[0.0] * 8]  # rows past the end arrive as zeros
    [load] = [row for row in run.ledger["timeline"] if row[2] == "tma_load"]
    assert load[:2] == [0, 0] and load[3] < load[4]


def test_without_the_wait_the_line_is_named():
    run = _result(COPY.replace("    mbarrier_wait_parity(&full, 0);\n", ""))
    assert {(finding.kind, finding.line) for finding in run.findings} >= {("race", 13)}


def test_every_kind_of_finding_has_its_place_among_the_diagnoses():
    kinds = {_FINDING_KINDS.get(kind, kind) for kind in KINDS if kind != "remark"}
    assert kinds - set(FINDING_ORDER) == {"recursion", "exception"}  # these end a run, as its fault

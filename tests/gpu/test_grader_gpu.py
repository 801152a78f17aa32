"""The judge on a GPU: what the card lets pass is found on the CPU before, and what passes there runs on the card."""

import pytest

from course_lib.grading.exercise import registry
from course_lib.grading.judge.judge import judge
from course_lib.grading.processes import isolation

SOFTMAX = """import triton
import triton.language as tl

@triton.jit
def fused_softmax_kernel(x_ptr, out_ptr, num_rows, num_cols, BLOCK_N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N)
    mask = cols < num_cols
    x = tl.load(x_ptr + row * num_cols + cols, mask=mask, other=-float("inf"))
    weights = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * num_cols + cols, weights / tl.sum(weights, axis=0), mask=mask)
"""
ADD = """extern "C" __global__ void add_tail_kernel(const float* x, const float* y, float* out, int num_elements) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < num_elements) out[i] = x[i] + y[i];
}
"""


def graded(exercise_id, text):
    return judge(registry.get(exercise_id), text, engine="gpu", seed=11)


@pytest.mark.parametrize(("exercise_id", "text"), [("02.3", SOFTMAX), ("02.1", ADD)], ids=["triton", "cuda"])
def test_a_right_answer_passes_on_the_card_with_the_traffic_counted_on_the_cpu(exercise_id, text):
    verdict = graded(exercise_id, text)
    assert verdict.passed and verdict.engine == "gpu" and not verdict.remarks
    assert verdict.ledger["global_load"]["bytes"] > 0


LOAD = 'tl.load(x_ptr + row * num_cols + cols, mask=mask, other=-float("inf"))'
SILENT = {
    "out_of_bounds": SOFTMAX.replace(LOAD, 'tl.where(mask, tl.load(x_ptr + row * num_cols + cols), -float("inf"))'),
    "race": SOFTMAX.replace(
        "weights / tl.sum(weights, axis=0)",
        "weights / tl.sum(weights, axis=0) + tl.minimum(tl.abs(tl.load(out_ptr)), 0.0)",
    ),
    "not_fused": SOFTMAX.replace("    weights =", f"    x = tl.minimum(x, {LOAD})\n    weights ="),
}


@pytest.mark.parametrize("code", SILENT)
def test_what_looks_right_on_the_card_is_refused(code):
    verdict = graded("02.3", SILENT[code])
    assert verdict.state == "FAIL" and verdict.engine == "cpu" and verdict.diagnosis.code == code


def test_a_stray_read_that_the_card_allows_is_named():
    verdict = graded(
        "02.1",
        ADD.replace(
            "if (i < num_elements) out[i] = x[i] + y[i];",
            "float sum = x[i] + y[i]; if (i < num_elements) out[i] = sum;",
        ),
    )
    assert verdict.diagnosis.code == "out_of_bounds" and verdict.diagnosis.line == 3


def test_both_zygotes_are_used():
    graded("02.3", SOFTMAX)
    assert {"cpu", "gpu"} <= {engine for engine, _ in isolation._zygotes}

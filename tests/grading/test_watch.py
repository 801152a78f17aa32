"""What a watched torch answer makes: memory that is alive at one time, in tensors, arrays and lists."""

import pytest
import torch

from course_lib.grading.processes import isolation
from course_lib.grading.processes.protocol import ChildTask, Ref, Run

ROWS, COLS = 64, 2048
BYTES = ROWS * COLS * 4


def watched(*lines):
    """The ledger of an answer with these lines; `x` is (ROWS, COLS) float32."""
    body = "".join(f"    {line}\n" for line in lines)
    source = f"import sys, numpy, torch\nROWS, COLS = {ROWS}, {COLS}\ndef answer(x):\n{body}    return x\n"
    run = Run("only", {"x": torch.zeros(ROWS, COLS)}, {"y": ((ROWS, COLS), "float32")}, (Ref("x"),))
    (result,) = isolation.run_task(ChildTask("python", source, "answer", (run,), watched=True)).runs
    assert result.fault is None
    return result.ledger


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["kept = x[:, 1:].T"], 0),
        (["for _ in range(9): kept = x + 1.0"], 2 * BYTES),  # the old one lives until the new one is there
        (["for _ in range(9): x + 1.0"], BYTES),
        (["kept = [x[i : i + 1] + 1.0 for i in range(ROWS)]"], BYTES),
        (["kept = [row + 1.0 for row in x]", "kept.clear()", "x[:1] + 1.0"], BYTES),
        (["kept = torch.empty(ROWS, COLS)", "kept[:, :8] = 1.0"], BYTES),
        (["kept = x.clone().exp_()"], BYTES),
        (["kept = x.half()"], BYTES // 2),
        (["kept = torch.stack(x.unbind())"], BYTES),
        (["kept = x[:, :8].exp()"], ROWS * 8 * 4),
    ],
)
def test_tensors_count_as_long_as_they_live(lines, expected):
    ledger = watched(*lines)
    assert ledger["tensor_bytes"] == expected and ledger["object_bytes"] < BYTES // 4


@pytest.mark.parametrize(
    "line",
    [
        "numpy.exp(x.numpy())",
        "numpy.array(x)",
        "x.tolist()",
        "[row.tolist() for row in x]",
        "bytearray(x.numpy())",
        "numpy.from_dlpack(x) + 1",
        "[[value.item() for value in row] for row in x[:8]]",
    ],
)
def test_arrays_and_lists_count(line):
    ledger = watched(line)
    assert ledger["tensor_bytes"] == 0 and ledger["object_bytes"] >= BYTES


def test_tensors_and_lists_count_together_while_both_live():
    ledger = watched("kept = x.tolist()", "more = x + 1.0")
    assert ledger["held_bytes"] >= BYTES + ledger["object_bytes"] // 2
    apart = watched("more = x + 1.0", "del more", "kept = x.tolist()", "del kept", "x[:1] + 1.0")
    assert apart["held_bytes"] < BYTES + BYTES // 4


def test_what_operators_leave_in_pythons_caches_does_not_count():
    ledger = watched("x[0, 0].item()", "for _ in range(2000): x[:1, :4] + 1.0")
    assert ledger["object_bytes"] < 24 * 1024


def test_exponentials_and_products_count_by_their_largest():
    ledger = watched("weights = torch.exp(x[:, :8])", "weights @ x[:8, :4]", "torch.exp(x[0])")
    assert (ledger["exponentials"], ledger["longest"], ledger["terms"]) == (COLS, COLS, 8)


def test_sums_convolutions_and_float64_count_by_their_largest():
    ledger = watched("x.sum(dim=1)", "x[:, :8].double().sum(dim=1)")
    assert (ledger["added"], ledger["terms"], ledger["doubles"]) == (COLS, 0, ROWS * 8)
    ledger = watched("torch.nn.functional.conv1d(x[:, :8, None], torch.ones(4, 8, 1))")
    assert (ledger["added"], ledger["doubles"]) == (8, 0)


def test_a_watched_answer_does_not_wait_for_the_compiler_of_torch():
    assert watched("y = x * 2", "assert 'torch._dynamo' not in sys.modules")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["x @ x[:8].T"], ROWS * 8 * COLS),
        (["torch.einsum('ij,kj->ik', x[:4], x[:8])", "x[:4] @ x[0]"], 4 * 8 * COLS + 4 * COLS),
        (["(x[:4] * x[0]).sum(dim=1)"], 0),
    ],
)
def test_multiply_adds_of_all_products(lines, expected):
    assert watched(*lines)["multiply_adds"] == expected


@pytest.mark.parametrize(
    ("lines", "written"),
    [
        (["out = torch.zeros_like(x)", "for i in range(0, ROWS, 8): out[i : i + 8] = x[i : i + 8]"], ROWS * COLS),
        (["out = torch.zeros_like(x)", "for i in range(3): out[:8] = x[:8]"], 3 * 8 * COLS),
        (["out = torch.zeros_like(x)", "out[:8].add_(x[:8]).mul_(2.0)"], 2 * 8 * COLS),
        (["out = torch.empty_like(x).fill_(1.0)"], 0),
        (["for i in range(3):", "    out = torch.zeros_like(x)", "    out[:8] = x[:8]"], 8 * COLS),  # three memories
    ],
)
def test_numbers_written_in_place_into_one_memory(lines, written):
    assert watched(*lines)["overwritten"].get(str(ROWS * COLS), 0) == written

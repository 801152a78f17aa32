"""Chapter 07 keeps its cells short and its kernel under 50 lines, and its pictures count what the kernels count."""

import inspect
import re
from statistics import median

import pytest
import torch

from course_lib import viz
from course_lib.build.chapters import read_chapter
from course_lib.ops import flash_attention_2 as ops


@pytest.fixture(scope="module")
def chapter(root):
    return read_chapter(root / "chapters" / "07_flash_attention_2.md")


def test_cells_and_quotes_of_the_lecture_are_short(chapter):
    lengths = [len(cell.source.splitlines()) for cell in chapter.part("lecture") if cell.kind == "code"]
    assert max(lengths) <= 15 and median(lengths) <= 10, lengths
    text = "\n".join(cell.source for cell in chapter.part("lecture") if cell.kind == "markdown")
    pieces = re.findall(r"^```(?:c\+\+|python)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    # the fragments of 02_mma are the one piece that cannot be cut: loads, packing and products interlock
    assert len(pieces) >= 15 and sorted(len(piece.splitlines()) for piece in pieces)[-3] <= 16


def test_the_triton_kernel_that_is_read_aloud_has_under_50_lines():
    from course_lib.triton_kernels.flash_attention_2 import forward_kernel

    lines = [
        line for line in inspect.getsource(forward_kernel.fn).splitlines() if line.strip() and "region" not in line
    ]
    assert len(lines) < 50


@pytest.mark.parametrize(("num_q", "num_kv", "head_dim", "block_m", "block_n"), [(16, 16, 4, 4, 4), (5, 9, 4, 4, 4)])
def test_the_animation_counts_what_the_kernel_counts(num_q, num_kv, head_dim, block_m, block_n, monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")
    steps = viz.loop_steps(num_q, num_kv, head_dim, block_m, block_n, q_outside=True)
    q, k = torch.randn(1, 1, num_q, head_dim), torch.randn(1, 1, num_kv, head_dim)
    launch = ops.plan(q, k, k, variant="01_loop_order", block_m=block_m, block_n=block_n)
    assert sum(steps[-1].moved_bytes.values()) == sum(launch.traffic()) - 4 * num_q  # lse is not in the picture

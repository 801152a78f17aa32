"""Chapter 06 says what the judge says, keeps its cells short, and its animation counts what the kernels count."""

import pytest
import torch

from course_lib import viz
from course_lib.book.chapters import read_chapter
from course_lib.measure import read_results
from course_lib.ops import flash_attention_1 as ops


@pytest.fixture(scope="module")
def chapter(root):
    return read_chapter(root / "chapters" / "06_flash_attention_1.md")


@pytest.mark.parametrize(("num_q", "num_kv", "head_dim", "block_m", "block_n"), [(8, 8, 4, 2, 2), (5, 9, 4, 4, 4)])
def test_the_animation_counts_what_the_kernel_counts(num_q, num_kv, head_dim, block_m, block_n):
    steps = viz.loop_steps(num_q, num_kv, head_dim, block_m, block_n)
    q, k = torch.randn(1, 1, num_q, head_dim, device="cpu"), torch.randn(1, 1, num_kv, head_dim, device="cpu")
    counted = sum(ops.plan(q, k, k, block_m=block_m, block_n=block_n).traffic())
    finish = 3 * 4 * num_q  # m and l read once more, lse written
    assert sum(steps[-1].moved_bytes.values()) == counted - finish
    assert [(step.kv_tile, step.q_tile) for step in steps] == sorted((step.kv_tile, step.q_tile) for step in steps)


def test_the_player_has_every_step_and_a_still_picture():
    player = viz.tile_loops(4, 6, 2, 2, 2)
    (frames,) = player.tracks.values()
    assert len(frames) == 6 and "K/V tile 3 of 3, Q tile 1 of 2" in frames[4].sentence
    assert frames[4].stop == "5 of 6" and "Four moments" in player.still.alt_text


def test_the_memory_curve_says_where_it_ends():
    formula = {"matrix": [(1, 8), (2, 32), (4, 128)], "none": [(1, 4), (2, 8), (4, 16)]}
    picture = viz.memory_curves(formula, {"matrix": [(1, 9)]}, limit=(64, "64 bytes"))
    assert "matrix: the last of these lengths that fits is 2" in picture.alt_text
    assert (
        "none: the last of these lengths that fits is 4" in picture.alt_text
        and "matrix measured at 1" in picture.alt_text
    )
    assert len(picture.png()) < 60_000


def test_what_the_chapter_says_of_the_gpu_stands_in_its_rows():
    rows = read_results("h200", "flash_attention_1").where(num_heads=264, seq_len=4096)

    def one(variant, language, **more):
        return rows.where(variant=variant, language=language, **more).rows[0]

    torch_tflops, cuda_tflops = (
        one(variant, language, **{"pass": "forward"})["tflops"]
        for variant, language in (("torch", "torch"), ("06_flash_attention_1", "cuda"))
    )
    assert 5.5 <= torch_tflops / cuda_tflops <= 6.5  # "about six times as many FLOP in a second"
    both = one("torch", "torch", **{"pass": "backward"})["peak_bytes"]
    assert both > 0.85 * 80e9  # "a training step that fills an H100"
    assert one("08_flash_attention_1_backward", "triton")["peak_bytes"] < 1.2e9  # "little more than a gigabyte"

"""Chapter 05 says what the judge says, in short cells and short quotations, and its links lead somewhere."""

import pytest
import torch

from course_lib import measure
from course_lib.book.chapters import read_chapter
from course_lib.device import has_gpu
from course_lib.measure.sdpa import sdpa_backends
from course_lib.viz import mask_picture


@pytest.fixture(scope="module")
def chapter(root):
    return read_chapter(root / "chapters" / "05_standard_attention.md")


def test_the_times_of_the_text_are_those_of_the_stored_rows(chapter):
    text = "\n".join(cell.source for cell in chapter.part("lecture") if cell.kind == "markdown")
    stored = measure.read_results("h200", "naive_attention").where(seq_len=4096, dtype="bfloat16")
    for variant, words in (
        ("naive", "take {:,.0f} µs instead of {:,.0f}"),
        ("sdpa_flash", "takes {:.0f} µs instead of {:.0f}"),
    ):
        times = [stored.where(variant=variant, head_dim=width).rows[0]["median_us"] for width in (128, 64)]
        assert words.format(*times) in text


def test_the_mask_picture_says_its_rows():
    assert "1 1 1 1 0 / 1 1 1 1 1" in mask_picture(2, 5).alt_text
    assert "1 0 0 0 0 / 1 1 0 0 0" in mask_picture(2, 5).alt_text


def test_sdpa_backends_names_what_ran():
    x = torch.randn(1, 2, 16, 32, device="cuda" if has_gpu() else "cpu")
    rows = {row[0]: row for row in sdpa_backends(x, x, x).rows}
    assert "flash" in rows["FLASH_ATTENTION"][1] or rows["FLASH_ATTENTION"][2] is None
    assert "softmax" in rows["MATH"][1] and rows["MATH"][2] <= 1e-5
    assert any(row[2] is None for row in rows.values()) or has_gpu()

"""The picture of lanes shows what was recorded; the picture of the levels says what is unknown."""

import pytest

from course_lib import measure, viz
from course_lib.device import KNOWN_GPUS
from course_lib.viz.memory import Access, lanes_picture, levels_picture


def recorded(words):
    return Access("global", tuple(words), len({4 * word // 32 for word in words}))


def test_the_sentence_counts_words_sectors_and_waste():
    assert "32 different words in 12 sectors: 33 %" in recorded([3 * lane for lane in range(32)]).sentence()
    assert "4 different words in 1 sector: 50 %" in recorded([lane // 8 for lane in range(32)]).sentence()
    clash = Access("shared", tuple(2 * lane for lane in range(32)), 2)
    assert clash.sentence() == "32 different words in 16 banks: 2 wavefronts, 1 of them bank conflicts."
    assert "no bank conflict" in Access("shared", tuple(range(32)), 1).sentence()


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("stride", [0, 1, 33])
def test_pictures_have_words_and_are_small(space, stride):
    picture = lanes_picture(Access(space, tuple(stride * lane for lane in range(32)), 7), "x[…]")
    assert "7 " in picture.alt_text and f"the words 0, {stride}, {2 * stride}" in picture.alt_text
    assert len(picture.png()) < 60_000


def test_the_picture_shows_the_recording():
    """A recording that differs from what was asked for gives another picture."""
    asked, other = recorded(range(32)), recorded(range(1, 33))
    assert lanes_picture(asked, "x").png() != lanes_picture(other, "x").png()


def test_levels_of_every_card_follow_from_its_row():
    for key in ("A100", "H100", "H200", "RTX 4090", "T4", "L4"):
        levels = measure.memory_levels(key)
        rates = [one.gbps for one in levels if one.gbps is not None]
        assert rates == sorted(rates, reverse=True), key  # every level down is slower: the one rule that holds
        assert len(levels) == 5
    registers, shared, l2, *_ = measure.memory_levels("A100")
    assert registers.gbps == pytest.approx(156_000) and shared.gbps == pytest.approx(19_500, rel=0.01)
    assert l2.gbps == pytest.approx(7219, rel=0.01)  # 5120 bytes a cycle


def test_an_unknown_rate_is_a_dash_or_says_so():
    assert measure.memory_levels("L4")[2].gbps is None
    table = measure.steps_table("rate", l2_gbps={"H200": 5800})
    row = next(row for row in table.rows if row[0] == "shared memory / L1 to L2")
    by_card = dict(zip(table.columns, row, strict=True))
    assert by_card["L4"] is None and by_card["H200"] == pytest.approx(5.8, rel=0.02)
    assert "not published" in levels_picture(measure.memory_levels("H100"), "H100").alt_text


def test_the_chip_has_the_numbers_of_the_card():
    words = viz.chip_picture(KNOWN_GPUS["H100"], measure.memory_levels("H100"))
    for part in ("132 SMs", "50 MiB", "80 GB, 3,350 GB/s", "256 KiB", "228 KiB", "29 cycles", "64 warps"):
        assert part in words.alt_text, part
    assert len(words.axes[0].patches) > 132 + 4 * 32

"""Pictures: the data behind them is right, the text alternative says it too, the files stay small."""

import base64
import io
import math

import pytest
from PIL import Image

from course_lib import viz

ROW = [1, 3, 2, 0, 5, 4, 1, 2]
MAX_PNG_BYTES = 60_000


def pictures():
    steps = viz.walk(ROW, 2)
    return {
        "sweeps": viz.sweeps_picture(),
        "walk": viz.walk_picture(steps),
        "step": viz.step_picture(steps, 2),
        "bytes": viz.bytes_bars({"01_three_pass": 3, "02_online": 2}, {"01_three_pass": 1, "02_online": 1}, bound=2),
        "times": viz.time_bars({"01_three_pass": 3.0, "torch": 2.0}, roof=1.0),
        "curves": viz.curves({"a": [(1, 2), (4, 3)], "b": [(4, 3.01)], "none": []}, x="n", y="%", title="speed"),
        "roofline": viz.roofline("a GPU", {"a": (0.8, None), "b": (0.8, 1.5)}, peak_tflops=60, memory_gbps=4000),
    }


@pytest.mark.parametrize("block_n", [1, 2, 3, 8, 100])
def test_walk_ends_at_the_softmax_state_for_every_tile_width(block_n):
    steps = viz.walk(ROW, block_n)
    assert steps[-1].stop == len(ROW) and steps[-1].m == 5
    assert math.isclose(steps[-1].l, sum(math.exp(x - 5) for x in ROW))
    for step in steps:
        assert math.isclose(sum(step.terms), step.l)
        assert math.isclose(step.l, step.alpha * step.l_old + step.added)
        for before, after in zip(step.before, step.terms, strict=False):
            assert math.isclose(after, before * step.alpha)


def test_walk_over_masked_scores_has_no_nan():
    steps = viz.walk([-math.inf, -math.inf, 2, -math.inf], 2)
    assert [(step.m, step.l) for step in steps] == [(-math.inf, 0.0), (2.0, 1.0)]
    assert steps[1].terms == (0.0, 0.0, 1.0, 0.0)


@pytest.mark.parametrize(("row", "block_n"), [([], 2), ([1.0], 0)])
def test_walk_refuses_nothing_to_walk(row, block_n):
    with pytest.raises(ValueError, match="walk needs"):
        viz.walk(row, block_n)


def test_pictures_are_small_and_tell_in_words_what_they_show():
    for name, picture in pictures().items():
        data, metadata = picture._repr_mimebundle_()
        png = base64.b64decode(data["image/png"])
        image = Image.open(io.BytesIO(png))
        assert 1_000 < len(png) < MAX_PNG_BYTES, (name, len(png))
        assert data["text/plain"] == picture.alt == metadata["image/png"]["alt"]
        assert len(picture.alt) > 40, name
        assert image.width > metadata["image/png"]["width"], f"{name} is not crisp on a dense screen"
        assert image.convert("RGB").getpixel((0, 0)) == (255, 255, 255), f"{name} needs a white ground"


def test_the_same_data_give_the_same_file():
    assert viz.sweeps_picture().png() == viz.sweeps_picture().png()


def test_alternative_text_holds_the_numbers():
    assert "alpha = 0.1353, l = 0.1353 * 1.5530 + 1.3679 = 1.5781" in viz.step_picture(viz.walk(ROW, 2), 2).alt
    assert "nothing to draw" in viz.curves({"a": []}, x="n", y="%", title="speed").alt
    assert "b: 1 at 1, 3.01 at 4" in viz.curves({"b": [(4, 3.01), (1, 1)]}, x="n", y="%").alt
    names = [
        label.get_text()
        for label in viz.curves({"b": [(n, 1) for n in range(1, 17)]}, x="n", y="%").axes[0].get_xticklabels()
    ]
    assert names == [*map(str, range(1, 13)), "", "14", "", "16"]  # 13 and 15 would touch their neighbours
    alt = viz.bytes_bars({"a": 3000}, {"a": 1000}, bound=2000).alt
    assert "a reads 3,000 and writes 1,000" in alt and "2,000 bytes" in alt


def test_pictures_of_rows_with_masked_and_negative_scores():
    steps = viz.walk([-math.inf, -100.0, -99.5, 0.25, -math.inf], 2)
    assert all(len(viz.step_picture(steps, number).png()) > 1_000 for number in range(len(steps)))
    assert len(viz.walk_picture(viz.walk([-math.inf], 1)).png()) > 1_000

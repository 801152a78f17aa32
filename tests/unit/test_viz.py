"""Every picture has alternative text, a white background and a small file; the names of `viz` load on first use."""

import base64
import io

import pytest
from PIL import Image, ImageColor

from course_lib import viz
from course_lib.viz.style import BLUE, GREEN, ORANGE, PURPLE

ROW = [1, 3, 2, 0, 5, 4, 1, 2]
MAX_PNG_BYTES = 60_000
SWEEP = [{"batch_size": 1, "seq_len": 1024, "num_splits": s, "median_us": 9 / s, "chosen": int(s == 4)} for s in (1, 4)]
PICTURES = {
    "sweeps": viz.sweeps_picture,
    "walk": lambda: viz.walk_picture(viz.walk(ROW, 2)),
    "step": lambda: viz.step_picture(viz.walk(ROW, 2), 2),
    "bytes": lambda: viz.bytes_bars(
        {"01_three_pass": 3, "02_online": 2}, {"01_three_pass": 1, "02_online": 1}, bound=2
    ),
    "times": lambda: viz.time_bars({"01_three_pass": 3.0, "torch": 2.0}, roof=1.0),
    "curves": lambda: viz.curves({"a": [(1, 2), (4, 3)], "b": [(4, 3.01)], "none": []}, x="n", y="%", title="speed"),
    "split curves": lambda: viz.split_curves(SWEEP),
    "roofline": lambda: viz.roofline("a GPU", {"a": (0.8, None), "b": (0.8, 1.5)}, peak_tflops=60, memory_gbps=4000),
    "tile map": lambda: viz.tile_map_picture(52, 60, 16, 8),
    "card": lambda: viz.card_picture({"no split": 32, "in four": 128, "in eight": 256}),
    "splits": lambda: viz.splits_picture([11, 6, 0], 4, 3),
    "group": lambda: viz.group_picture(4),
    "launches": lambda: viz.launch_picture(6, 1.6, 1.0),
    "waves": viz.waves_picture,
    "waves on a small card": lambda: viz.waves_picture(2, (1, 3, 4), 6),
}


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_small_and_have_alternative_text(name):
    picture = PICTURES[name]()
    data, metadata = picture._repr_mimebundle_()
    png = base64.b64decode(data["image/png"])
    image = Image.open(io.BytesIO(png))
    assert 1_000 < len(png) < MAX_PNG_BYTES, len(png)
    assert data["text/plain"] == picture.alt_text == metadata["image/png"]["alt"]
    assert len(picture.alt_text) > 40
    assert image.width > metadata["image/png"]["width"], "not sharp on a high-density screen"
    assert image.convert("RGB").getpixel((0, 0)) == (255, 255, 255), "the background is not white"


def test_small_marks_keep_their_colour():
    """Few pixels are green in this picture, and the file has few colours."""
    rates = {"step by step": (42, 98), "02_mma": (2000, 70), "03_swizzled": (2000, 229), "10_heavy_first": (2000, 403)}
    picture = viz.roofline("a GPU", rates, peak_tflops=989, memory_gbps=4800)
    image = Image.open(io.BytesIO(picture.png())).convert("RGB")
    colours = {colour for _, colour in image.getcolors(1 << 20)}
    assert {ImageColor.getrgb(name) for name in (BLUE, ORANGE, GREEN, PURPLE)} <= colours


def test_the_same_data_give_the_same_file():
    assert viz.sweeps_picture().png() == viz.sweeps_picture().png()


@pytest.mark.parametrize("name", viz.__all__)
def test_every_name_is_in_the_module_that_is_declared_for_it(name):
    if viz._MODULES[name] == "widgets":
        pytest.importorskip("ipywidgets", reason="ipywidgets belongs to the notebook environment")
    assert getattr(viz, name).__module__ == f"course_lib.viz.{viz._MODULES[name]}"


def test_no_name_of_viz_is_hidden_by_a_module_of_the_same_name():
    assert not viz._NAMES.keys() & viz._MODULES.keys(), "the second use of that name would return the module"

"""Every picture has alternative text, a white background and a small file; the names of `viz` load on first use."""

import functools
import io
import itertools

import matplotlib.style
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image, ImageColor

from course_lib import measure, viz
from course_lib.book.notebooks import pictures
from course_lib.device import KNOWN_GPUS
from course_lib.viz.style import BLUE, GREEN, ORANGE, PURPLE

ROW = [1, 3, 2, 0, 5, 4, 1, 2]
MAX_PNG_BYTES = 60_000
LARGER = {"accumulators": 100_000, "operand": 100_000}  # 256 numbers on four hatches
SWEEP = [{"batch_size": 1, "seq_len": 1024, "num_splits": s, "median_us": 9 / s, "chosen": int(s == 4)} for s in (1, 4)]
INTENSITY_01 = {"softmax": 0.83, "decode": 1, "attention, scores in memory": 62, "matrix product": 1365, "one": 2048}
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
    "chip": lambda: viz.chip_picture(KNOWN_GPUS["H100"], measure.memory_levels("H100")),
    "chip, a small card": lambda: viz.chip_picture(KNOWN_GPUS["T4"], measure.memory_levels("T4")),
    "fusion": viz.fusion_picture,
    "counts": lambda: viz.count_bars({"03.1": {"pass": 3, "fail": 0}, "03.2": {"pass": 1, "fail": 2}}, unit="learners"),
    "rates": lambda: viz.rate_bars({"01_a": 100, "cuDNN": 500}, marked=("cuDNN",), lines={"peak": 989}),
    "roofline of 01": lambda: viz.roofline(
        "H200",
        {name: (value, None) for name, value in INTENSITY_01.items()},
        peak_tflops=989,
        memory_gbps=4800,
    ),
    "card": lambda: viz.card_picture({"no split": 32, "in four": 128, "in eight": 256}),
    "splits": lambda: viz.splits_picture([11, 6, 0], 4, 3),
    "group": lambda: viz.group_picture(4),
    "lanes of keys": lambda: viz.key_lanes_picture(64, 128, 10),
    "rings": viz.rings_picture,
    "last block": viz.last_block_picture,
    "group products": viz.group_products_picture,
    "movmatrix": viz.movmatrix_picture,
    "table walk": lambda: viz.table_walk_picture([0, 3, 4, 5, 6], 16, 20, 37),
    "slot mapping": lambda: viz.slot_mapping_picture([("A", 6), ("B", 3), ("", -1)], 4, 4),
    "page lanes": lambda: viz.page_lanes_picture([7] * 5 + [2] * 11, [11, 12, 13, 14, 15, *range(11)]),
    "look-ups": viz.lookup_picture,
    "layouts": viz.layouts_picture,
    "new queries": lambda: viz.new_queries_picture({"D": (6, 16), "E": (1, 11), "F": (8, 8)}),
    "byte steps": viz.byte_steps_picture,
    "launches": lambda: viz.launch_picture(6, 1.6, 1.0),
    "timeline": lambda: viz.actors_panels(
        {"a": viz.attention_schedule(4), "b": viz.attention_schedule(4, overlap=True)}
    ),
    "ring": lambda: viz.ring_picture(viz.ring_steps()),
    "ring, one event": lambda: viz.ring_step_picture(viz.ring_steps(), 12),
    "registers of a block": viz.register_pool_picture,
    "registers of a thread": viz.register_share_picture,
    "swizzle": viz.swizzle_picture,
    "panels": viz.panels_picture,
    "descriptor": lambda: viz.descriptor_picture(0x4000004000010840),
    "accumulators": viz.accumulators_picture,
    "cycles of a tile": lambda: viz.tile_cycles_bars({"d = 128": (2048, 1024), "d = 64": (1024, 1024)}),
    "ldmatrix": viz.ldmatrix_picture,
    "ldmatrix, short rows": lambda: viz.ldmatrix_picture(64),
    "offset": viz.xor_address_picture,
    "addresses of ldmatrix": viz.ldmatrix_lanes_picture,
    "tile in shared memory": viz.shared_tile_picture,
    "tile in registers": viz.register_tile_picture,
    "stages": viz.stages_picture,
    "gradient that travels": viz.travelling_gradient_picture,
    "lanes of a row": viz.row_lanes_picture,
    "operand": viz.operand_picture,
    "lazy maximum": lambda: viz.lazy_maximum_picture([1, 4, 9.5, 9, 10]),
    "stores": viz.store_picture,
    "walk over keys": viz.key_walk_picture,
    "heavy blocks": viz.heavy_blocks_picture,
    "owners": viz.gradient_owners_picture,
    "buffers": viz.buffers_picture,
    "registers of a lane": lambda: viz.warp_share_picture([("d = 64", 64, 64, 64), ("d = 128", 48, 128, 16)]),
    "waves": viz.waves_picture,
    "waves on a small card": lambda: viz.waves_picture(2, (1, 3, 4), 6),
}


@functools.cache
def shown(name):
    """A picture and what a notebook shows of it, drawn once for all tests that only look."""
    picture = PICTURES[name]()
    return picture, picture._repr_mimebundle_()


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_small_and_have_alternative_text(name):
    picture, data = shown(name)
    ((png, alt),) = pictures(data)
    image = Image.open(io.BytesIO(png))
    assert 1_000 < len(png) < LARGER.get(name, MAX_PNG_BYTES), len(png)
    assert data["text/plain"] == picture.alt_text == alt
    assert len(picture.alt_text) > 40
    assert f'width="{picture.css_size[0]}"' in data["text/html"]
    assert image.width > picture.css_size[0], "not sharp on a high-density screen"
    assert image.convert("RGB").getpixel((0, 0)) == (255, 255, 255), "the background is not white"


def collisions(picture):
    """Texts of a drawn picture that are cut off at its edge or overlap each other, by more than a pixel or two."""
    renderer = FigureCanvasAgg(picture).get_renderer()
    texts = [text for axes in picture.axes for text in axes.texts if text.get_text().strip()]
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in texts]
    cut = [text for text, box in boxes if box.x0 < -1 or box.y0 < -1]
    cut += [text for text, box in boxes if box.x1 > picture.bbox.width + 1 or box.y1 > picture.bbox.height + 1]
    pairs = itertools.combinations(boxes, 2)
    return cut + [
        (one, other)
        for (one, a), (other, b) in pairs
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 2
    ]


@pytest.mark.parametrize("name", PICTURES)
def test_no_text_is_cut_off_or_covers_another(name):
    assert not collisions(shown(name)[0])


def test_a_collision_is_seen():
    picture = viz.swizzle_picture()
    axes = picture.axes[0]
    axes.text(0.4, 0.7, "over a chunk")
    axes.text(-9, 3, "outside", in_layout=False)
    picture.draw_without_rendering()
    found = collisions(picture)
    assert "outside" in found and ("0", "over a chunk") in found


def test_small_marks_keep_their_colour():
    """Few pixels are green in this picture, and the file has few colours."""
    rates = {"step by step": (42, 98), "02_mma": (2000, 70), "03_swizzled": (2000, 229), "10_heavy_first": (2000, 403)}
    picture = viz.roofline("a GPU", rates, peak_tflops=989, memory_gbps=4800)
    image = Image.open(io.BytesIO(picture.png())).convert("RGB")
    colours = {colour for _, colour in image.getcolors(1 << 20)}
    assert {ImageColor.getrgb(name) for name in (BLUE, ORANGE, GREEN, PURPLE)} <= colours


@pytest.mark.parametrize("name", PICTURES)
def test_a_dark_style_changes_nothing(name):
    """A picture brings its white ground along, which a dark page inverts: matplotlib's own dark style stays out."""
    ((light, _),) = pictures(shown(name)[1])
    with matplotlib.style.context("dark_background"):
        assert PICTURES[name]().png() == light


def test_the_same_data_give_the_same_file():
    assert viz.sweeps_picture().png() == viz.sweeps_picture().png()


@pytest.mark.parametrize("name", viz.__all__)
def test_every_name_is_in_the_module_that_is_declared_for_it(name):
    if viz._MODULES[name].startswith("widgets"):
        pytest.importorskip("ipywidgets", reason="ipywidgets belongs to the notebook environment")
    assert getattr(viz, name).__module__ == f"course_lib.viz.{viz._MODULES[name]}"


def test_no_name_of_viz_is_hidden_by_a_module_of_the_same_name():
    assert not viz._NAMES.keys() & viz._MODULES.keys(), "the second use of that name would return the module"

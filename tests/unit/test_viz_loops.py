"""Pictures of chapter 07: both loop orders, the map of tiles under a causal mask, the split among warps."""

import pytest
import torch

from course_lib import viz
from course_lib.viz.tile_loops_widget import LoopOrders
from course_lib.viz.tile_map import MASKED, SKIPPED, WHOLE

SIZES = [(8, 8, 2, 2), (52, 60, 16, 8), (37, 53, 8, 16), (50, 20, 8, 16), (1, 1, 4, 4), (20, 50, 16, 7)]


@pytest.mark.parametrize(("num_q", "num_kv", "block_m", "block_n"), SIZES)
def test_tile_kinds_are_what_the_mask_says(num_q, num_kv, block_m, block_n):
    rows, keys = torch.arange(num_q)[:, None], torch.arange(num_kv + block_n)[None]
    seen = (keys <= rows + num_kv - num_q) & (keys < num_kv)
    for q_tile, kinds in enumerate(viz.tile_kinds(num_q, num_kv, block_m, block_n)):
        for kv_tile, kind in enumerate(kinds):
            tile = seen[q_tile * block_m : (q_tile + 1) * block_m, kv_tile * block_n : (kv_tile + 1) * block_n]
            assert kind == (WHOLE if tile.all() else MASKED if tile.any() else SKIPPED), (q_tile, kv_tile)


def test_q_outside_moves_a_row_once_and_the_keys_for_every_tile_of_queries():
    steps = viz.loop_steps(5, 9, 4, 2, 4, q_outside=True)
    assert len(steps) == 9 and [(step.q_tile, step.kv_tile) for step in steps] == [
        (i, j) for i in range(3) for j in range(3)
    ]
    assert steps[-1].moved_bytes == {"K and V": 3 * 2 * 9 * 16, "Q": 5 * 16, "out": 5 * 16, "m and l": 0}
    assert steps[3].sentence().startswith("Q tile 2 of 3, K/V tile 1 of 3: ")


def test_both_orders_play_side_by_side():
    pair = tuple(viz.loop_steps(4, 6, 2, 2, 2, q_outside=outside) for outside in (False, True))
    widget = LoopOrders(*pair)
    before = widget.picture.value
    widget.slider.value = 3
    assert widget.picture.value != before
    assert "K and V outside: K/V tile 2 of 3" in widget.words.value and "Q outside: Q tile 1 of 2" in widget.words.value
    assert "Two orders" in widget.box.still.alt and len(widget.box.still.png()) < 60_000
    with pytest.raises(ValueError, match="loop_order='q'"):
        viz.tile_loops(loop_order="q")


def test_pictures_say_in_words_what_they_show():
    picture = viz.tile_map_picture(52, 60, 16, 8)
    assert "16 every score counts, 7 needs the mask, 9 skipped" in picture.alt and len(picture.png()) < 60_000
    assert "partial rows that meet in shared memory" in viz.warp_split_picture().alt


def test_no_name_of_viz_is_hidden_by_a_module_of_the_same_name():
    from course_lib.viz import _LAZY

    names = {module.removeprefix(".") for module in _LAZY.values()}
    assert not names & _LAZY.keys(), "the second use of that name would find the module"


def test_copies_hide_under_products_when_there_are_two_buffers():
    apart = viz.overlap_steps(4, 2, 3, pipelined=False)
    under = viz.overlap_steps(4, 2, 3, pipelined=True)
    assert (apart[-1][3], under[-1][3]) == (4 * (2 + 3), 2 + 4 * 3)
    assert viz.overlap_steps(4, 5, 3, pipelined=True)[-1][3] == 4 * 5 + 3  # slow copies: they decide
    assert "End: load, barrier, multiply: 9; two buffers" in viz.overlap_picture().alt


def test_rates_as_bars():
    picture = viz.rate_bars(
        {"ours": 300.0, "theirs": 350.0, "not measured": None}, marked=("theirs",), lines={"peak": 989}
    )
    assert picture.alt == "TFLOP/s, higher is better: ours 300; theirs 350; peak 989."
    assert "no rows are stored yet" in viz.rate_bars({"ours": None}, title="ladder").alt

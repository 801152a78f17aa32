"""Pictures of chapter 10: a look-up, slots, lanes, layouts, new queries, bytes; they show what the kernels compute."""

import pytest
import torch

from course_lib import kv, viz
from course_lib.viz.page_contents import e4m3_values, layout_rows, visible
from course_lib.viz.page_lookups import lookup_spans, slot_of


def test_the_slot_of_the_picture_is_the_slot_of_the_pool():
    pool = kv.PagePool(6, 4)
    for name in "ab" * 7:
        name in pool or pool.add(name)
        pool.append(name)
    assert [slot_of(pool.pages("b"), 4, token) for token in range(7)] == pool.slots("b").tolist()
    assert "Entry 1" in viz.table_walk_picture([2, 0], 2, 3, 3).alt_text
    assert "slot 0 * 2 + 1 = 1" in viz.table_walk_picture([2, 0], 2, 3, 3).alt_text


@pytest.mark.parametrize("ahead", [False, True])
def test_no_bar_begins_before_what_it_needs(ahead):
    spans = lookup_spans(6, 1.0, 1.4, 1.0, ahead=ahead)
    by = {(lane, tile): (start, end) for lane, tile, start, end in spans}
    for tile in range(6):
        assert by["table", tile][1] <= by["rows", tile][0] and by["rows", tile][1] <= by["multiply", tile][0]
        if tile:
            assert by["multiply", tile - 1][1] <= by["multiply", tile][0]
        if ahead and tile > 1:  # two tiles in flight and one that is multiplied: three slots of a ring
            assert by["rows", tile][0] >= by["multiply", tile - 2][0]
    assert lookup_spans(6, 1.0, 1.4, 1.0, ahead=True)[-1][3] < lookup_spans(6, 1.0, 1.4, 1.0, ahead=False)[-1][3]


def test_both_layouts_are_the_strides_of_a_page():
    page = torch.arange(4 * 3).view(4, 3)  # (page_size, num_kv_heads), the rows of NHD by number
    for layout, view in (("NHD", page), ("HND", page.T)):
        assert [slot * 3 + head for slot, head in layout_rows(4, 3, layout)] == view.flatten().tolist()


def test_new_queries_see_what_precedes_them_and_a_triangle():
    assert visible(3, 10) == [8, 9, 10] and visible(1, 11) == [11] and visible(4, 4) == [1, 2, 3, 4]
    assert "D: 6 new of 16 tokens, each sees 11 to 16 keys" in viz.new_queries_picture({"D": (6, 16)}).alt_text


def test_the_numbers_of_e4m3_are_those_of_torch():
    every = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float()
    positive = every[every.isfinite() & (every > 0)].sort().values.tolist()
    assert e4m3_values(448, 1.0) == positive


def test_alternative_text_says_which_lanes_copy_which_row():
    words = viz.page_lanes_picture([7] * 5 + [2] * 11, [11, 12, 13, 14, 15, *range(11)]).alt_text
    assert (
        "lane 4: page 7, slot 15, lane 5: page 2, slot 0" in words
        and "lanes 16 to 31 that of lane 1; 8 passes" in words
    )
    mapping = viz.slot_mapping_picture([("A", 6), ("B", 3), ("", -1)], 4, 4).alt_text
    assert "row 1, B: slot 3; row 2, : padding" not in mapping and "row 2: padding, slot -1" in mapping
    assert "e4m3: 7.1 % of the largest at the top" in viz.byte_steps_picture().alt_text

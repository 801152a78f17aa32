"""Pictures of who walks where: banks of ldmatrix, lanes of a row, turns of keys and blocks, buffers in flight."""

import pytest
import torch

from course_lib import viz
from course_lib.ops.fragments import record_fragments
from course_lib.viz.tiles import MASKED, tile_kinds


@pytest.mark.parametrize(("row_bytes", "plain"), [(64, 4), (128, 8), (256, 8)])
def test_a_swizzled_tile_takes_one_pass_for_every_chunk(row_bytes, plain):
    assert viz.ldmatrix_passes(row_bytes, swizzled=False) == plain
    for chunk in range(row_bytes // 16):
        assert {viz.bank_group(row, chunk, row_bytes, swizzled=True) for row in range(8)} == set(range(8))


def test_the_bank_groups_are_those_of_the_kernels_swizzle(monkeypatch):
    from course_lib import cuda

    monkeypatch.setenv("COURSE_ENGINE", "cpu")
    source = """
#include "common/swizzle.cuh"
extern "C" __global__ void offsets_kernel(int* out) {
    out[threadIdx.x] = swizzle_offset<ROW_BYTES>(threadIdx.x / 4, threadIdx.x % 4);
}
"""
    for row_bytes in (64, 128, 256):
        out = torch.zeros(32, dtype=torch.int32)
        cuda.compile(source, defines={"ROW_BYTES": row_bytes})(1, 32, out)
        groups = [viz.bank_group(row, chunk, row_bytes, swizzled=True) for row in range(8) for chunk in range(4)]
        assert (out // 16 % 8).tolist() == groups


def test_the_operand_picture_outlines_what_mma_gives_the_lane():
    lane = 22
    held = sorted(cell for cell, (owner, _) in record_fragments()["a"].items() if owner == lane)
    text = viz.operand_picture(lane).alt_text
    assert {row for row, _ in held} == {5, 13} and "rows 5 and 13" in text
    assert [column for row, column in held if row == 5] == [4, 5, 12, 13] and "columns 4 and 5" in text


def test_last_keys_first_puts_the_masked_tiles_at_the_beginning():
    kinds = tile_kinds(128, 128, 32, 16)
    turns = viz.key_walk(kinds, last_first=True)
    masked = [turn for (q, kv), turn in turns.items() if kinds[q][kv] == MASKED]
    assert max(masked) == 2 and len(turns) == 2 + 4 + 6 + 8
    assert max(viz.key_walk(kinds, last_first=False).values()) == 8


def test_blocks_start_in_order_on_the_slot_that_is_free_first():
    assert viz.run_blocks([1, 3, 2], 2) == [(0, 0, 1), (1, 0, 3), (0, 1, 3)]
    text = viz.heavy_blocks_picture(8, 2, 5).alt_text
    assert "72 together" in text and "ends at 19" in text and "first: the last ends at 15" in text


def test_no_buffer_is_written_while_it_is_read():
    for sizes in ((0.7, 1.0, 1.5), (2.0, 1.0, 1.0)):
        for lane in ("K buffer", "V buffer"):
            spans = sorted((start, end) for name, _, start, end in viz.buffer_steps(4, *sizes) if name == lane)
            assert all(end <= start for (_, end), (start, _) in zip(spans, spans[1:], strict=False))
    reads = {words: start for name, words, start, _ in viz.buffer_steps(4, 2.0, 1.0, 1.0) if name != "warps"}
    copies = {words: end for _, words, _, end in viz.buffer_steps(4, 2.0, 1.0, 1.0)}
    assert all(reads[f"read {x}{tile}"] >= copies[f"copy {x}{tile}"] for x in "KV" for tile in range(1, 5))


def test_a_lazy_maximum_moves_only_when_it_is_outgrown():
    assert viz.lazy_maximum([1, 4, 9.5, 9, 10]) == [1, 1, 9.5, 9.5, 9.5]
    assert "3 rescalings" in [t.get_text() for t in viz.lazy_maximum_picture([1, 4, 3, 9]).legends[0].get_texts()][1]


def test_the_registers_of_a_lane_are_those_of_the_kernels():
    assert viz.warp_share(255, 64, 64, q_columns=64) == {"acc": 64, "scores": 64, "q": 32, "rest": 95}
    assert viz.warp_share(255, 48, 128, q_columns=16) == {"acc": 128, "scores": 48, "q": 8, "rest": 71}


def test_owners_go_over_the_tiles_that_see_them():
    text = viz.gradient_owners_picture(4).alt_text
    assert "keys of tile 3" in text and "tiles 3 to 4" in text and "tiles 1 to 3" in text


def test_the_lanes_of_a_row_are_named_after_the_kernel():
    forward, backward = viz.row_lanes_picture(), viz.row_lanes_picture("k", ("Q", "dO"), "dV")
    assert "row 2 of the tile of K and gets the score of key 2" in forward.alt_text
    assert "score of query 2" in backward.alt_text and "column 2 of dV" in backward.alt_text
    gradient = viz.row_lanes_picture("q", ("K", "K"), "dQ", weights="d_scores")
    assert "all d_scores with column 2 of the tile of K" in gradient.alt_text and "weights" not in gradient.alt_text


@pytest.mark.parametrize("num_stages", [2, 3, 4])
def test_a_stage_is_filled_only_after_its_tile_was_multiplied(num_stages):
    lines = [viz.stage_contents(num_stages, tile, 8) for tile in range(8)]
    assert [line[tile % num_stages] for tile, line in enumerate(lines)] == [(t, "multiplied") for t in range(8)]
    assert all(len(line) == min(num_stages, 8 - tile) for tile, line in enumerate(lines))
    for line, following in zip(lines, lines[1:], strict=False):
        assert {number for number, _ in line.values()} - {number for number, _ in following.values()} == {
            number for number, state in line.values() if state == "multiplied"
        }


def test_a_thread_of_a_register_tile_has_rows_that_are_apart():
    assert "rows 1, 5, 9 and columns 2, 6, 10" in viz.register_tile_picture(4, 3, (1, 2)).alt_text

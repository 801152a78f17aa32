"""Pictures of chapter 09: SMs that have work, keys of splits and lanes, rings, a group as columns, the last block."""

import pytest
import torch

from course_lib import cuda, viz
from course_lib.viz.decode import blocks_by_sm
from course_lib.viz.decode_lanes import ring_tiles
from course_lib.viz.decode_products import owners_after, owners_before


@pytest.mark.parametrize("num_blocks", [0, 1, 32, 132, 133, 300])
def test_blocks_are_handed_out_evenly(num_blocks):
    counts = blocks_by_sm(num_blocks, 132)
    assert sum(counts) == num_blocks and len(counts) == 132 and max(counts) - min(counts) <= 1


def test_every_key_belongs_to_one_split_and_the_last_ones_may_be_empty():
    assert viz.keys_of_splits([11, 6, 0, 12, 1], 4, 3) == [[4, 4, 3], [4, 2, 0], [0, 0, 0], [4, 4, 4], [1, 0, 0]]


def test_alternative_text_holds_the_counts():
    card = viz.card_picture({"no split": 32, "in four": 128, "in eight": 256}).alt_text
    assert "no split: 32 blocks, 32 SMs have work" in card and "256 blocks, 132 SMs" in card
    assert "sequence 1 of 6 keys: 4, 2, 0" in viz.splits_picture([11, 6, 0], 4, 3).alt_text
    group = viz.group_picture(4).alt_text
    assert "4 times in all" in group and "the other 4 are zeros" in group


@pytest.mark.parametrize("step", [0, 1, 2, 3])
@pytest.mark.parametrize("num_tiles", [1, 4, 14])
def test_every_tile_is_in_one_ring_and_the_tile_that_is_multiplied_is_the_oldest(num_tiles, step):
    for warp, ring in enumerate(ring_tiles(num_tiles, 4, 3, step)):
        held = [slot for slot in ring if slot]
        assert all(tile % 4 == warp and tile < num_tiles for tile, _ in held)
        assert all(ring[tile // 4 % 3] == (tile, state) for tile, state in held)
        current = 4 * step + warp
        assert [tile for tile, state in held if state == "multiply"] == ([current] if current < num_tiles else [])
        flying = {tile for tile, state in held if state == "in flight"}
        assert flying == {tile for tile in (current + 4, current + 8) if tile < num_tiles}


MOVMATRIX = """#include "common/movmatrix.cuh"
extern "C" __global__ void turn_kernel(const unsigned* pairs, unsigned* turned) {
    turned[threadIdx.x] = movmatrix_trans(pairs[threadIdx.x]);
}
"""


def test_the_picture_of_movmatrix_shows_what_the_instruction_does(monkeypatch):
    """A weight of key i and head j is the number 8 i + j, two of them in a register."""
    monkeypatch.setenv("COURSE_ENGINE", "cpu")

    def registers(owners):
        halves = [[8 * key + head for key, head in owners(lane)] for lane in range(32)]
        return torch.tensor([low | high << 16 for low, high in halves], dtype=torch.int32)

    turned = torch.zeros(32, dtype=torch.int32)
    cuda.compile(MOVMATRIX, "turn_kernel")((1,), (32,), registers(owners_before), turned)
    assert turned.tolist() == registers(owners_after).tolist()


def test_alternative_text_of_the_inside_of_a_kernel():
    tail = viz.key_lanes_picture(64, 128, 10).alt_text
    assert "8 neighbouring lanes share a key" in tail and "6 groups have no key left: the last key again" in tail
    assert "16 neighbouring lanes share a key" in viz.key_lanes_picture(128).alt_text
    last = viz.last_block_picture((2, 0, 3, 1)).alt_text
    assert "Only the block of split 1 reads 3" in last
    products = viz.group_products_picture(5).alt_text
    assert "keys are the rows, heads the columns, and 3 of the 8 columns are zeros" in products
    assert "lane 6 holds key 1 of head 4, key 1 of head 5" in viz.movmatrix_picture(6).alt_text

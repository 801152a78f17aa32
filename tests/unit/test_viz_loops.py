"""Pictures of chapters 06 and 07: both loop orders, the tiles under a causal mask, the split among warps."""

import pytest
import torch

from course_lib import viz
from course_lib.viz.tiles import MASKED, SKIPPED, WHOLE

SIZES = [(8, 8, 2, 2), (52, 60, 16, 8), (37, 53, 8, 16), (50, 20, 8, 16), (1, 1, 4, 4), (20, 50, 16, 7)]


@pytest.mark.parametrize(("num_q", "num_kv", "block_m", "block_n"), SIZES)
def test_tile_kinds_follow_from_the_mask(num_q, num_kv, block_m, block_n):
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


def test_alternative_text_counts_tiles_and_names_where_rows_meet():
    assert "16 every score counts, 7 needs the mask, 9 skipped" in viz.tile_map_picture(52, 60, 16, 8).alt_text
    assert "partial rows that meet in shared memory" in viz.warp_split_picture().alt_text

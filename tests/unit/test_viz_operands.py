"""Pictures of wgmma's operands: swizzle, panels, descriptor, accumulators, registers, and the cycles of a tile."""

import numpy as np
import pytest
import torch
from matplotlib.patches import Rectangle

from course_lib import cuda, measure, viz
from course_lib.device import KNOWN_GPUS
from course_lib.viz.accumulators import fragment_owners
from course_lib.viz.style import SKY

SKY_RGBA = (*(int(SKY[i : i + 2], 16) / 255 for i in (1, 3, 5)), 1.0)
DESCRIPTOR = 1 << 62 | (1024 >> 4) << 32 | (16384 >> 4) << 16 | 0x8420 >> 4

DESCRIPTOR_KERNEL = """
#include "common/wgmma.cuh"
extern "C" __global__ void descriptor_kernel(unsigned long long* out) {
    __shared__ __align__(1024) unsigned char tile_smem[4096];
    out[0] = wgmma_descriptor(tile_smem + 32, 16384, 1024);
    out[1] = wgmma_descriptor(tile_smem + 2048, 0, 512, SWIZZLE_64B);
    out[2] = (unsigned long long)__cvta_generic_to_shared(tile_smem);
}
"""


def texts_of(axes):
    return [text.get_text() for text in axes.texts]


def test_the_swizzle_moves_address_bits_7_to_9_onto_4_to_6():
    for row in range(16):
        for chunk in range(8):
            offset = row * 128 + chunk * 16
            assert row * 128 + viz.swizzled_chunk(row, chunk) * 16 == offset ^ (offset >> 7 & 7) << 4


def test_eight_rows_of_one_chunk_are_in_eight_places():
    for chunk in range(8):
        assert {viz.swizzled_chunk(row, chunk) for row in range(8)} == set(range(8))
    assert "Chunk 2 of rows 0 to 7 lies at places 2, 3, 0, 1, 6, 7, 4, 5" in viz.swizzle_picture(1).alt_text
    with pytest.raises(ValueError, match="step=4"):
        viz.swizzle_picture(4)


def test_the_picture_of_the_swizzle_fills_two_core_matrices():
    for axes, place in zip(viz.swizzle_picture(0).axes, (lambda r, c: c, viz.swizzled_chunk), strict=True):
        cells = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
        assert len(cells) == 64
        first = [patch.get_xy() for patch in cells if patch.get_facecolor() == SKY_RGBA]
        assert first == [(place(row, 0), row) for row in range(8)]
        assert sum(patch.get_hatch() == "///" for patch in cells) == 8
    assert "28–31" in texts_of(viz.swizzle_picture().axes[1])


def test_steps_along_a_row_and_down_the_keys():
    assert viz.step_offsets(128, 128) == [0, 32, 64, 96, 16384, 16416, 16448, 16480]
    assert viz.step_offsets(192, 64) == [0, 32, 64, 96]
    assert viz.step_offsets(176, 128, "mn") == [2048 * step for step in range(11)]
    with pytest.raises(ValueError, match="major='n'"):
        viz.step_offsets(128, 128, "n")


def test_the_panels_show_every_step_for_every_consumer():
    q, v = viz.panels_picture(128, 176, 128).axes
    assert {"step 3: +96", "step 4: +16,384", "+24,576", "consumer 1\n+8,192"} <= set(texts_of(q))
    assert {"step 10:  +20,480", "panel 1: +22,528", "+22,528"} <= set(texts_of(v))
    assert len(q.patches) == 8 and sum(isinstance(patch, Rectangle) for patch in v.patches) == 22
    narrow = viz.panels_picture(192, 128, 64).axes[0]
    assert "consumer 2\n+16,384" in texts_of(narrow) and len(narrow.patches) == 4


def test_a_descriptor_is_decoded_field_by_field():
    fields = viz.describe_descriptor(DESCRIPTOR)
    assert (fields.address, fields.leading_bytes, fields.stride_bytes) == (0x8420, 16384, 1024)
    assert (fields.base_offset, fields.swizzle, fields.stray_bits) == (0, 1, ())
    assert "address 33,824 (0x8420)" in fields.sentence() and "swizzle of 128 bytes" in fields.sentence()
    assert "32 bytes past a multiple of 1,024" in fields.sentence()
    assert viz.describe_descriptor(5 << 49 | 3 << 62).base_offset == 5
    assert "bits 14, 61 are set and must be 0" in viz.describe_descriptor(1 << 14 | 1 << 61).sentence()
    for value in (-1, 1 << 64):
        with pytest.raises(ValueError, match="64 bits"):
            viz.describe_descriptor(value)


def test_it_decodes_what_the_kernels_build():
    out = torch.zeros(3, dtype=torch.int64)
    cuda.compile(DESCRIPTOR_KERNEL, "descriptor_kernel")(1, 1, out)
    start = int(out[2]) & 0x3FFFF
    first, second = (viz.describe_descriptor(int(value) % (1 << 64)) for value in out[:2])
    assert (first.address, first.leading_bytes, first.stride_bytes, first.swizzle) == (start + 32, 16384, 1024, 1)
    assert (second.address, second.leading_bytes, second.stride_bytes, second.swizzle) == (start + 2048, 0, 512, 2)


def test_the_picture_of_a_descriptor_has_its_bits_and_fields():
    texts = texts_of(viz.descriptor_picture(DESCRIPTOR).axes[0])
    assert len(texts) == 2 * 64 + 5  # digits and bit numbers, five fields
    assert int("".join(texts[:64:2]), 2) == DESCRIPTOR >> 32
    assert texts[1:64:2] == [str(bit) for bit in range(63, 31, -1)]
    assert {"stride / 16 = 64\n1,024 bytes", "leading / 16 = 1,024\n16,384 bytes", "swizzle 1:\n128 bytes"} <= set(
        texts
    )


def test_every_element_of_a_tile_has_one_owner():
    for n in (16, 176):
        owners = {viz.accumulator_owner(row, column): (row, column) for row in range(64) for column in range(n)}
        assert len(owners) == 64 * n and {number for *_, number in owners} == set(range(n // 2))
        assert all(viz.accumulator_place(*owner) == place for owner, place in owners.items())
    assert viz.accumulator_owner(0, 0) == (0, 0, 0) and viz.accumulator_owner(63, 15) == (3, 31, 7)
    assert viz.accumulator_owner(9, 11) == (0, 5, 7)


def test_packed_scores_are_the_left_operand_of_mma():
    """a[r]: row g + 8 (r % 2), k = 2 t + 8 (r // 2) and one more, as mma.m16n8k16 takes it; no lane gives any away."""
    for (row, column), (lane, register) in fragment_owners().items():
        g, t = divmod(lane, 4)
        assert row == g + 8 * (register % 2) and column - column % 2 == 2 * t + 8 * (register // 2)
    assert [viz.operand_register(number) for number in (0, 3, 6, 13)] == [(0, 0, 0), (0, 1, 1), (0, 3, 0), (1, 2, 1)]


def test_the_picture_of_accumulators_follows_its_thread():
    picture = viz.accumulators_picture(64, lane=22, warp=2, step=3)
    tile, fragment, packing = picture.axes
    assert "d[24] (37, 52)" in picture.alt_text and "d[31] (45, 61)" in picture.alt_text
    assert len(tile.patches) == 4 + 32 + 1  # warps, the lane's numbers, the frame
    assert texts_of(fragment).count("22") == 8 and len(fragment.texts) == 256
    assert {"d[24]  37, 52", "a[0]", "a[3]"} <= set(texts_of(packing)) and fragment.get_yticklabels()[
        0
    ].get_text() == "32"
    for wrong in ({"n": 24}, {"n": 32, "step": 2}):
        with pytest.raises(ValueError, match="multiple of 16"):
            viz.accumulators_picture(**wrong)


def test_registers_at_entry_and_in_a_thread():
    assert [viz.registers_at_entry(threads) for threads in (128, 256, 384, 512)] == [255, 255, 168, 128]
    assert viz.register_share(240, 128, 128) == {"acc": 64, "scores": 64, "probs": 32, "rest": 80}
    assert viz.register_share(160, 128, 64) == {"acc": 32, "scores": 64, "probs": 32, "rest": 32}
    assert viz.register_share(240, 176, 128)["rest"] == 44


def test_a_plan_that_does_not_fit_says_so():
    alt_text = viz.register_pool_picture().alt_text
    assert "168 a thread at entry, 64,512 in all; then 240, 240, 24, 64,512 in all, which fits" in alt_text
    assert "then 160, 160, 160, 32, 65,536 in all, which fits" in alt_text
    picture = viz.register_pool_picture([("too many", (224, 224, 80))])
    assert "67,584 in all, which exceeds the block's 64,512" in picture.alt_text
    assert "3,072\ntoo many" in texts_of(picture.axes[0])


def test_segments_of_the_registers_have_their_width():
    widths = [patch.get_width() for patch in viz.register_pool_picture().axes[0].patches]
    assert widths == [168 * 128] * 3 + [240 * 128] * 2 + [24 * 128] + [128 * 128] * 4 + [160 * 128] * 3 + [32 * 128]
    axes = viz.register_share_picture([("d = 128", 160, 176, 128)]).axes[0]
    assert [patch.get_width() for patch in axes.patches] == [64, 88, 44, 0]
    assert "36 too many: they spill" in texts_of(axes)


def test_cycles_of_a_tile():
    """The shares that decide what a Hopper kernel can hide: half, all, all."""
    for head_dim, dtype, share in ((128, "bf16", 0.5), (64, "bf16", 1.0), (128, "fp8", 1.0), (64, "fp8", 2.0)):
        products, exp2 = measure.tile_cycles(128, 128, head_dim, dtype)
        assert exp2 / products == share and exp2 == 1024
    gpu = KNOWN_GPUS["H100"]
    clock = gpu.bf16_tflops * 1e12 / (gpu.num_sms * measure.roofline.TENSOR_FLOP_PER_CYCLE["bf16"])
    assert 1.7e9 < clock < 1.98e9  # the clock at which the stored peak follows; 1.98 GHz is the highest
    with pytest.raises(ValueError, match="dtype='int8'"):
        measure.tile_cycles(128, 128, 128, "int8")


def test_bars_of_cycles_are_as_long_as_the_cycles():
    picture = viz.tile_cycles_bars({"d = 128": (2048.0, 1024.0), "d = 64": (1024.0, 1024.0)})
    axes = picture.axes[0]
    assert np.allclose([patch.get_width() for patch in axes.patches], [2048, 1024, 1024, 1024])
    assert "d = 128: products 2,048, exp2 1,024, 50 % of the products" in picture.alt_text
    assert "  1,024, 100 % of the products" in texts_of(axes)

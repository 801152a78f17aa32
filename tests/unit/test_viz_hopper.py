"""Pictures of chapter 08: boxes of a copy, the order of e4m3 keys, products of the backward pass, lives of blocks."""

import torch

from course_lib import cuda, measure, viz
from course_lib.cuda import sass_facts
from course_lib.reference import fp8


def test_a_barrier_expects_the_bytes_of_all_boxes():
    assert "2 boxes of 128 x 64" in viz.boxes_picture(128, 128).alt_text
    assert "expects 32,768 bytes" in viz.boxes_picture(128, 128).alt_text
    assert "expects 16,384 bytes" in viz.boxes_picture(128, 64).alt_text


def test_the_order_of_keys_gives_each_lane_its_own_weights():
    order = viz.fp8_key_order()
    assert sorted(order) == list(range(16))
    for lane in range(4):  # columns of wgmma's accumulators that lane t of four holds
        held = {viz.accumulator_place(0, lane, number)[1] for number in range(8)}
        assert set(order[4 * lane : 4 * lane + 4]) == held
    assert "Only dS" in viz.backward_products_picture().alt_text


def test_blocks_that_stay_begin_once():
    spans = {stay: viz.block_lives([4, 3, 2, 1], 2, setup=1, persistent=stay) for stay in (False, True)}
    begins = {stay: sum(span.kind == "wait" for span in found) for stay, found in spans.items()}
    assert begins == {False: 4, True: 2}
    assert max(span.end for span in spans[True]) == 6  # 10 units of tiles on two slots, and one beginning
    store = viz.store_order()
    assert [span.label for span in store if span.kind in ("issue", "store")][-1].startswith("read shared")


def test_the_gain_is_the_ratio_of_the_medians():
    stored = measure.read_results("h200", "flash_attention_3").where(dtype="bfloat16", direction="forward")
    table = measure.gain_table(stored, "flash_attention_3/02_tma_ring", "flash_attention_3/01_wgmma")
    times = [
        stored.where(variant=f"flash_attention_3/{name}", head_dim=128, causal=0, seq_len=1024).rows[0]["median_us"]
        for name in ("01_wgmma", "02_tma_ring")
    ]
    assert table.rows[0][:3] == (128, "full", f"{times[0] / times[1]:.2f}")
    assert table.caption == "TMA ring: times as fast as wgmma"


def test_errors_grow_with_outliers_and_rotation_repays_some():
    found = fp8.errors_by_outlier_size((1, 16), seq_len=64)
    assert set(found) == set(fp8.VARIANTS) and all(one[1][1] > one[0][1] for one in found.values())


def test_an_edit_is_made_once_or_refused():
    text = 'extern "C" __global__ void twice_kernel(float* out) { out[0] = 2.0f * 1.0f; }'
    kernel = cuda.with_edits(cuda.compile(text), ("2.0f", "3.0f"))
    out = torch.zeros(1)
    kernel(1, 1, out)
    assert out.item() == 3
    try:
        cuda.with_edits(kernel, ("f", "g"))
    except ValueError as error:
        assert "it must be there once" in str(error)
    else:
        raise AssertionError("an ambiguous edit was made")


def test_opcodes_are_counted_without_modifiers():
    class Binary:
        @staticmethod
        def machine_instructions():
            return ["IMAD.MOV.U32 R1, RZ", "@P0 IMAD R2, R3", "@!P1 R2UR UR4, R5"]

    assert sass_facts.opcode_counts(Binary(), "IMAD", "R2UR", "HGMMA") == {"IMAD": 2, "R2UR": 1, "HGMMA": 0}

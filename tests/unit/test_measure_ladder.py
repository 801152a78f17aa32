"""Tables of a ladder, its small counts, a kernel without one line, and the model that learns to copy."""

import pytest
import torch

from course_lib import cuda, measure

KERNEL = """extern "C" __global__ void add_kernel(float* out) {
    out[0] = 1.0f;
    out[0] = 2.0f;  // the second
}
"""


def test_a_step_is_called_by_its_idea():
    assert measure.spoken("flash_attention_2/06_lazy_rescale") == "lazy rescale"
    assert measure.spoken("sdpa_flash") == "sdpa flash"


def test_the_rows_of_a_rung_are_those_of_the_file():
    stored = measure.read_results("h200", "flash_attention")
    table = measure.rung_table(stored, "flash_attention_2/03_swizzled")
    assert len(table.rows) == 4 and table.caption == "swizzled, H200, 4,096 tokens"
    rates = measure.ladder_rates(
        stored, {"ours": ("flash_attention_2/03_swizzled", "cuda"), "none": ("none", "cuda")},
        direction="forward", dtype="bfloat16", seq_len=4096, head_dim=64, causal=0,
    )  # fmt: skip
    assert rates["ours"] == table.rows[0][3] and rates["none"] is None


def test_counters_are_named_and_in_the_order_asked_for():
    stored = measure.read_results("h200", "flash_attention_2_rungs")
    names = ["flash_attention_2/03_swizzled", "flash_attention_2/02_mma"]
    table = measure.counter_table(stored, names, "ldmatrix_conflicts", head_dim=128)
    assert [row[0] for row in table.rows] == ["swizzled", "mma"] and table.rows[0][1] == 0


@pytest.mark.parametrize(("num_q", "num_kv"), [(5, 9), (9, 5), (8, 8)])
def test_the_keys_that_tiles_read_end_with_the_last_visible_one(num_q, num_kv):
    visible = [[k <= q + num_kv - num_q for k in range(num_kv)] for q in range(num_q)]
    by_hand = sum(max((k + 1 for row in visible[q : q + 2] for k in range(num_kv) if row[k]), default=0)
                  for q in range(0, num_q, 2))  # fmt: skip
    assert measure.keys_read(num_q, num_kv, 2, 1, True) == by_hand
    assert measure.keys_read(num_q, num_kv, 2, 4, False) == -(-num_q // 2) * num_kv


def test_operations_outside_the_products():
    assert measure.outside_products(128, 64, 4, unnormalised=True) == 2 * 5 + 4
    assert measure.outside_products(128, 64, 4, unnormalised=False) == 2 * 9


def test_a_kernel_without_one_line(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")
    out = torch.zeros(1)
    broken = cuda.without_line(cuda.compile(KERNEL), "the second")
    broken(1, 1, out)
    assert out.item() == 1 and len(broken.source.splitlines()) == len(KERNEL.splitlines())
    with pytest.raises(ValueError, match="no line of add_kernel contains 'third'"):
        cuda.without_line(broken, "third")


def test_the_model_learns_to_copy_and_needs_its_attention():
    attention = torch.nn.functional.scaled_dot_product_attention
    losses = measure.copy_task_losses(lambda q, k, v: attention(q, k, v, is_causal=True), 120)
    blind = measure.copy_task_losses(lambda q, k, v: torch.zeros_like(q), 120)
    assert losses[-1] < 0.7 * blind[-1] and losses[0] > 1.9

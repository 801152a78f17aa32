"""Chapter 09's solved exercises: they compile, they are attention, and k and v read once a group are counted."""

import pytest
import torch

from course_lib.errors import ShapeError
from course_lib.grading.exercise.spec import Case
from course_lib.grading.exercises import decode_choice, decode_group
from course_lib.grading.judge.prepare import prepare
from course_lib.grading.subjects.decode import windows as decode_windows
from course_lib.ops import decode_exercises as ops
from course_lib.triton.aot import compile_for
from course_lib.triton_kernels import decode_exercises as exercises

HALVES = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr"), "*fp16") | {"seq_lens_ptr": "*i32"}
SIZES = {"num_q_per_kv": "i32", "capacity": "i32", "softmax_scale": "fp32"}
GATE = {
    "split_kernel": (
        HALVES | {"partial_out_ptr": "*fp32", "partial_lse_ptr": "*fp32"} | SIZES,
        {"HEAD_DIM": 32, "BLOCK_N": 16},
    ),
    "grouped_kernel": (
        HALVES | {"out_ptr": "*fp16", "lse_ptr": "*fp32"} | SIZES,
        {"HEAD_DIM": 32, "ROWS": 16, "BLOCK_N": 16},
    ),
}


def test_every_solved_exercise_is_compiled_below():
    assert {name for name in vars(exercises) if name.endswith("_kernel")} == set(GATE)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", GATE)
def test_a_solved_exercise_compiles(name, arch):
    signature, constants = GATE[name]
    compiled = compile_for(getattr(exercises, name), signature, constants, arch)
    assert compiled.registers > 0 and compiled.cubin


@pytest.mark.parametrize(
    ("times", "in_every_tile", "refused"), [(1, 1, False), (1, 3, False), (2, 1, True), (8, 1, True)]
)
def test_k_and_v_are_read_once_a_group(times, in_every_tile, refused):
    """8 query heads on one head of 40 keys, head_dim 32: q has 512 bytes, k and v have 5120."""
    sizes = dict(zip(decode_group.cases.SIZES, (1, 8, 1, 40, 48, 32), strict=True))
    ledger = {"global_load": {"bytes": 512 * in_every_tile + 5120 * times}}
    found = decode_group.once_a_group(Case("a group of 8", sizes), ledger)
    assert (found is not None) == refused
    if refused:
        assert found.code == "kv_read_again" and f"{times:.3g} times the 5,120" in found.sentence


def test_keys_are_shared_out_without_a_gap():
    """53 keys among 4: tiles of 16, the last one of 5; 20 keys: a tile, four keys, and nothing twice."""
    assert decode_windows.shared_out(53, 4, 16) == [(0, 16), (16, 32), (32, 48), (48, 53)]
    assert decode_windows.shared_out(20, 4, 16) == [(0, 16), (16, 20), (20, 20), (20, 20)]
    for length in range(70):
        windows = decode_windows.shared_out(length, 3, 8)
        assert [key for first, end in windows for key in range(first, end)] == list(range(length))


def test_every_slip_in_choosing_splits_gives_other_numbers():
    cases = [tuple(case.sizes.values()) for case in decode_choice.CHOICE.cases if case.values == "given"]
    right = [decode_choice.chosen(*sizes) for sizes in cases]
    slips = [tuple(slip(*sizes) for sizes in cases) for _, _, slip in decode_choice.SLIPS]
    assert tuple(right) not in slips and len(set(slips)) == len(slips)


def test_no_choice_hangs_on_the_last_digit_of_a_division():
    """Every efficiency is far from 85 % of the best, so that floats and fractions choose alike."""
    for prepared in prepare(decode_choice.CHOICE, 3):
        assert decode_choice.nearest(*prepared.inputs["sizes"].tolist()) > decode_choice.TIE


def test_the_launchers_refuse_what_does_not_fit():
    q, k = torch.zeros(1, 4, 64).half(), torch.zeros(1, 2, 8, 64).half()
    with pytest.raises(ShapeError, match="expected 1 to 8"):
        ops.plan_split(q, k, k, seq_len_kv=9, split_len=4)
    with pytest.raises(ShapeError, match="multiple of num_kv_heads"):
        ops.plan_split(q[:, :3].contiguous(), k, k, seq_len_kv=8, split_len=4)
    with pytest.raises(ShapeError, match="num_splits, num_rows"):
        ops.plan_combine(torch.zeros(2, 3, 128), torch.zeros(3, 2))


def test_split_and_combine_are_attention():
    """Two splits of two sequences through 01_split, merged by hand, and 02_combine over rows with an empty split."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(*shape, generator=generator).half() for shape in ((1, 2, 64), (1, 1, 9, 64), (1, 1, 9, 64)))
    launch = ops.plan_split(q, k, v, seq_len_kv=7, split_len=4)
    launch.run()
    out, lse = launch.outputs
    weights = torch.softmax(lse, dim=0)
    right = torch.nn.functional.scaled_dot_product_attention(
        q.float()[:, :, None], k.float()[:, :, :7].expand(1, 2, 7, 64), v.float()[:, :, :7].expand(1, 2, 7, 64)
    )[:, :, 0]
    assert torch.allclose((weights[..., None] * out).sum(dim=0), right, atol=1e-5)

    partial_out, partial_lse = torch.randn(3, 2, 128, generator=generator), torch.randn(3, 2, generator=generator)
    partial_lse[1], partial_out[1] = -torch.inf, torch.nan
    launch = ops.plan_combine(partial_out, partial_lse)
    launch.run()
    out, lse = launch.outputs
    weights = torch.softmax(partial_lse[::2], dim=0)
    assert torch.allclose(out, (weights[..., None] * partial_out[::2]).sum(dim=0), atol=1e-5)
    assert torch.allclose(lse, partial_lse.logsumexp(dim=0), atol=1e-5)

"""Chapter 07's solved Triton exercises compile to machine code, and tile skipping is judged by what was read."""

import pytest

from course_lib.grading.exercise.spec import Case
from course_lib.grading.exercises import flash2_skip
from course_lib.triton.aot import compile_for
from course_lib.triton_kernels import flash_attention_2_exercises as exercises

HALVES = dict.fromkeys(("q_ptr", "k_ptr"), "*fp16")
SIZES = {"num_q_per_kv": "i32", "seq_len_q": "i32", "seq_len_kv": "i32", "softmax_scale": "fp32"}
TILES = {"HEAD_DIM": 20, "BLOCK_D": 32, "BLOCK_M": 32, "BLOCK_N": 16}  # as the judge launches them
FORWARD = HALVES | {"v_ptr": "*fp16", "out_ptr": "*fp16", "lse_ptr": "*fp32"} | SIZES
BACKWARD = HALVES | {"d_out_ptr": "*fp16", "lse_ptr": "*fp32"} | SIZES | {"causal": "i32"}
FLOATS = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "out_ptr", "lse_ptr"), "*fp32") | SIZES
GATE = {
    "flash_attention_2_kernel": (FORWARD, TILES),
    "flash_attention_2_causal_kernel": (FLOATS, TILES | {"BLOCK_M": 16, "BLOCK_N": 32}),
    "finish_kernel": (
        dict.fromkeys(("acc_ptr", "m_log2_ptr", "l_ptr", "out_ptr", "lse_ptr"), "*fp32") | {"num_rows": "i32"},
        {"HEAD_DIM": 20, "BLOCK_D": 32, "BLOCK_M": 16},
    ),
    "d_v_kernel": (BACKWARD | {"d_v_ptr": "*fp16"}, TILES),
    "d_q_d_k_kernel": (
        BACKWARD | {name: "*fp16" for name in ("v_ptr", "out_ptr", "d_q_ptr", "d_k_ptr")},
        TILES,
    ),
}


def test_every_solved_exercise_is_compiled_below():
    kernels = {name for name in vars(exercises) if name.endswith("_kernel")}
    assert kernels == set(GATE)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", GATE)
def test_a_solved_exercise_compiles(name, arch):
    signature, constants = GATE[name]
    compiled = compile_for(getattr(exercises, name), signature, constants, arch)
    assert compiled.registers > 0 and compiled.cubin


def ledger(keys_read, num_q, head_dim=4):
    """The part of a ledger that the rule reads: q once, and rows of k and v."""
    return {"global_load": {"bytes": 4 * head_dim * (num_q + 2 * keys_read)}}


@pytest.mark.parametrize(("keys", "refused"), [(384, False), (512, False), (528, True), (576, True)])
def test_tiles_above_the_diagonal_may_not_be_read(keys, refused):
    """96 queries and keys: 12 tiles of 32 keys hold a visible pair; one more for each of six tiles of queries is 16."""
    sizes = dict(zip(flash2_skip.cases.SIZES, (1, 1, 1, 96, 96, 4), strict=True))
    assert sum(flash2_skip.tiles_visited(96, 96)) == 12
    found = flash2_skip.skipping(Case("long square", sizes), ledger(keys, 96))
    assert (found is not None) == refused
    if refused:
        assert found.code == "no_tile_skipped" and "only 12 hold a visible pair" in found.sentence


def test_queries_that_see_nothing_visit_no_tile():
    assert flash2_skip.tiles_visited(70, 20) == [0, 0, 0, 1, 1]

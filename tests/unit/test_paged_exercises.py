"""Chapter 10's solved exercises: right and clean where the course launches them; Triton's compile to machine code."""

import pytest
import torch

from course_lib.errors import OutOfPages, ShapeError
from course_lib.grading.exercise.inputs import generator
from course_lib.grading.exercises import kv_traces
from course_lib.kv import PagePool
from course_lib.ops import paged_exercises as ops
from course_lib.reference import paged as reference
from course_lib.triton.aot import compile_for
from course_lib.triton_kernels import paged_exercises as exercises

SCHEDULES = ["forward", "reverse", "random", "resident"]
POOLS = dict.fromkeys(("q_ptr", "k_pages_ptr", "v_pages_ptr"), "*fp32")
TABLE = {"block_table_ptr": "*i32", "seq_lens_ptr": "*i32", "out_ptr": "*fp32", "lse_ptr": "*fp32"}
STRIDES = dict.fromkeys(("stride_page", "stride_slot", "stride_kv_head"), "i64") | {"softmax_scale": "fp32"}
SIZES = {"num_q_per_kv": "i32", "max_pages": "i32"}
TILES = {"HEAD_DIM": 32, "PAGE_SIZE": 16}
GATE = {
    "paged_tiles_kernel": (POOLS | TABLE | SIZES | STRIDES, TILES),
    "paged_partitions_kernel": (
        POOLS
        | TABLE
        | {"partial_out_ptr": "*fp32", "partial_lse_ptr": "*fp32", "counters_ptr": "*i32"}
        | SIZES
        | {"partition_len": "i32"}
        | STRIDES,
        TILES | {"BLOCK_N": 8, "BLOCK_P": 4},
    ),
    "paged_int8_kernel": (
        {"q_ptr": "*fp32", "k_pages_ptr": "*i8", "v_pages_ptr": "*i8", "k_scales_ptr": "*fp32", "v_scales_ptr": "*fp32"}
        | TABLE
        | SIZES
        | {"softmax_scale": "fp32"},
        TILES,
    ),
}


@pytest.fixture(autouse=True)
def on_the_machine(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")


def test_every_solved_exercise_is_compiled_below():
    assert {name for name in vars(exercises) if name.endswith("_kernel")} == set(GATE)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", GATE)
def test_a_solved_exercise_compiles(name, arch):
    signature, constants = GATE[name]
    compiled = compile_for(getattr(exercises, name), signature, constants, arch)
    assert compiled.registers > 0 and compiled.cubin


def clean(launch):
    for schedule in SCHEDULES:
        report = launch.profile(schedule)
        assert report.ok, str(report)
    launch.run()
    return launch.outputs


def test_slots_are_written_and_nothing_else():
    fused = torch.arange(5 * 5 * 40, dtype=torch.int32).reshape(5, 5, 40)
    k, v = fused[:, 1:3], fused[:, 3:5]  # as a projection leaves them
    pools = [torch.full((3, 4, 2, 40), number, dtype=torch.int32) for number in (-1, -2)]
    slots = torch.tensor([7, -1, 0, 5, 2])
    right = reference.reshape_and_cache(k, v, *pools, slots)
    found = clean(ops.plan_slot_mapping(k, v, *pools, slots))
    assert all(torch.equal(a, b) for a, b in zip(found, right, strict=True))
    with pytest.raises(ShapeError, match="heads side by side"):
        ops.plan_slot_mapping(k.transpose(1, 2), v, *pools, slots)


def test_one_warp_walks_over_pages():
    order = torch.tensor([4, 2, 0, 5])
    pools = [torch.full((6, 3, 2, 32), torch.nan) for _ in range(2)]
    table, lens = torch.full((2, 5), -1, dtype=torch.int32), torch.tensor([0, 11], dtype=torch.int32)
    table[1, :4] = order
    for pool in pools:
        for token in range(11):
            pool[order[token // 3], token % 3] = torch.randn(2, 32)
    q = torch.randn(2, 4, 32)
    out, lse = clean(ops.plan_warp_walk(q, *pools, table, lens))
    right = reference.paged_attention_lse(q, *pools, table, lens)
    torch.testing.assert_close(out.double(), right[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(lse.double(), right[1], rtol=1e-5, atol=1e-5)
    with pytest.raises(ShapeError, match="32 columns"):
        ops.plan_warp_walk(q[:, :3].contiguous(), *pools, table, lens)


def test_bytes_are_off_by_half_a_scale_at_most():
    x, slots = torch.randn(5, 2, 32), torch.tensor([7, -1, 0, 5, 2])
    x[2, 1] = 0.0
    pages, scales = torch.full((3, 4, 2, 32), 9, dtype=torch.int8), torch.full((3, 4, 2), -1.0)
    clean(ops.plan_quantise(x, pages, scales, slots))
    kept = [slot for slot in range(12) if slot not in slots.tolist()]
    assert bool((pages.flatten(0, 1)[kept] == 9).all()) and bool((scales.flatten(0, 1)[kept] == -1.0).all())
    for token, slot in enumerate(slots.tolist()):
        if slot >= 0:
            scale = scales.flatten(0, 1)[slot][:, None]
            error = (pages.flatten(0, 1)[slot] * scale - x[token]).abs()
            assert bool((error <= scale * 0.501).all())
    with pytest.raises(ShapeError, match="must fit"):
        ops.plan_quantise(x, pages, scales[:, :, :1].contiguous(), slots)


@pytest.mark.parametrize(("num_pages", "page_size"), [(12, 4), (5, 3), (10, 1), (40, 16)])
def test_the_judge_and_the_course_count_the_same_pages(num_pages, page_size):
    """The pool that judges 10.6 says after every step of a random trace what course_lib.kv says."""
    model, pool = kv_traces.Model(num_pages, page_size), PagePool(num_pages, page_size)
    for kind, name, value in kv_traces.random_trace(num_pages, page_size, 200, generator(num_pages, "trace")):
        refused = False
        try:
            if kind == kv_traces.APPEND:
                pool.append(name, value)
            elif kind == kv_traces.FORK:
                pool.fork(name, value)
            else:
                (pool.add if kind == kv_traces.ADD else pool.free)(name)
        except OutOfPages:
            refused = True
        assert model.step(kind, name, value) == refused
        assert model.num_free == pool.allocator.num_free
        assert {other: len(tokens) for other, tokens in model.tokens.items()} == {
            other: pool.num_tokens(other) for other in pool.names
        }

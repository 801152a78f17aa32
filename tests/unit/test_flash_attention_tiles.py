"""The tiles of flash_attention's launcher: each compiles where it would be used, and the interpreter finds nothing."""

import inspect

import pytest
import torch
from compiled_before import of_triton
from flash_attention_cases import inputs

from course_lib.cuda.sass import disassemble
from course_lib.ops import gate
from course_lib.ops.flash_attention_2 import _triton as kernels
from course_lib.triton.aot import compile_for
from course_lib.triton_kernels import load

SHARED_LIMIT = {"sm_80": 163, "sm_90": 227, "sm_100": 227, "sm_120": 99}  # KiB that a block may have
# architecture, table, whether the inputs come as descriptors
USED = [
    ("sm_80", "GENERAL", False),
    ("sm_90", "HOPPER", True),
    ("sm_100", "GENERAL", False),
    ("sm_120", "GENERAL", False),
]


def compiled_for(arch, launch):
    """A planned launch as machine code."""
    signature, constexprs, options = gate.request(launch)
    return compile_for(launch.function, signature, constexprs, arch, **options)


def accesses_between_products(compiled):
    """Local memory that the walks touch; dk_dv parks a few numbers there from one query head of a group to the next."""
    listing = disassemble(compiled.cubin).splitlines()
    products = [number for number, line in enumerate(listing) if "HGMMA" in line]
    return [line for line in listing[products[0] : products[-1]] if "LDL" in line or "STL" in line]


def planned(kernel, head_dim, *, table=None, dtype=torch.float16, descriptors=False):
    """The launch of one kernel, causal and ragged: the case with every loop in it."""
    q, k, v, d_out = inputs((1, 4, 2, 37, 53), head_dim, dtype, "cpu")
    tiles = kernels.FLOAT32 if table is None else getattr(kernels, table)[kernel, head_dim]
    options = {"causal": True, "softmax_scale": 1.0, "descriptors": descriptors}
    if kernel == "forward":
        return kernels.plan_forward(q, k, v, tiles=tiles, **options)
    lse = torch.zeros(q.shape[:3])
    launches = kernels.plan_backward(q, k, v, q, lse, d_out, tiles={kernel: tiles}, **options).launches
    return launches[1] if kernel == "dk_dv" else launches[2]


def test_the_version_to_read_aloud_has_less_than_fifty_lines():
    """From the decorator to the last store, signature and docstring included; comments and blank lines are not code."""
    lines = inspect.getsource(load("flash_attention_2/01_loop_order").fn).splitlines()
    assert sum(bool(line.strip()) and not line.strip().startswith("#") for line in lines) < 50


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "table", "descriptors"), USED)
@pytest.mark.parametrize(("kernel", "head_dim"), sorted(kernels.GENERAL))
def test_tiles_stay_in_registers_and_in_shared_memory(kernel, head_dim, arch, table, descriptors, compiled_before):
    launch = planned(kernel, head_dim, table=table, descriptors=descriptors)
    if compiled_before(of_triton(launch.function, gate.request(launch))):
        return
    compiled = compiled_for(arch, launch)
    assert compiled.spill_bytes == 0 or not accesses_between_products(compiled)
    assert compiled.shared_bytes <= SHARED_LIMIT[arch] * 1024
    tensor_cores = {"sm_90": "wgmma.mma_async", "sm_100": "mma"}.get(arch, "mma.sync")
    assert tensor_cores in compiled.ptx


@pytest.mark.parametrize("kernel", ["forward", "dk_dv", "dq"])
def test_float32_compiles_without_tensor_cores(kernel, compiled_before):
    launch = planned(kernel, 128, dtype=torch.float32)
    if compiled_before(of_triton(launch.function, gate.request(launch))):
        return
    compiled = compiled_for("sm_90", launch)
    assert "mma" not in compiled.ptx


def test_head_dim_and_stride_choose_the_pointers_or_refuse():
    assert set(kernels.GENERAL) == set(kernels.HOPPER)
    assert {head_dim for _, head_dim in kernels.GENERAL} == set(kernels.HEAD_DIMS)
    for tiles in (*kernels.GENERAL.values(), *kernels.HOPPER.values(), kernels.FLOAT32, kernels.INTERPRETED):
        assert kernels.PADDING % tiles.block_m == 0


def test_rows_that_weigh_nothing_are_marked_before_the_walks():
    """exp2(score - inf) = 0: the rows of the padding, and those that saw no key, and no walk needs a mask for them."""
    q, k, v, d_out = inputs((1, 2, 1, 50, 20), 64, torch.float32, "cpu")
    options = {"causal": True, "softmax_scale": 0.125}
    forward = kernels.plan_forward(q, k, v, **options)
    forward.run()
    prepare = kernels.plan_backward(q, k, v, *forward.outputs, d_out, **options).launches[0]
    prepare.run()
    row_dot, lse_log2 = prepare.outputs
    assert row_dot.shape[-1] == kernels.PADDING
    assert (row_dot[:, :, :30] == 0).all() and (row_dot[:, :, 50:] == 0).all()
    assert lse_log2[:, :, :30].isposinf().all() and lse_log2[:, :, 50:].isposinf().all()
    assert lse_log2[:, :, 30:50].isfinite().all()


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random"])
def test_kernels_are_free_of_findings(schedule):
    """In any order of programs: no access out of bounds, no uninitialised read, no output left unwritten."""
    small = kernels.Tiles(16, 16, 4, 1, heads_per_turn=2)
    options = {"causal": True, "softmax_scale": 0.125, "descriptors": False}
    q, k, v, d_out = inputs((1, 4, 2, 45, 37), 64, torch.float32, "cpu")
    forward = kernels.plan_forward(q, k, v, tiles=small, **options)
    assert (report := forward.profile(schedule)).ok, report
    both = {"dk_dv": small, "dq": small}
    for launch in kernels.plan_backward(q, k, v, *forward.outputs, d_out, tiles=both, **options).launches:
        assert (report := launch.profile(schedule)).ok, report


def test_traffic_is_the_formula_of_the_loop_order():
    """K and V once for every tile of queries; Q, out and lse once."""
    batch, heads, kv_heads, num_q, num_kv, head_dim = 2, 4, 2, 40, 50, 64
    q, k, v, _ = inputs((batch, heads, kv_heads, num_q, num_kv), head_dim, torch.float16, "cpu")
    tiles = kernels.Tiles(16, 32, 4, 1)
    options = {"causal": False, "softmax_scale": 0.125}
    num_tiles = -(-num_q // tiles.block_m)
    read = 2 * batch * heads * (num_q + num_tiles * 2 * num_kv) * head_dim
    written = batch * heads * num_q * (2 * head_dim + 4)
    assert kernels.plan_forward(q, k, v, tiles=tiles, descriptors=False, **options).traffic() == (read, written)
    assert kernels.plan_teaching(q, k, v, block_m=16, block_n=32, **options).traffic() == (read, written)

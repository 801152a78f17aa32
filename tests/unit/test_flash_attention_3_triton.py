"""The Triton twin of 03_producer_consumer: right on the interpreter, and cut into a producer and two consumers."""

import math
import re

import pytest
import torch
from triton.runtime import _allocation

from course_lib.cuda.sass import disassemble
from course_lib.errors import UnsupportedError
from course_lib.ops import flash_attention_3, gate
from course_lib.triton.aot import compile_for
from tests.simt.test_flash_attention_2 import assert_right, tensors

VARIANT = "03_producer_consumer"
# batch, heads, kv heads, queries, keys; the last two: several tiles of both, not one of them full
SHAPES = [(1, 1, 1, 1, 1), (1, 4, 2, 37, 53), (2, 3, 1, 50, 20), (1, 1, 1, 9, 127), (1, 1, 1, 130, 300)]
SHAPES += [(1, 2, 1, 300, 129)]


def plan(*inputs, **options):
    return flash_attention_3.plan(*inputs, variant=VARIANT, language="triton", **options)


def run(q, k, v, *, causal=False, softmax_scale=None, **options):
    launch = plan(q, k, v, causal=causal, softmax_scale=softmax_scale, **options)
    for output in launch.outputs:
        output.fill_(math.nan)
    launch.run()
    assert_right(q, k, v, *launch.outputs, causal, softmax_scale)
    return launch.outputs


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("head_dim", "dtype"), [(64, torch.float16), (128, torch.bfloat16)])
def test_any_sizes(head_dim, dtype, causal):
    for shape in SHAPES:
        run(*tensors(*shape, head_dim, dtype), causal=causal)


def test_a_row_without_keys_is_zero():
    out, lse = run(*tensors(1, 1, 1, 250, 20), causal=True)
    assert torch.all(out[:, :, :230] == 0) and torch.all(lse[:, :, :230] == -math.inf)  # more than a whole tile of rows


def test_strides_a_scale_and_narrower_tiles():
    """(batch, seq, head, dim) seen as (batch, head, seq, dim); rows with a gap that holds NaN."""
    q, k, v = tensors(2, 4, 2, 140, 150)
    q, k = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k))
    v = torch.cat([v, torch.full_like(v, math.nan)], dim=3)[..., :64]
    assert not any(x.is_contiguous() for x in (q, k, v))
    run(q, k, v, causal=True)
    run(q, k, v, softmax_scale=0.01, block_n=64)


def test_the_public_function_takes_the_language():
    q, k, v = tensors(1, 2, 1, 20, 30)
    out, lse = flash_attention_3.flash_attention_3(q, k, v, causal=True, variant=VARIANT, language="triton")
    assert_right(q, k, v, out, lse, True)


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random"])
def test_free_of_findings_with_the_traffic_of_the_step(schedule):
    """K and V once for every tile of queries; Q, out and lse once."""
    q, k, v = tensors(1, 4, 2, 140, 150)
    report = plan(q, k, v).profile(schedule)
    assert report.ok, report
    num_tiles = 2
    assert report.load.bytes == 2 * 4 * (140 + num_tiles * 2 * 150) * 64
    assert report.store.bytes == 4 * 140 * (2 * 64 + 4)


def test_what_has_no_twin_is_refused():
    q, k, v = tensors(1, 1, 1, 8, 8)
    with pytest.raises(UnsupportedError, match="07_persistent has no Triton twin; these have one: 03"):
        flash_attention_3.plan(q, k, v, language="triton")
    with pytest.raises(UnsupportedError, match="block_n=48; .* power of two"):
        plan(q, k, v, block_n=48)


def test_a_launch_leaves_the_callers_allocator_alone():
    """Triton keeps the kernel's descriptor of Q in memory that the launch provides."""
    before = _allocation._allocator.get()
    launch, seen = plan(*tensors(1, 1, 1, 8, 8)), []

    class Function:
        def __getitem__(self, grid):
            return lambda *_, **__: seen.append(_allocation._allocator.get()(128, 128, None))

    object.__setattr__(launch, "function", Function())
    launch.run()
    assert seen[0].nbytes == 128 and _allocation._allocator.get() is before


def compiled(head_dim, dtype, **changed):
    """The kernel for compute capability 9.0, as the launcher would launch it but for what is `changed`."""
    launch = plan(*tensors(1, 2, 1, 140, 150, head_dim, dtype))
    signature, constexprs, options = gate.request(launch)
    for name, value in changed.items():
        (options if name in options else constexprs)[name] = value
    return compile_for(launch.function, signature, constexprs, "sm_90", **options)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("head_dim", [64, 128])
def test_the_compiler_makes_one_producer_and_two_consumers(head_dim, dtype):
    kernel = compiled(head_dim, dtype)
    assert re.search(r"\.reqntid (\d+)", kernel.ptx).group(1) == str(3 * 128)
    registers = re.findall(r"setmaxnreg\.(dec|inc)\.sync\.aligned\.u32\s+(\d+)", kernel.ptx)
    assert registers.count(("inc", "232")) == 2 and registers.count(("dec", "40")) == 1  # the roles, then the way back
    assert "USETMAXREG" in disassemble(kernel.cubin)  # ptxas did not ignore them
    assert gate.spilled(kernel) == 0 and kernel.shared_bytes <= 227 << 10
    # each consumer multiplies its 64 rows: head_dim/16 products of 128 keys, and 128/16 of the weights
    assert kernel.ptx.count("wgmma.mma_async") == 2 * (head_dim // 16 + 128 // 16)
    assert kernel.ptx.count("cp.async.bulk.tensor") == 4  # two halves of Q, K, V: by the producer alone


def test_what_the_compiler_needs_for_that():
    """Eight warps: no roles, and no complaint. 64 rows: nothing to cut, so that both consumers do the same work."""
    wide = compiled(64, torch.float16, num_warps=8)
    assert "setmaxnreg" not in wide.ptx and ".reqntid 256" in wide.ptx
    narrow = compiled(64, torch.float16, BLOCK_M=64)
    assert ".reqntid 384" in narrow.ptx
    assert narrow.ptx.count("wgmma.mma_async") == compiled(64, torch.float16).ptx.count("wgmma.mma_async")

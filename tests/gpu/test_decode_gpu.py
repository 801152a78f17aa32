"""Decode over dense keys on the GPU in hand: mixed lengths, big caches, graphs, the same bits every time."""

import math

import pytest
import torch
from decode_outputs import refill, require_near

from course_lib.ops import decode as ops
from course_lib.reference import decode as reference

pytestmark = pytest.mark.skipif(
    torch.cuda.get_device_capability() < (8, 0), reason="the decode kernels need compute capability 8.0"
)
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
LAYOUTS = ["bhsd", "bshd"]


def cache(lengths, *, heads=32, kv_heads=8, head_dim=128, dtype=torch.bfloat16, layout="bhsd", capacity=None):
    """(q, k, v, seq_lens): NaN behind every length; q is a part of a wider tensor, its rows not side by side."""
    generator = torch.Generator(device="cuda").manual_seed(sum(lengths))
    made = {"generator": generator, "device": "cuda", "dtype": dtype}
    shape = (len(lengths), kv_heads, capacity or max(lengths) + 3, head_dim)
    if layout == "bshd":
        shape = (shape[0], shape[2], shape[1], shape[3])
    k, v = (torch.randn(shape, **made) for _ in range(2))
    for b, length in enumerate(lengths):
        for x in (k, v):
            reference.by_head(x, layout)[b, :, length:] = math.nan
    fused = torch.randn(len(lengths), heads + 2 * kv_heads, head_dim, **made)
    return fused[:, :heads], k, v, torch.tensor(lengths, dtype=torch.int32, device="cuda")


def check(inputs, *, runs=2, layout="bhsd", **options):
    """Outputs of a launch, held to float64 after each of `runs` runs."""
    launch = ops.plan(*inputs, layout=layout, **options)
    right, right_lse = reference.decode_attention_lse(*inputs, layout=layout)
    for _ in range(runs):
        refill(launch)
        launch.run()
        out, lse = launch.outputs
        require_near(out, lse, right, right_lse, TOLERANCE[out.dtype])
    return out.clone(), lse.clone()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("head_dim", "dtype"), [(64, torch.float16), (128, torch.bfloat16)])
@pytest.mark.parametrize("language", ["cuda", "triton"])
@pytest.mark.parametrize("variant", ops.VARIANTS)
def test_mixed_lengths(variant, language, head_dim, dtype, layout):
    inputs = cache([0, 1, 17, 4096, 255, 0, 1000], head_dim=head_dim, dtype=dtype, layout=layout)
    for num_splits in (None, 1, 7, 100):
        check(inputs, layout=layout, variant=variant, language=language, num_splits=num_splits)


@pytest.mark.parametrize("heads", [(1, 1), (3, 1), (8, 1), (9, 1), (32, 2)])
@pytest.mark.parametrize(("head_dim", "dtype"), [(64, torch.bfloat16), (128, torch.float16)])
@pytest.mark.parametrize("variant", ops.VARIANTS)
def test_groups(variant, heads, head_dim, dtype):
    inputs = cache([0, 75, 3000], heads=heads[0], kv_heads=heads[1], head_dim=head_dim, dtype=dtype)
    check(inputs, variant=variant)


@pytest.mark.parametrize("variant", ops.VARIANTS)
def test_one_very_long_sequence_among_short_ones(variant):
    check(cache([131072, 5, 0, 900], heads=8, kv_heads=2), variant=variant)


@pytest.mark.parametrize("variant", ops.VARIANTS)
def test_more_splits_than_keys(variant):
    check(cache([0, 1, 300, 40]), variant=variant, num_splits=1000)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("variant", ops.VARIANTS)
def test_a_cache_of_more_than_2_to_the_31_elements(variant, layout):
    """Its last sequence is used too: the first element of it has no 32-bit number."""
    shape = {"heads": 8, "kv_heads": 8, "capacity": 2**16, "dtype": torch.float16}
    check(cache([10] * 33 + [3000], layout=layout, **shape), layout=layout, variant=variant, max_seq_len=3000)


@pytest.mark.parametrize("variant", ops.VARIANTS)
def test_the_same_bits_every_time(variant):
    """Splits are merged in their order, whichever block comes last."""
    inputs = cache([9000, 300, 4000])
    first = check(inputs, variant=variant, num_splits=18)
    for _ in range(5):
        again = check(inputs, variant=variant, num_splits=18)
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


@pytest.mark.parametrize("variant", ops.VARIANTS)
def test_a_launch_can_be_captured_in_a_graph(variant):
    launch = ops.plan(*cache([2000, 100]), variant=variant)
    launch.run()
    wanted = [output.clone() for output in launch.outputs]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch.run()
    for _ in range(2):  # the counters are ready again for the second replay
        for output in launch.outputs:
            output.fill_(math.nan)
        graph.replay()
        torch.cuda.synchronize()
        assert all(torch.equal(output, want) for output, want in zip(launch.outputs, wanted, strict=True))

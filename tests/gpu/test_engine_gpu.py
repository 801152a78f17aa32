"""The engine on a GPU: a captured launch computes what was planned last, and every option equals float64."""

import pytest
import soft_cap_kernel
import torch

from course_lib import device
from course_lib.ops.engine import AttentionEngine, MlaEngine
from course_lib.reference.quantised_kv import quantise, restored
from course_lib.reference.ragged import ragged_attention_lse

DEVICE = "cuda"
PRODUCTS = ["mma", "wgmma"] if device.current().capability == (9, 0) else ["mma"]
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
PAGE_SIZE, NUM_PAGES = 16, 40
NEW, KEYS, STARTS = [1, 70, 0, 3, 1], [300, 90, 12, 33, 130], [0, 1, 71, 71, 74, 75]


def tensors(num_heads=8, num_kv_heads=2, head_dim=128, dtype=torch.bfloat16):
    """(q, k_pages, v_pages, block_table) on the CPU; requests may share pages, which only reads them twice."""
    generator = torch.Generator().manual_seed(4)
    q = torch.randn(STARTS[-1], num_heads, head_dim, generator=generator).to(dtype)
    shape = (NUM_PAGES, PAGE_SIZE, num_kv_heads, head_dim)
    pools = [torch.randn(shape, generator=generator).to(dtype) for _ in range(2)]
    table = torch.stack([torch.randperm(NUM_PAGES, generator=generator)[:20] for _ in KEYS]).int()
    return q, *pools, table


def on_device(*xs):
    return [x.to(DEVICE) for x in xs]


def close(outputs, want, dtype):
    torch.testing.assert_close(outputs[0].cpu().double(), want[0], rtol=0, atol=TOLERANCE[dtype])
    torch.testing.assert_close(outputs[1].cpu().double(), want[1], rtol=1e-4, atol=1e-4)


def test_a_captured_launch_computes_what_was_planned_last():
    q, k_pages, v_pages, table = tensors()
    engine = AttentionEngine(8, 2, 128, device=DEVICE)
    pools, q_gpu, table_gpu = on_device(k_pages, v_pages), q.to(DEVICE), table.to(DEVICE)
    engine.plan(STARTS, KEYS, table_gpu)  # the largest batch first: its buffers hold the others
    launch = engine.launch(q_gpu, *pools)
    launch.run()  # compiles before the capture
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch.run()
    other = [0, 1, 41, 41, 44, 75], [20, 64, 5, 200, 31]  # as many tokens, of other requests
    for starts, keys in (other, (STARTS, KEYS), other):
        engine.plan(starts, keys, table_gpu)
        for output in launch.outputs:
            output.fill_(torch.nan)
        graph.replay()
        torch.cuda.synchronize()
        close(launch.outputs, ragged_attention_lse(q, k_pages, v_pages, table, keys, starts), q.dtype)


def modifications():
    """name -> (options of the engine, options of the reference)."""
    slopes = 2.0 ** -torch.arange(1.0, 9.0)
    sinks = torch.linspace(-2, 4, 8)
    alibi = {"score_mod": lambda score, head, query, key: score - slopes.double()[head] * (query - key)}
    cap = {"score_mod": lambda score, *_: 5 * torch.tanh(score / 5)}
    return {
        "soft cap": ({"score_mod": "soft_cap(score, 5.0f)"}, cap),
        "ALiBi": ({"score_mod": "score - parameters[head] * (query - key)", "parameters": slopes}, alibi),
        "sinks": ({"sinks": sinks}, {"sinks": sinks}),
        "window": ({"window_left": 40}, {"window_left": 40}),
        "not causal": ({"causal": False}, {"causal": False}),
        "deterministic": ({"deterministic": True}, {}),
    }


@pytest.mark.parametrize("products", PRODUCTS)
@pytest.mark.parametrize("name", modifications())
def test_a_score_modification(name, products):
    options, reference = modifications()[name]
    options = {key: x.to(DEVICE) if isinstance(x, torch.Tensor) else x for key, x in options.items()}
    q, *pools, table = tensors()
    engine = AttentionEngine(8, 2, 128, device=DEVICE, products=products, **options)
    engine.plan(STARTS, KEYS, table.to(DEVICE))
    outputs = engine.run(*on_device(q, *pools))
    close(outputs, ragged_attention_lse(q, *pools, table, KEYS, STARTS, **reference), q.dtype)


@pytest.mark.parametrize("cap", [1.0, 30.0, 50.0])
def test_a_soft_cap_is_right_to_a_part_of_the_cap(cap):
    assert soft_cap_kernel.largest_error(cap, DEVICE) < 1e-6


def test_custom_masks():
    generator = torch.Generator().manual_seed(5)
    masks = [torch.rand(new, keys, generator=generator) < 0.5 for new, keys in zip(NEW, KEYS, strict=True)]
    q, *pools, table = tensors()
    engine = AttentionEngine(8, 2, 128, device=DEVICE, custom_mask=True)
    engine.plan(STARTS, KEYS, table.to(DEVICE), masks=masks)
    outputs = engine.run(*on_device(q, *pools))
    close(outputs, ragged_attention_lse(q, *pools, table, KEYS, STARTS, masks=masks), q.dtype)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kv_dtype", [None, torch.int8, torch.float8_e4m3fn])
def test_a_dtype_of_keys_and_values(kv_dtype, dtype):
    q, k_pages, v_pages, table = tensors(dtype=dtype)
    engine = AttentionEngine(8, 2, 128, dtype=dtype, kv_dtype=kv_dtype, device=DEVICE)
    engine.plan(STARTS, KEYS, table.to(DEVICE))
    pools, scales = [k_pages, v_pages], []
    if kv_dtype is not None:
        pools, scales = zip(*[quantise(pages, kv_dtype) for pages in pools], strict=True)
    exact = [restored(pages, own) for pages, own in zip(pools, scales, strict=True)] if scales else pools
    outputs = engine.run(*on_device(q, *pools, *scales))
    close(outputs, ragged_attention_lse(q, *exact, table, KEYS, STARTS), dtype)


@pytest.mark.parametrize("num_heads", [16, 128])
def test_multi_head_latent_attention(num_heads):
    q, pages, _, table = tensors(num_heads, 1, 576)
    engine = MlaEngine(num_heads, device=DEVICE)
    engine.plan(STARTS, KEYS, table.to(DEVICE))
    outputs = engine.run(*on_device(q, pages[:, :, 0].contiguous()))
    options = {"softmax_scale": 192**-0.5}
    close(outputs, ragged_attention_lse(q, pages, pages[..., :512], table, KEYS, STARTS, **options), q.dtype)

"""Products of one to eight tokens, with norm, activation, RoPE and cache: numbers, bytes, no finding, refusals."""

from types import SimpleNamespace

import pytest
import torch
from norm_cases import assert_near, rows, vector

from course_lib.device import has_gpu
from course_lib.errors import ShapeError, UnsupportedError
from course_lib.ops import decode_linear as ops
from course_lib.ops.rope import cos_sin_cache
from course_lib.reference import activation, norm

WHERE = "cuda" if has_gpu() else "cpu"  # these tests also run on a GPU
EPS = 1e-5


def inputs(num_tokens, size_n, size_k, dtype=torch.float16):
    """(x, weight, bias, residual); products of about 1."""
    x, residual = rows(num_tokens, size_k, dtype, device=WHERE), rows(num_tokens, size_n, dtype, seed=1, device=WHERE)
    weight = rows(size_n, size_k, torch.float32, seed=2) / size_k**0.5
    return x, weight.to(dtype).to(WHERE), vector(size_n, dtype, device=WHERE), residual


@pytest.fixture
def streams(monkeypatch):
    """No block has all of its weights under way at once, however few they are."""
    monkeypatch.setattr(ops, "MAX_WHOLE", (0, 0))


@pytest.fixture(params=["whole", "streams"])
def either(request):
    """Both ways of a block with its weights."""
    if request.param == "streams":
        request.getfixturevalue("streams")


def normalised(x, kind, weight, bias):
    """The norm in float64, rounded to the dtype of x as it enters the product."""
    exact = norm.rms_norm(x, weight, EPS) if kind == "rms" else norm.layer_norm(x, weight, bias, EPS)
    return exact.to(x.dtype).double()


@pytest.mark.parametrize("size", [(1, 1, 8), (3, 21, 96), (8, 10, 136)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_linear_is_right(size, dtype, either):
    x, weight, bias, residual = inputs(*size, dtype)
    product = x.double() @ weight.double().T
    assert_near(ops.linear(x, weight), product, dtype)
    want = product + bias.double() + residual.double()
    assert ops.linear(x, weight, bias=bias, residual=residual, out=residual) is residual
    assert_near(residual, want, dtype)


@pytest.mark.parametrize("kind", ["rms", "layer"])
@pytest.mark.parametrize("word", [None, "gelu", "swiglu"])
def test_norm_linear_is_right(kind, word, either):
    x, weight, bias, _ = inputs(3, 22, 72)
    x = x + 4.0
    norm_weight, norm_bias = vector(72, x.dtype, device=WHERE), vector(72, x.dtype, seed=5, device=WHERE)
    options = {"norm": kind, "norm_bias": norm_bias if kind == "layer" else None, "bias": bias, "eps": EPS}
    want = normalised(x, kind, norm_weight, norm_bias) @ weight.double().T + bias.double()
    if word == "gelu":
        want = activation.gelu_tanh(want)
    elif word == "swiglu":
        want = activation.swiglu(*want.chunk(2, -1))
    assert_near(ops.norm_linear(x, norm_weight, weight, activation=word, **options), want, x.dtype, units=2)


@pytest.mark.parametrize("llama", [True, False], ids=["llama", "gpt2"])
def test_queries_keys_and_values_go_where_they_belong(llama, either):
    num_heads, num_kv_heads, head_dim = (4, 2, 16) if llama else (2, 2, 16)
    x, weight, bias, _ = inputs(3, (num_heads + 2 * num_kv_heads) * head_dim, 40)
    norm_weight, norm_bias = vector(40, x.dtype, device=WHERE), vector(40, x.dtype, seed=5, device=WHERE)
    caches = [torch.full((6, num_kv_heads, head_dim), 7.0, dtype=x.dtype, device=WHERE) for _ in range(2)]
    slots, positions = torch.tensor([4, -1, 0]), torch.tensor([9, 3, 0], dtype=torch.int32)
    table = cos_sin_cache(10, head_dim, device=WHERE)
    turned = {"positions": positions.to(WHERE), "cos_sin": table} if llama else {}
    kind = {"norm": "rms"} if llama else {"norm": "layer", "norm_bias": norm_bias, "bias": bias}
    options = kind | turned | {"num_heads": num_heads, "eps": EPS}
    out = ops.norm_qkv(x, norm_weight, weight, *caches, slots.to(WHERE), **options)
    product = normalised(x, kind["norm"], norm_weight, norm_bias) @ weight.double().T
    product = product if llama else product + bias.double()
    parts = product.split((num_heads * head_dim, *[num_kv_heads * head_dim] * 2), -1)
    q, k, v = (each.unflatten(-1, (-1, head_dim)) for each in parts)
    if llama:
        cos, sin = table[positions.long()][:, None].double().chunk(2, -1)
        q, k = (torch.cat((a * cos - b * sin, b * cos + a * sin), -1) for a, b in (x.chunk(2, -1) for x in (q, k)))
    assert_near(out, q, x.dtype, units=2)
    for cache, wanted in zip(caches, (k, v), strict=True):
        assert_near(cache[[4, 0]], wanted[[0, 2]], x.dtype, units=2)
        assert bool((cache[[1, 2, 3, 5]] == 7.0).all()), "a slot that no token has was written"


def test_a_token_is_the_same_beside_any_others(either):
    x, weight, bias, residual = inputs(8, 21, 96)
    together = ops.linear(x, weight, bias=bias, residual=residual)
    for first, count in ((0, 1), (5, 3)):
        part = slice(first, first + count)
        assert torch.equal(ops.linear(x[part], weight, bias=bias, residual=residual[part]), together[part])


def test_sums_are_kept_in_float():
    x = torch.ones(1, 4096, device=WHERE).half()
    assert ops.linear(x, torch.ones(2, 4096, device=WHERE).half()).tolist() == [[4096.0, 4096.0]]
    x[0, :2], x[0, 2:] = torch.tensor([2048.0, 0.5]), 0.0
    weight = torch.ones(1, 4096, device=WHERE).half()
    assert ops.linear(x, weight, residual=torch.full((1, 1), -2048.0, device=WHERE).half()).item() == 0.5


@pytest.mark.parametrize("num_tokens", [1, 8])
def test_weights_are_read_once(num_tokens, either):
    """Beside them each block reads the tokens, and each output its addends."""
    x, weight, bias, residual = inputs(num_tokens, 24, 256)
    launch = ops.plan(x, weight, bias=bias, residual=residual)
    assert launch.traffic() == (weight.nbytes + 12 * x.nbytes + 2 * residual.nbytes, residual.nbytes)


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random", "resident"])
def test_no_finding(schedule, either):
    x, weight, bias, residual = inputs(3, 6, 136)
    report = ops.plan(x, weight, bias=bias, residual=residual).profile(schedule)
    assert report.ok, report


@pytest.mark.parametrize("num_tokens", [1, 3])
def test_blocks_of_several_tiles(num_tokens, monkeypatch):
    """Nine and eight pairs: three tiles and two; 27 pieces of a row for eight warps."""
    monkeypatch.setattr(ops, "_grid", lambda tensor, size_n: 2)
    x, weight, bias, residual = inputs(num_tokens, 34, 1672)
    assert ops._shape(num_tokens, 34, 1672, 2, 0)[0] == {"NUM_WARPS": 8, "NUM_STAGES": 12, "TILES": 3}
    launch = ops.plan(x, weight, bias=bias, residual=residual)
    if WHERE == "cpu":
        assert launch.profile("random").ok
    launch.run()
    assert_near(launch.outputs[0], x.double() @ weight.double().T + bias.double() + residual.double(), x.dtype)
    norm_weight = vector(1672, x.dtype, device=WHERE)
    got = ops.norm_linear(x, norm_weight, weight, bias=bias, eps=EPS)
    assert_near(got, normalised(x, "rms", norm_weight, None) @ weight.double().T + bias.double(), x.dtype, units=2)


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random", "resident"])
def test_no_finding_where_a_ring_is_filled_again(schedule, streams, monkeypatch):
    monkeypatch.setattr(ops, "NUM_STAGES", (2,))
    x, weight, _, residual = inputs(1, 4, 2504)  # 40 pieces of a row: four a warp
    report = ops.plan(x, weight, residual=residual).profile(schedule)
    assert report.ok, report


def test_the_ring_changes_no_bit(streams, monkeypatch):
    x, weight, bias, residual = inputs(3, 42, 1672)
    norm_weight = vector(1672, x.dtype, device=WHERE)
    found = []
    for stages in (8, 7, 2):
        monkeypatch.setattr(ops, "NUM_STAGES", (stages,))
        part = ops.norm_linear(x, norm_weight, weight, activation="swiglu")
        found.append(torch.cat((ops.linear(x, weight, bias=bias, residual=residual), part), 1))
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


@pytest.mark.parametrize("num_tokens", [1, 2])
def test_a_multiprocessor_has_one_block_of_a_kernel_and_one_of_the_next(num_tokens, monkeypatch):
    """Of a Llama of 1.1 billion weights on an H200, 1 KiB of each block being CUDA's."""
    h200 = SimpleNamespace(shared_bytes_per_sm=228 * 1024, shared_bytes_per_block=227 * 1024)
    monkeypatch.setattr(ops.device, "current", lambda: h200)
    sizes = {"qkv": (2560, 2048, 1), "out": (2048, 2048, 0), "up": (11264, 2048, 1), "down": (2048, 5632, 0)}
    shapes = {name: ops._shape(num_tokens, n, k, 132, norm) for name, (n, k, norm) in sizes.items()}
    taken = {name: 1024 + (128 if sizes[name][2] else 0) + size for name, (_, size) in shapes.items()}
    for name, following in (("qkv", "out"), ("out", "up"), ("up", "down"), ("down", "qkv")):
        assert taken[name] + taken[following] <= h200.shared_bytes_per_sm
        assert sizes[name][2] or 2 * taken[name] > h200.shared_bytes_per_sm
    rings = {"up": 8, "down": 8} if num_tokens == 1 else {"up": 7, "down": 7}
    assert {name: shape["NUM_STAGES"] for name, (shape, _) in shapes.items()} == {"qkv": 12, "out": 8} | rings
    assert {name for name, (shape, _) in shapes.items() if shape["TILES"] == 0} == set(rings)


def test_what_does_not_fit_is_refused_in_words():
    x, weight, bias, residual = inputs(2, 6, 16)
    cache, slots = torch.zeros(3, 1, 2, device=WHERE).half(), torch.arange(2, device=WHERE)
    for error, wrong, sentence in (
        (ShapeError, lambda: ops.linear(x.float(), weight), "expected float16 or bfloat16"),
        (UnsupportedError, lambda: ops.linear(x.repeat(5, 1), weight), "at most 8 rows"),
        (UnsupportedError, lambda: ops.linear(x[:, :12].contiguous(), weight), "a multiple of 8"),
        (ShapeError, lambda: ops.linear(x, weight[:, :8].contiguous()), r"expected \(size_n, 16\)"),
        (ShapeError, lambda: ops.linear(x, weight, bias=bias[:4]), r"bias has the shape \(4,\); expected \(6,\)"),
        (ShapeError, lambda: ops.linear(x, weight, residual=residual[:1]), r"residual has the shape \(1, 6\)"),
        (ShapeError, lambda: ops.norm_linear(x, [1.0] * 16, weight), "norm_weight is a list; expected a torch tensor"),
        (ShapeError, lambda: ops.norm_linear(x, bias, weight), r"norm_weight has the shape \(6,\)"),
        (UnsupportedError, lambda: ops.norm_linear(x, x[0], weight, norm="batch"), "'rms' and 'layer'"),
        (ShapeError, lambda: ops.norm_linear(x, x[0], weight, norm="layer"), "LayerNorm has one"),
        (UnsupportedError, lambda: ops.norm_linear(x, x[0], weight, activation="relu"), "None, 'gelu' and 'swiglu'"),
        (ShapeError, lambda: ops.norm_qkv(x, x[0], weight, cache, cache, slots, num_heads=3), "are 10"),
        (ShapeError, lambda: ops.norm_qkv(x, x[0], weight, cache, cache, slots.int(), num_heads=1), "slots must be"),
        (ShapeError, lambda: ops.norm_qkv(x, x[0], weight, cache, cache, slots, num_heads=1, positions=slots.int()),
         "belong together"),
    ):  # fmt: skip
        with pytest.raises(error, match=sentence):
            wrong()
    shapes = [(9, (6, 16)), (1, (6, 12)), (8, (11264, 5632)), (8, (256000, 2048)), (8, (64, 16384))]
    found = [ops.fits(tokens, torch.empty(shape, dtype=torch.float16, device="meta")) for tokens, shape in shapes]
    assert found == [False, False, True, True, False]

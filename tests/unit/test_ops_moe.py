"""A mixture of experts, step by step and whole: ties, a stable sort, empty experts, ragged tiles, no finding."""

import pytest
import torch
from norm_cases import assert_near

from course_lib.device import has_gpu
from course_lib.errors import ShapeError, UnsupportedError
from course_lib.ops import moe as ops
from course_lib.reference import moe as reference

WHERE = "cuda" if has_gpu() else "cpu"  # these tests also run on a GPU
ROUTES = [(1, 1, 1), (5, 8, 2), (9, 33, 8), (6, 128, 8), (3, 4, 4)]


def draw(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype).to(WHERE)


@pytest.mark.parametrize("renormalise", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", ROUTES, ids=str)
def test_routes(size, dtype, renormalise):
    num_tokens, num_experts, top_k = size
    logits = 3.0 * draw(num_tokens, num_experts, dtype=dtype)
    logits[-1] = 1.5  # all equal: the lowest numbers
    experts, weights = ops.route(logits, top_k, renormalise=renormalise)
    want, want_weights = reference.route(logits, top_k, renormalise=renormalise)
    assert experts[-1].tolist() == list(range(top_k))
    assert torch.equal(experts, want.int())
    assert_near(weights, want_weights, torch.float32)


@pytest.mark.parametrize(
    ("num_tokens", "top_k", "num_experts", "block_m"),
    [(1, 1, 1, 64), (3, 2, 8, 16), (300, 2, 5, 128), (300, 2, 5, 64), (101, 8, 128, 16)],
)
def test_sort_is_stable_and_its_tiles_cover_every_place_once(num_tokens, top_k, num_experts, block_m):
    generator = torch.Generator().manual_seed(num_tokens)
    experts = torch.randint(0, num_experts, (num_tokens, top_k), generator=generator).int().to(WHERE)
    experts[experts == num_experts // 2] = 0  # an expert without tokens
    pairs = ops.sort(experts, num_experts, block_m=block_m)
    assert pairs.block_m == block_m
    want = torch.sort(experts.flatten(), stable=True).indices
    assert torch.equal(pairs.order.long(), want)
    assert torch.equal(pairs.places.flatten()[want].cpu(), torch.arange(len(want)).int())
    counts = torch.bincount(experts.flatten(), minlength=num_experts)
    assert pairs.offsets.tolist() == [0, *torch.cumsum(counts, 0).tolist()]
    covered = []
    for expert, first in pairs.tiles.tolist():
        end = first if expert < 0 else min(first + block_m, int(pairs.offsets[expert + 1]))
        assert expert < 0 or pairs.offsets[expert] <= first < end
        covered += range(first, end)
    assert covered == list(range(num_tokens * top_k))


LANGUAGES = [("cuda", 64), *(("triton", block_m) for block_m in ops.BLOCKS_M)]


@pytest.mark.parametrize(("language", "block_m"), LANGUAGES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [(1, 1, 1, 2, 8), (70, 3, 2, 66, 40), (5, 6, 2, 18, 72)], ids=str)
def test_grouped_products(size, dtype, language, block_m):
    num_tokens, num_experts, top_k, size_n, size_k = size
    experts = reference.route(draw(num_tokens, num_experts), top_k)[0].int()
    pairs = ops.sort(experts, num_experts, block_m=block_m)
    x, w = draw(num_tokens, size_k, dtype=dtype), draw(num_experts, size_n, size_k, dtype=dtype, seed=1)
    out = torch.full((num_tokens * top_k, size_n), torch.nan, dtype=dtype, device=WHERE)
    assert ops.grouped(x, w, pairs, gather=True, out=out, language=language) is out
    assert_near(out, reference.grouped(x, w, experts, gather=True), dtype)
    rows = draw(num_tokens * top_k, size_k, dtype=dtype, seed=2)
    assert_near(ops.grouped(rows, w, pairs, language=language), reference.grouped(rows, w, experts), dtype)


@pytest.mark.parametrize("num_cols", [1, 33, 1032])
def test_combine(num_cols):
    y, places = draw(12, num_cols, dtype=torch.float16), torch.randperm(12).int().view(4, 3).to(WHERE)
    weights = draw(4, 3, seed=3)
    want = (y.double()[places.long()] * weights.double()[..., None]).sum(1)
    assert_near(ops.combine(y, places, weights), want, torch.float16)


@pytest.mark.parametrize("language", ["cuda", "triton"])
@pytest.mark.parametrize("renormalise", [True, False])
def test_a_whole_mixture(renormalise, language):
    x, logits = draw(19, 24, dtype=torch.float16), draw(19, 6, seed=4)
    w_up, w_down = (0.3 * draw(6, *shape, dtype=torch.float16, seed=5) for shape in ((32, 24), (24, 16)))
    options = {"top_k": 2, "renormalise": renormalise}
    got = ops.moe(x, logits, w_up, w_down, language=language, **options)
    assert_near(got, reference.moe(x, logits, w_up, w_down, **options), torch.float16, units=4)


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random", "resident"])
def test_no_finding(schedule):
    logits = draw(40, 5)
    experts, weights = (each.contiguous() for each in reference.route(logits, 2))
    pairs = ops.sort(experts.int(), 5)
    x, w = draw(40, 24, dtype=torch.float16), draw(5, 10, 24, dtype=torch.float16)
    for launch in (
        ops.plan_route(logits, 2),
        ops.plan_sort(experts.int(), 5),
        ops.plan_grouped(x, w, pairs, gather=True),
        ops.plan_combine(draw(80, 20), pairs.places, weights.float()),
    ):
        report = launch.profile(schedule)
        assert report.ok, report


def test_what_does_not_fit_is_refused_in_words():
    experts = torch.tensor([[0, 2], [1, 0]], dtype=torch.int32, device=WHERE)
    pairs, w = ops.sort(experts, 3), draw(3, 4, 16, dtype=torch.float16)
    x = draw(2, 16, dtype=torch.float16)
    for error, wrong, sentence in (
        (UnsupportedError, lambda: ops.route(draw(2, 4), 5), "top_k=5 of 4 experts"),
        (ShapeError, lambda: ops.route(draw(2, 4).double(), 2), "float32, float16 or bfloat16"),
        (ShapeError, lambda: ops.sort(experts.long(), 3), "experts is torch.int64"),
        (UnsupportedError, lambda: ops.sort(experts, 3, block_m=48), "block_m=48: tiles of .* 16 or 64 or 128 rows"),
        (UnsupportedError, lambda: ops.grouped(x, w, ops.sort(experts, 3, block_m=16), gather=True), "in cuda have 64"),
        (ShapeError, lambda: ops.grouped(x, w, pairs), r"expected x \(4, 16\) and 3 experts"),
        (
            ShapeError,
            lambda: ops.grouped(x[:, :12].contiguous(), w[..., :12].contiguous(), pairs, gather=True),
            "8 must",
        ),
        (ShapeError, lambda: ops.combine(x, pairs.places, draw(2, 2)), "a row for each place"),
    ):
        with pytest.raises(error, match=sentence):
            wrong()
    if WHERE == "cpu":
        with pytest.raises(ShapeError, match="there are 0 to 1"):
            ops.sort(experts, 2)


def test_an_expert_is_read_once_for_each_tile_of_its_rows():
    experts = torch.tensor([[0]] * 70 + [[2]] * 3, dtype=torch.int32, device=WHERE)
    pairs = ops.sort(experts, 4)
    size_n, size_k = 64, 48
    launch = ops.plan_grouped(draw(73, size_k).half(), draw(4, size_n, size_k).half(), pairs, gather=True)
    tiles, grid_tiles = 3, launch.grid[0]  # two of expert 0, one of expert 2
    numbers = 4 * (
        128 * (2 * grid_tiles + tiles) + 73 * 8
    )  # a tile's expert, place and end; order for 8 accesses of a row
    assert launch.traffic() == ((73 + tiles * size_n) * size_k * 2 + numbers, 73 * size_n * 2)


def test_tiles_have_the_rows_that_an_expert_has_on_average():
    assert [ops.tile_rows(pairs, 8, "triton") for pairs in (1, 128, 129, 512, 513, 10**6)] == [16, 16, 64, 64, 128, 128]
    assert ops.tile_rows(1, 8, "cuda") == 64

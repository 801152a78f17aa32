"""Decode over dense keys on the SIMT machine: right for any length, split and layout, clean, and reads what it may."""

import math

import pytest
import torch
from broken_kernels import without_line
from decode_outputs import refill, require_near

from course_lib.errors import ShapeError, UnsupportedError
from course_lib.ops import decode as ops
from course_lib.ops._foundation.splits import MIN_SPLIT_LEN
from course_lib.reference import attention
from course_lib.reference import decode as reference

SCHEDULES = ["forward", "reverse", "random", "resident"]
SPLIT = ops.VARIANTS[1:]


@pytest.fixture(autouse=True)
def on_the_machine(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")


def cache(lengths, *, heads=4, kv_heads=2, head_dim=64, dtype=torch.float16, layout="bhsd", capacity=None, scale=2.0):
    """(q, k, v, seq_lens): NaN behind every length; q is a part of a wider tensor, its rows not side by side."""
    generator = torch.Generator().manual_seed(sum(lengths) + head_dim)
    shape = (len(lengths), kv_heads, capacity or max(lengths) + 3, head_dim)
    k, v = (torch.randn(shape, generator=generator).to(dtype) for _ in range(2))
    for b, length in enumerate(lengths):
        k[b, :, length:] = v[b, :, length:] = math.nan
    if layout == "bshd":
        k, v = (x.transpose(1, 2).contiguous() for x in (k, v))
    fused = (scale * torch.randn(len(lengths), heads + 2 * kv_heads, head_dim, generator=generator)).to(dtype)
    return fused[:, :heads], k, v, torch.tensor(lengths, dtype=torch.int32)


def counters_of(launch):
    return [x for x in launch.arguments if isinstance(x, torch.Tensor) and x.dtype == torch.int32][-1]


def assert_right(launch, right, dtype, runs=1):
    """Outputs near the oracle's after each of `runs` launches: a counter left behind would spoil the second."""
    limit = 2e-3 if dtype == torch.float16 else 1.6e-2
    for _ in range(runs):
        refill(launch)
        launch.run()
        require_near(*launch.outputs, *right, limit)


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize(("head_dim", "dtype"), [(64, torch.float16), (128, torch.bfloat16)])
@pytest.mark.parametrize("variant", ops.VARIANTS)
def test_lengths_around_a_split(variant, head_dim, dtype, layout):
    """129 places in 3 splits of 43 keys: lengths at both sides of every border, and of a warp's tile."""
    inputs = cache([0, 1, 15, 16, 17, 42, 43, 44, 86, 129], head_dim=head_dim, dtype=dtype, layout=layout, capacity=129)
    launch = ops.plan(*inputs, layout=layout, variant=variant, num_splits=3)
    assert_right(launch, reference.decode_attention_lse(*inputs, layout=layout), dtype, runs=2)


@pytest.mark.parametrize("heads", [(1, 1), (3, 1), (8, 2), (8, 1), (9, 1), (32, 2)])
@pytest.mark.parametrize(("head_dim", "dtype"), [(64, torch.bfloat16), (128, torch.float16)])
def test_groups_of_any_size(heads, head_dim, dtype):
    inputs = cache([0, 75, 150], heads=heads[0], kv_heads=heads[1], head_dim=head_dim, dtype=dtype)
    right = reference.decode_attention_lse(*inputs)
    assert_right(ops.plan(*inputs, variant="01_single_pass"), right, dtype)
    for num_splits in (1, 2, 5):
        launch = ops.plan(*inputs, num_splits=num_splits)
        assert_right(launch, right, dtype, runs=2)
        assert counters_of(launch).shape == (3, heads[1]) and not counters_of(launch).any()  # ready for the next launch


@pytest.mark.parametrize("variant", SPLIT)
def test_more_splits_than_tiles_and_than_keys(variant):
    inputs = cache([0, 1, 40])
    right = reference.decode_attention_lse(*inputs)
    for num_splits in (7, 43, 60):  # the last: more than there are places, so some splits are empty in every sequence
        assert_right(ops.plan(*inputs, variant=variant, num_splits=num_splits), right, torch.float16, runs=2)


def test_a_split_leaves_the_softmax_of_its_own_keys():
    inputs = cache([0, 20, 75])
    split, combine = ops.plan(*inputs, variant="02_split_kv", num_splits=4, max_seq_len=75).launches
    split.run()
    partial_out, partial_lse = split.outputs
    want = reference.split_lse(*inputs, 4, 19)
    there = want[1].isfinite()
    assert there.sum() == 4 * (0 + 2 + 4)  # four heads; 20 keys fill one split of 19 and begin another
    assert torch.all(partial_lse[~there] == -math.inf)
    assert torch.all((partial_lse - want[1])[there].abs() <= 1e-4)
    assert torch.all((partial_out - want[0])[there].abs() <= 2e-3)
    partial_out[~there] = math.nan
    combine.run()
    out, lse = reference.combine(partial_out, partial_lse)
    assert torch.all((combine.outputs[0] - out).abs() <= 2e-3)
    assert torch.allclose(combine.outputs[1].double(), lse, atol=1e-5)


def test_the_oracle_of_the_merge_is_the_oracle_of_the_whole():
    inputs = cache([0, 1, 33, 100])
    right = reference.decode_attention_lse(*inputs)
    for num_splits, split_len in ((1, 103), (4, 26), (103, 1)):
        found = reference.combine(*reference.split_lse(*inputs, num_splits, split_len))
        assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(found, right, strict=True))


@pytest.mark.parametrize("variant", ops.VARIANTS)
def test_large_and_growing_scores(variant):
    q, k, v, lens = cache([300], scale=1.0)
    growth = torch.linspace(0, 1, 300)[:, None].expand(300, 64)
    for factor in (1.0, 40.0):
        k[0, :, :300] = (growth * factor).half()
        for sign in (1, -1):
            inputs = (torch.full_like(q, sign), k, v, lens)
            launch = ops.plan(*inputs, variant=variant, num_splits=3)
            assert_right(launch, reference.decode_attention_lse(*inputs), torch.float16)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("variant", ops.VARIANTS)
def test_clean_in_every_schedule(variant, schedule):
    launch = ops.plan(*cache([0, 17, 150]), variant=variant, num_splits=4)
    for part in getattr(launch, "launches", (launch,)):
        report = part.profile(schedule)
        assert report.ok, str(report)


@pytest.mark.parametrize(("head_dim", "dtype"), [(64, torch.bfloat16), (128, torch.float16)])
@pytest.mark.parametrize("num_splits", [1, 3])
def test_a_dependent_has_the_same_bits(head_dim, dtype, num_splits, monkeypatch):
    """Lengths at both sides of a tile, of the keys that it copies ahead, and of more tiles than its ring has.

    With as many warps: the order of the sums depends on them.
    """
    monkeypatch.setattr(ops, "GROUPED", ops.GROUPED | ops.DEPENDENT.get(head_dim, {}))
    lengths = [0, 1, 8, 9, 16, 23, 24, 25, 40, 129, 423]
    inputs = cache(lengths, heads=8, kv_heads=2, head_dim=head_dim, dtype=dtype, layout="bshd")
    found = [
        ops.decode_attention(*inputs, layout="bshd", num_splits=num_splits, dependent=dependent)
        for dependent in (False, True)
    ]
    assert all(torch.equal(*both) for both in zip(*found, strict=True))
    for schedule in SCHEDULES:
        report = ops.plan(*cache([0, 17, 150]), num_splits=num_splits, dependent=True).profile(schedule)
        assert report.ok, str(report)


def test_a_dependent_has_few_splits():
    """On a card of 132 multiprocessors, unless a number is asked for."""
    inputs = cache([2000], heads=8, kv_heads=2)
    blocks = [ops.plan(*inputs, **options).grid for options in ({}, {"dependent": True})]
    assert blocks == [(16 * 2,), (8 * 2,)]
    assert ops.plan(*inputs, dependent=True, num_splits=12).grid == (12 * 2,)


@pytest.mark.parametrize(
    ("variant", "line"),
    [
        ("01_single_pass", "separates the writes of each group's state"),
        ("03_fused_combine", "this thread's part is visible to every block"),
        ("03_fused_combine", "separates all threads' parts from the count"),
        ("03_fused_combine", "separates the write of last_smem"),
        ("04_grouped_heads", "separates the writes of all warps' states from their reads"),
        ("04_grouped_heads", "this thread's part is visible to every block"),
        ("04_grouped_heads", "all lanes' copies have"),
    ],
)
def test_a_missing_barrier_or_fence_is_found(variant, line):
    launch = ops.plan(*cache([150]), variant=variant, num_splits=4)
    broken = without_line(launch.function, line)
    options = {"shared_bytes": launch.shared_bytes, "outputs": launch.outputs}
    reports = (broken.profile(launch.grid, launch.block, *launch.arguments, schedule=s, **options) for s in SCHEDULES)
    assert not all(report.ok for report in reports)


def test_a_counter_that_is_left_behind_spoils_the_next_launch():
    """What the second run of `assert_right` is for."""
    inputs = cache([150])
    for variant, line in (("03_fused_combine", "counters[row] = 0"), ("04_grouped_heads", "*counter = 0")):
        launch = ops.plan(*inputs, variant=variant, num_splits=4)
        broken = without_line(launch.function, line)
        for output in launch.outputs:
            output.fill_(math.nan)
        broken(launch.grid, launch.block, *launch.arguments, shared_bytes=launch.shared_bytes)
        assert counters_of(launch).any() and launch.outputs[0].isfinite().all()
        launch.outputs[0].fill_(math.nan)
        broken(launch.grid, launch.block, *launch.arguments, shared_bytes=launch.shared_bytes)
        assert launch.outputs[0].isnan().all()  # no block is the last any more


def test_bytes_by_formula():
    """Two sequences of 256 keys in 4 splits, eight heads on two of keys, 64 columns: every byte is accounted for."""
    inputs = cache([256, 256], heads=8, kv_heads=2, capacity=256)
    found = {name: ops.plan(*inputs, variant=name, num_splits=4).traffic() for name in ops.VARIANTS}
    once, rows, pairs, num_splits = (
        2 * 2 * 256 * 2 * 64 * 2,
        2 * 8,
        2 * 2,
        4,
    )  # K and V: sequences, keys, heads, columns
    start = 128 * (16 + 4)  # of a block: 128 threads read their part of q and the length
    merge = num_splits * (4 + 4 + 4)  # of a thread: the lse of every split twice, one column of it
    parts, result = rows * num_splits * (64 + 1) * 4, rows * (64 * 2 + 4)  # out and lse
    assert found["01_single_pass"] == (4 * once + rows * start, result)
    read = 4 * once + rows * num_splits * start
    assert found["02_split_kv"] == (read + rows * 64 * merge, parts + result)
    assert found["03_fused_combine"] == (read + rows * 128 * merge, parts + result + rows * 4)  # and the counters
    start = 4 * 4 * 64 * 2 + 128 * 4  # of a block: each warp reads four rows of q, each thread the length
    merge = 4 * 64 // 4 * (num_splits * 4 + 8 * 16)  # of a group: four columns a thread, 8 splits at a time
    assert found["04_grouped_heads"] == (once + pairs * num_splits * start + pairs * merge, parts + result + pairs * 4)


def test_tiles_in_shared_memory_have_no_bank_conflicts():
    for head_dim in (64, 128):
        report = ops.plan(*cache([128], head_dim=head_dim)).profile()
        assert report.shared_load.conflicts <= 0.02 * report.shared_load.wavefronts


def test_offsets_beyond_32_bits():
    """Tokens 2^25 elements apart, so that token 64 lies behind 2^31; v is k, and most of it is never touched."""
    apart = 2**25
    k = torch.as_strided(torch.empty(67 * apart, dtype=torch.float16), (1, 1, 67, 64), (67 * apart, 64, apart, 1))
    k[...] = torch.randn(67, 64).half()
    q = torch.randn(1, 2, 64).half()
    rows = k[0].contiguous()
    right = tuple(x[None, :, 0] for x in attention.attention_lse(q[0, :, None], rows, rows))
    lens = torch.tensor([67], dtype=torch.int32)
    # 02 and 03 read by the lines of 01. One split of 04: a warp goes on by 64 keys; two: the second begins behind 2^30
    for variant, num_splits in (("01_single_pass", 1), ("04_grouped_heads", 1), ("04_grouped_heads", 2)):
        assert_right(ops.plan(q, k, k, lens, variant=variant, num_splits=num_splits), right, torch.float16)


def test_the_number_of_splits_fills_the_card_once():
    places = 132
    assert ops.choose_num_splits(8, 1024, places) == 8  # no split below 128 keys
    assert ops.choose_num_splits(8, 32768, places) == 16  # one wave
    assert ops.choose_num_splits(512, 8192, places) == 1  # full without a split
    assert ops.choose_num_splits(1, 131072, places) == 132
    assert ops.choose_num_splits(1, 1, places) == 1
    for num_pairs in (1, 7, 64, 300):
        for longest in (1, 127, 129, 5000, 131072):
            splits = ops.choose_num_splits(num_pairs, longest, places)
            assert 1 <= splits <= ops.MAX_SPLITS and splits * num_pairs <= max(places, num_pairs)
            assert splits == 1 or -(-longest // splits) > MIN_SPLIT_LEN // 2


def test_a_tight_bound_on_the_lengths_saves_blocks():
    inputs = cache([40, 3], capacity=4096)
    wide, tight = (ops.plan(*inputs, max_seq_len=longest) for longest in (None, 40))
    assert tight.grid[0] < wide.grid[0]
    right = reference.decode_attention_lse(*inputs)
    assert_right(tight, right, torch.float16)
    assert_right(wide, right, torch.float16)


def test_launches_may_share_their_counters():
    inputs = cache([300, 70])
    counters = torch.zeros(2, 2, dtype=torch.int32)
    launch = ops.plan(*inputs, num_splits=3, counters=counters)
    assert counters_of(launch) is counters
    assert_right(launch, reference.decode_attention_lse(*inputs), torch.float16, runs=2)
    assert not counters.any()


def test_refusals_are_sentences():
    q, k, v, lens = cache([5])
    with pytest.raises(ShapeError, match=r"counters have the shape \(2, 1\); expected \(1, 2\)"):
        ops.plan(q, k, v, lens, counters=torch.zeros(2, 1, dtype=torch.int32))
    with pytest.raises(ShapeError, match="both must have one shape and one layout"):
        ops.plan(q, k, v.transpose(1, 2).contiguous().transpose(1, 2), lens)
    with pytest.raises(ShapeError, match="expected int32"):
        ops.plan(q, k, v, lens.long())
    with pytest.raises(ShapeError, match="must be a multiple of it"):
        ops.plan(q[:, :3], k, v, lens)
    with pytest.raises(ShapeError, match="they must agree"):
        ops.plan(q.bfloat16(), k, v, lens)
    with pytest.raises(UnsupportedError, match="layout"):
        ops.plan(q, k, v, lens, layout="NHD")
    with pytest.raises(UnsupportedError, match="04_grouped_heads"):
        ops.plan(q, k, v, lens, variant="04")
    with pytest.raises(UnsupportedError, match="1 to 1024"):
        ops.plan(q, k, v, lens, num_splits=0)
    with pytest.raises(UnsupportedError, match="both must be 64 or 128"):
        ops.plan(*(x[..., :32].contiguous() for x in (q, k, v)), lens)

"""The attention engine on the SIMT machine: any mix of lengths equals float64, whatever the plan, mask or score."""

from functools import partial
from itertools import accumulate

import pytest
import soft_cap_kernel
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.errors import ShapeError, UnsupportedError
from course_lib.ops.engine import AttentionEngine, attention, make_schedule
from course_lib.reference.quantised_kv import quantise, restored
from course_lib.reference.ragged import ragged_attention_lse

TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def batch(new, keys, *, num_heads=4, num_kv_heads=2, head_dim=64, page_size=4, dtype=torch.float16, seed=0):
    """Tensors and lengths of a batch; slots and table entries behind a request's keys are NaN and far outside."""
    generator = torch.Generator().manual_seed(seed)
    max_pages = max(1, *(-(-length // page_size) for length in keys)) + 1
    num_pages = max_pages * len(keys)
    table = torch.randperm(num_pages, generator=generator).reshape(len(keys), max_pages).int()
    shape = (num_pages, page_size, num_kv_heads, head_dim)
    pools = [torch.full(shape, torch.nan, dtype=dtype) for _ in range(2)]
    for row, length in enumerate(keys):
        for pool in pools:
            used = torch.randn(length, *shape[2:], generator=generator).to(dtype)
            for first in range(0, length, page_size):
                pool[table[row, first // page_size], : length - first] = used[first : first + page_size]
        table[row, -(-length // page_size) :] = 10**6
    starts = [0, *accumulate(new)]
    q = torch.randn(starts[-1], num_heads, head_dim, generator=generator).to(dtype)
    return q, *pools, table, keys, starts


def judged(case, *, chunk_keys=None, num_blocks=3, shared=(), masks=None, reference=None, monkeypatch=None, **options):
    """Run an engine on a batch under the checked machine and hold it against float64; returns (out, lse, schedule)."""
    q, k_pages, v_pages, table, keys, starts = case
    engine = AttentionEngine(
        q.shape[1], k_pages.shape[2], q.shape[2], dtype=q.dtype, num_blocks=num_blocks, custom_mask=masks is not None,
        **options,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        if chunk_keys:
            patch.setattr(attention, "make_schedule", partial(make_schedule, chunk_keys=chunk_keys))
        schedule = engine.plan(starts, keys, table, shared=shared, masks=masks)
    launch = engine.launch(q, k_pages, v_pages)
    for schedule_name in ("forward", "reverse"):
        for output in launch.outputs:
            output.fill_(torch.nan)
        assert not launch.profile(schedule_name).findings
        compare(launch.outputs, case, masks=masks, **options | (reference or {}))
    return *launch.outputs, schedule


def compare(outputs, case, *, score_mod=None, masks=None, causal=True, window_left=None, sinks=None, **_):
    q, k_pages, v_pages, table, keys, starts = case
    options = {"causal": causal, "window_left": window_left, "sinks": sinks, "masks": masks}
    mod = score_mod if callable(score_mod) else None
    want = ragged_attention_lse(q, k_pages, v_pages, table, keys, starts, score_mod=mod, **options)
    torch.testing.assert_close(outputs[0].double(), want[0], rtol=0, atol=TOLERANCE[q.dtype])
    torch.testing.assert_close(outputs[1].double(), want[1], rtol=1e-5, atol=1e-5)


def judged_quantised(case, kv_dtype, *, layout="NHD", per="token", chunk_keys=64, reference=None, **options):
    """An engine over the case's pools in one byte a number, held against float64 on the numbers that they denote."""
    q, k_pages, v_pages, table, keys, starts = case
    pools, scales = zip(*[quantise(pages, kv_dtype, per=per) for pages in (k_pages, v_pages)], strict=True)
    exact = [restored(pages, own) for pages, own in zip(pools, scales, strict=True)]
    engine = AttentionEngine(
        q.shape[1], k_pages.shape[2], q.shape[2], dtype=q.dtype, kv_dtype=kv_dtype, layout=layout, num_blocks=3,
        **options,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "make_schedule", partial(make_schedule, chunk_keys=chunk_keys))
        engine.plan(starts, keys, table)
    if layout == "HND":
        pools = [pages.transpose(1, 2).contiguous() for pages in pools]
    launch = engine.launch(q, *pools, *scales)
    for output in launch.outputs:
        output.fill_(torch.nan)
    assert not launch.profile().findings
    compare(launch.outputs, (q, *exact, table, keys, starts), **options | (reference or {}))


MIX = [1, 40, 0, 3, 150], [170, 40, 12, 33, 150]  # decode, prefill, nothing, append, several tiles of rows


@pytest.mark.parametrize("chunk_keys", [None, 64])
def test_a_mix_of_lengths(chunk_keys):
    judged(batch(*MIX), chunk_keys=chunk_keys)


@pytest.mark.parametrize("num_heads, num_kv_heads", [(2, 2), (6, 2), (16, 1), (64, 1)])
def test_groups(num_heads, num_kv_heads):
    new, keys = ([1, 3, 23], [130, 64, 23]) if num_heads < 64 else ([1, 3], [100, 20])
    judged(batch(new, keys, num_heads=num_heads, num_kv_heads=num_kv_heads), chunk_keys=64)


def test_keys_and_values_in_int8():
    judged_quantised(batch(*MIX), torch.int8)
    judged_quantised(batch([1, 2, 0], [0, 2, 0]), torch.int8)  # requests without keys


def test_keys_and_values_in_e4m3():
    wide = batch([1, 3, 70], [100, 128, 90], num_heads=8, head_dim=128, dtype=torch.bfloat16)
    judged_quantised(wide, torch.float8_e4m3fn, layout="HND", per="head", chunk_keys=None)


def test_scales_of_one_byte_meet_windows_score_modifications_and_groups():
    case = batch([2, 9], [90, 64], num_heads=12, num_kv_heads=1)
    cap = {"score_mod": lambda score, *_: 5 * torch.tanh(score / 5)}
    options = {"score_mod": "5.0f * tanhf(score / 5.0f)", "window_left": 40, "sinks": torch.linspace(-1, 1, 12)}
    judged_quantised(case, torch.int8, reference=cap, **options)


def test_many_rows_by_wgmma():
    judged(batch([1, 40, 0, 3, 150], [70, 40, 12, 33, 150]), chunk_keys=64, products="wgmma")
    options = {"window_left": 90, "score_mod": "soft_cap(score, 5.0f)", "sinks": torch.linspace(-1, 1, 8)}
    cap = {"score_mod": lambda score, *_: 5 * torch.tanh(score / 5)}
    wide = batch([5, 70], [128, 90], num_heads=8, head_dim=128, dtype=torch.bfloat16)
    judged(wide, chunk_keys=64, products="wgmma", reference=cap, **options)


@pytest.mark.parametrize("options", [{}, {"window_left": 20, "sinks": torch.linspace(-1, 1, 6)}, {"causal": False}])
def test_the_triton_twins_take_the_same_schedule(options, monkeypatch):
    case = batch([1, 30, 0, 2], [140, 40, 12, 70], num_heads=6)
    q, k_pages, v_pages, table, keys, starts = case
    monkeypatch.setattr(attention, "make_schedule", partial(make_schedule, chunk_keys=64))
    engine = AttentionEngine(6, 2, 64, dtype=q.dtype, language="triton", num_blocks=3, **options)
    engine.plan(starts, keys, table)
    launch = engine.launch(q, k_pages, v_pages)
    for output in launch.outputs:
        output.fill_(torch.nan)
    launch.run()
    compare(launch.outputs, case, **options)


def test_wide_heads_in_bfloat16():
    judged(batch([1, 5, 70], [300, 128, 90], num_heads=8, head_dim=128, dtype=torch.bfloat16), chunk_keys=64)


def test_requests_without_keys():
    out, lse, _ = judged(batch([1, 2, 0], [0, 2, 0]), chunk_keys=64)
    assert (out[0] == 0).all() and lse[0].isneginf().all()


def test_every_token_sees_all_keys_without_a_causal_mask():
    judged(batch([3, 20], [40, 90]), causal=False, chunk_keys=64)


@pytest.mark.parametrize("window_left", [0, 20, 100])
def test_windows(window_left):
    *_, schedule = judged(batch([1, 100, 9], [300, 160, 64]), window_left=window_left, chunk_keys=64)
    keys = schedule.items[:, 5] - schedule.items[:, 4]
    assert keys.max() <= 64 and keys.sum() < 2 * (1 * 300 + 2 * 160 + 64)  # tiles outside are never read


@pytest.mark.parametrize("cap", [1.0, 30.0, 50.0])
def test_a_soft_cap_is_right_to_a_part_of_the_cap(cap):
    assert soft_cap_kernel.largest_error(cap, "cpu") < 1e-6


def test_score_modifications():
    case = batch([1, 30], [90, 64])
    cap = {"score_mod": lambda score, *_: 5 * torch.tanh(score / 5)}
    judged(case, score_mod="5.0f * tanhf(score / 5.0f)", reference=cap)
    judged(case, score_mod="soft_cap(score, 5.0f)", reference=cap)
    slopes = torch.tensor([0.5, 0.25, 0.1, 0.01])
    alibi = {"score_mod": lambda score, head, query, key: score - slopes[head] * (query - key)}
    expression = "score - parameters[head] * (query - key)"
    judged(case, score_mod=expression, parameters=slopes, reference=alibi, chunk_keys=64)


def test_sinks_count_once_a_row():
    judged(batch([1, 30, 2], [190, 64, 0]), sinks=torch.tensor([0.0, 3.0, -50.0, 60.0]), chunk_keys=64)


@pytest.mark.parametrize("causal", [False, True])
def test_custom_masks(causal):
    generator = torch.Generator().manual_seed(3)
    masks = [torch.rand(rows, keys, generator=generator) < 0.5 for rows, keys in ((2, 130), (40, 64))]
    masks[1][3] = False  # a row that sees nothing
    judged(batch([2, 40], [130, 64]), masks=masks, causal=causal, chunk_keys=64)


def test_shared_keys_are_read_once():
    case = batch([1, 3, 1, 2], [150, 180, 140, 131])
    case[3][1:, :32] = case[3][0, :32]  # 128 keys
    for shared in ([(0, 4, 128)], [(0, 3, 100)], [(1, 2, 64), (2, 4, 127)]):
        *_, schedule = judged(case, shared=shared, chunk_keys=64)
    flat = judged(case, chunk_keys=64)[2]
    keys = [(one.items[:, 5] - one.items[:, 4]).sum() for one in (schedule, flat)]
    assert keys[0] < keys[1]


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_any_batch(data):
    lengths = st.tuples(st.integers(0, 40), st.integers(0, 150)).map(lambda pair: (pair[0], sum(pair)))
    pairs = data.draw(st.lists(lengths, min_size=1, max_size=4).filter(lambda pairs: any(new for new, _ in pairs)))
    new, keys = zip(*pairs, strict=True)
    judged(
        batch(list(new), list(keys), page_size=data.draw(st.sampled_from([1, 4, 16]))),
        chunk_keys=data.draw(st.sampled_from([None, 64, 128])), num_blocks=data.draw(st.integers(1, 7)),
    )  # fmt: skip


def test_in_the_deterministic_mode_bits_do_not_depend_on_the_batch():
    q, k_pages, v_pages, table, keys, starts = batch([1, 7, 30, 2], [120, 70, 30, 90])

    def run(requests):
        engine = AttentionEngine(4, 2, 64, dtype=q.dtype, num_blocks=3, deterministic=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("course_lib.ops.engine.schedule.FIXED_KEYS", 64)
            new = [starts[r + 1] - starts[r] for r in requests]
            engine.plan([0, *accumulate(new)], [keys[r] for r in requests], table[requests])
        rows = torch.cat([torch.arange(starts[r], starts[r + 1]) for r in requests])
        return dict(zip(rows.tolist(), engine.run(q[rows], k_pages, v_pages)[0], strict=True))

    together = run([0, 1, 2, 3])
    for alone in ([0], [1], [2, 0], [3, 2, 1]):
        for row, out in run(alone).items():
            assert torch.equal(out, together[row])


def test_a_plan_after_a_longer_one_leaves_nothing_behind():
    long, short = batch([1, 40, 3], [170, 90, 64]), batch([2, 1], [100, 70], seed=1)
    engine = AttentionEngine(4, 2, 64, dtype=torch.float16, num_blocks=3)
    for case in (long, short, long):
        q, k_pages, v_pages, table, keys, starts = case
        engine.plan(starts, keys, table)
        launch = engine.launch(q, k_pages, v_pages)
        where = [x.data_ptr() for x in launch.arguments if isinstance(x, torch.Tensor)][3:7]
        launch.run()
        compare(launch.outputs, case)
    engine.plan(short[5], short[4], short[3])
    assert where == [x.data_ptr() for x in engine.launch(*short[:3]).arguments if isinstance(x, torch.Tensor)][3:7]


@pytest.mark.parametrize("seed", range(4))
def test_no_block_has_much_more_than_the_mean(seed):
    generator = torch.Generator().manual_seed(seed)
    keys = (2 ** (torch.rand(60, generator=generator) * 9 + 6)).long().tolist()
    new = [1 if row % 3 else min(length, 200) for row, length in enumerate(keys)]
    starts = [0, *accumulate(new)]
    schedule = make_schedule(starts, keys, num_kv_heads=8, group=4, num_blocks=264)
    assert schedule.imbalance < 1.1
    assert len(schedule.items) < 8 * 264


def test_every_pair_of_a_token_and_a_key_is_in_one_item():
    starts, keys = [0, 1, 60, 63], [500, 70, 200]
    schedule = make_schedule(starts, keys, num_kv_heads=1, group=4, num_blocks=5, chunk_keys=64)
    seen = torch.zeros(63, 500, dtype=torch.int)
    for _, _, token, rows, first, end, position, *_ in schedule.items.tolist():
        for row in range(rows // 4):
            seen[token + row, first : min(end, position + row + 1)] += 1
    for request, length in enumerate(keys):
        for token in range(starts[request], starts[request + 1]):
            last = length - starts[request + 1] + token + 1
            assert (seen[token, :last] == 1).all() and (seen[token, last:] == 0).all()


def test_what_does_not_fit_is_a_sentence():
    q, k_pages, v_pages, table, keys, starts = batch([1, 2], [9, 5])
    engine = AttentionEngine(4, 2, 64, dtype=torch.float16, num_blocks=2)
    with pytest.raises(ShapeError, match="no plan"):
        engine.run(q, k_pages, v_pages)
    with pytest.raises(ShapeError, match="expected 3, from 0 on"):
        engine.plan([0, 1], keys, table)
    with pytest.raises(ShapeError, match="decreases"):
        engine.plan([0, 2, 1], keys, table)
    with pytest.raises(ShapeError, match="share 9 keys; they have 3"):
        engine.plan(starts, keys, table, shared=[(0, 2, 9)])
    with pytest.raises(ShapeError, match="masks are given"):
        engine.plan(starts, keys, table, masks=[])
    engine.plan(starts, [9, 50], table)
    with pytest.raises(ShapeError, match="a request has 50 keys, and 4 pages of 4 hold 16"):
        engine.run(q, k_pages, v_pages)
    engine.plan(starts, keys, table)
    with pytest.raises(ShapeError, match=r"the plan asks for torch.float16 \(3, 4, 64\)"):
        engine.run(q[:2], k_pages, v_pages)
    small, scales = quantise(k_pages, torch.int8)
    for pools, message in (((small, small), "v_scales missing"), ((k_pages, v_pages, scales, scales), "torch.float16")):
        quantised = AttentionEngine(4, 2, 64, dtype=torch.float16, kv_dtype=torch.int8, num_blocks=2)
        quantised.plan(starts, keys, table)
        with pytest.raises(ShapeError, match=message):
            quantised.run(q, *pools)
    with pytest.raises(UnsupportedError, match="has no score_mod and no wgmma"):
        AttentionEngine(4, 2, 64, language="triton", score_mod="score", products="wgmma")
    with pytest.raises(UnsupportedError, match="without a kv_dtype"):
        AttentionEngine(4, 2, 64, products="wgmma", kv_dtype=torch.int8)
    with pytest.raises(UnsupportedError, match="kv_dtype=torch.float64"):
        AttentionEngine(4, 2, 64, kv_dtype=torch.float64)
    with pytest.raises(UnsupportedError, match="at most 64 times"):
        AttentionEngine(130, 2, 64)
    with pytest.raises(UnsupportedError, match="no window"):
        AttentionEngine(4, 2, 64, window_left=3).plan(starts, keys, table, shared=[(0, 1, 4)])

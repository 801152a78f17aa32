"""Triton twins of kernels_cu/decode: right at every corner of the contract, clean in every schedule, NaN stays out."""

import math

import pytest
import torch
from decode_outputs import require_near

from course_lib.ops import decode as ops
from course_lib.reference import decode as reference
from course_lib.triton import profile_triton
from course_lib.triton_kernels import load

LENGTHS = [0, 1, 31, 32, 33, 75, 200]  # the capacity; no token, one, around the end of a split of 32


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")


def cache(lengths=LENGTHS, *, heads=4, kv_heads=2, head_dim=64, dtype=torch.float16, layout="bhsd"):
    """(q, k, v, seq_lens): NaN past the end of each sequence."""
    generator = torch.Generator().manual_seed(sum(lengths) + heads)
    shape = (len(lengths), kv_heads, max(lengths), head_dim)
    k, v = (torch.randn(shape, generator=generator).to(dtype) for _ in range(2))
    for b, length in enumerate(lengths):
        k[b, :, length:] = v[b, :, length:] = math.nan
    if layout == "bshd":
        k, v = (x.transpose(1, 2).contiguous() for x in (k, v))
    q = (2.0 * torch.randn(len(lengths), heads, head_dim, generator=generator)).to(dtype)
    return q, k, v, torch.tensor(lengths, dtype=torch.int32)


def planned(inputs, **options):
    return ops.plan(*inputs, language="triton", **options)


def assert_right(launch, right, dtype=torch.float16, runs=1):
    """Outputs near the oracle's; the parts of splits without keys are NaN before the first launch."""
    for part in getattr(launch, "launches", (launch,)):
        for x in part.arguments:
            if isinstance(x, torch.Tensor) and x.dtype == torch.float32:
                x.fill_(math.nan)
    launch.outputs[0].fill_(math.nan)
    for _ in range(runs):
        launch.run()
    out, lse = launch.outputs
    limit = 2e-3 if dtype == torch.float16 else 1.6e-2
    require_near(out, lse, *right, limit)


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize(("head_dim", "dtype"), [(64, torch.bfloat16), (128, torch.float16)])
@pytest.mark.parametrize("variant", ops.VARIANTS)
def test_lengths_around_a_split(variant, head_dim, dtype, layout):
    inputs = cache(head_dim=head_dim, dtype=dtype, layout=layout)
    right = reference.decode_attention_lse(*inputs, layout=layout)
    launch = planned(inputs, variant=variant, layout=layout, num_splits=7)  # 29 keys a split
    assert_right(launch, right, dtype, runs=2)


@pytest.mark.parametrize(("num_splits", "lengths"), [(1, LENGTHS), (2, LENGTHS), (20, [0, 75, 200]), (30, [0, 1, 21])])
@pytest.mark.parametrize("variant", ops.VARIANTS[1:])
def test_any_number_of_splits(variant, num_splits, lengths):
    """One block, more splits than are merged at a time, and more than there are keys."""
    inputs = cache(lengths)
    launch = planned(inputs, variant=variant, num_splits=num_splits)
    assert_right(launch, reference.decode_attention_lse(*inputs), runs=2)


@pytest.mark.parametrize("heads", [(1, 1), (3, 1), (8, 1), (16, 1), (32, 2)])
@pytest.mark.parametrize("variant", ops.VARIANTS[2:])
def test_groups_of_any_size(variant, heads):
    inputs = cache([0, 75, 200], heads=heads[0], kv_heads=heads[1])
    launch = planned(inputs, variant=variant, num_splits=3)
    assert_right(launch, reference.decode_attention_lse(*inputs), runs=2)
    counters = [x for x in launch.arguments if isinstance(x, torch.Tensor) and x.dtype == torch.int32][-1]
    assert counters.numel() == 3 * heads[variant == "04_grouped_heads"] and not counters.any()  # for the next launch


@pytest.mark.parametrize("variant", ops.VARIANTS)
def test_rows_of_q_may_lie_apart(variant):
    q, *rest = cache([40, 75])
    fused = torch.randn(2, 6, 64).half()  # q beside k and v of the new token, as one projection leaves them
    fused[:, 1:5] = q
    inputs = (fused[:, 1:5], *rest)
    assert_right(planned(inputs, variant=variant, num_splits=3), reference.decode_attention_lse(q, *rest))


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random"])
@pytest.mark.parametrize("variant", ops.VARIANTS)
def test_clean_in_every_schedule(variant, schedule):
    launch = planned(cache([0, 17, 150]), variant=variant, num_splits=4)
    for part in getattr(launch, "launches", (launch,)):
        report = part.profile(schedule)
        assert report.ok and not report.remarks, str(report)


@pytest.mark.parametrize(
    ("right", "wrong"), [('sem="acq_rel"', 'sem="relaxed"'), ("        tl.debug_barrier()", "        pass")]
)
@pytest.mark.parametrize("variant", ops.VARIANTS[2:])
def test_a_missing_order_is_found(variant, right, wrong, tmp_path, monkeypatch):
    """Without acquire and release the parts race; without the barrier a program may be counted before its own part."""
    whole = load(f"decode/{variant}")
    launch = planned(cache([150]), variant=variant, num_splits=4)
    broken = _edited(whole, right, wrong, tmp_path, monkeypatch)
    report = profile_triton(broken, launch.grid, *launch.arguments, schedule="forward", **launch.constants)
    assert report.races if "sem" in right else any("debug_barrier" in remark for remark in report.remarks)


def _edited(function, right, wrong, folder, monkeypatch):
    """`function` of a copy of its module, in which `right` has become `wrong` everywhere."""
    import importlib.util

    from course_lib.triton_kernels import decode

    text = open(decode.__file__, encoding="utf-8").read().replace("from .. import", "from course_lib import")
    text = text.replace("from .state import", "from course_lib.triton_kernels.state import")
    assert right in text
    path = folder / "broken_decode.py"
    path.write_text(text.replace(right, wrong), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("broken_decode", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(__import__("sys").modules, "broken_decode", module)
    spec.loader.exec_module(module)
    return getattr(module, function.__name__)


def test_the_group_reads_its_keys_once():
    """Bytes of K and V by formula: one read a group in 04, one a query head in 01; parts and counters come on top."""
    inputs = cache([256, 256], heads=8, kv_heads=2)
    once = 2 * 2 * 256 * 2 * 64 * 2  # K and V, sequences, tokens, heads, columns, bytes
    grouped, by_head = (
        planned(inputs, variant=name, num_splits=1).traffic()[0] for name in ("04_grouped_heads", "01_single_pass")
    )
    assert once <= grouped <= 1.1 * once
    assert 4 * once <= by_head <= 1.1 * 4 * once


def test_offsets_beyond_32_bits():
    """Tokens 2^25 elements apart, so that the last of 70 lies beyond 2^31; most of the storage is never touched."""
    apart, tokens = 2**25, 70
    storage = torch.empty(2, (tokens - 1) * apart + 64, dtype=torch.float16)
    k, v = (torch.as_strided(x, (1, 1, tokens, 64), (64, 64, apart, 1)) for x in storage)
    for x in (k, v):
        for token in range(tokens):
            x[0, 0, token] = torch.randn(64).half()
    inputs = (torch.randn(1, 2, 64).half(), k, v, torch.tensor([tokens], dtype=torch.int32))
    right = reference.decode_attention_lse(*inputs)
    for variant in ops.VARIANTS:
        assert_right(planned(inputs, variant=variant, num_splits=2), right)

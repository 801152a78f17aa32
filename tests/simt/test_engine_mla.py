"""Multi-head latent attention: the absorbed form is the definition, and the engine's kernel is the absorbed form."""

from functools import partial
from itertools import accumulate

import pytest
import torch

from course_lib.errors import ShapeError, UnsupportedError
from course_lib.ops.engine import MlaEngine, absorbed_query, attention, make_schedule, values_of_latents
from course_lib.reference.mla import mla_unabsorbed
from course_lib.reference.ragged import ragged_attention_lse


def batch(new, keys, *, page_size=4, dtype=torch.float16, seed=0):
    """(pages, block_table, starts); slots and table entries past a request's keys are NaN and far outside."""
    generator = torch.Generator().manual_seed(seed)
    max_pages = max(1, *(-(-length // page_size) for length in keys)) + 1
    table = torch.randperm(max_pages * len(keys), generator=generator).reshape(len(keys), max_pages).int()
    pages = torch.full((max_pages * len(keys), page_size, 576), torch.nan, dtype=dtype)
    for row, length in enumerate(keys):
        for key in range(length):
            pages[table[row, key // page_size], key % page_size] = torch.randn(576, generator=generator).to(dtype)
        table[row, -(-length // page_size) :] = 10**6
    return pages, table, [0, *accumulate(new)]


def judged(new, keys, num_heads, *, dtype=torch.float16, chunk_keys=None, **options):
    pages, table, starts = batch(new, keys, dtype=dtype)
    q = torch.randn(starts[-1], num_heads, 576, generator=torch.Generator().manual_seed(1)).to(dtype)
    engine = MlaEngine(num_heads, dtype=dtype, num_blocks=3, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "make_schedule", partial(make_schedule, chunk_keys=chunk_keys))
        engine.plan(starts, keys, table)
    launch = engine.launch(q, pages)
    for output in launch.outputs:
        output.fill_(torch.nan)
    assert not launch.profile().findings
    pools, scale = (pages[:, :, None], pages[:, :, None, :512]), 192**-0.5
    want = ragged_attention_lse(q, *pools, table, keys, starts, softmax_scale=scale, **options)
    tolerance = 2e-3 if dtype == torch.float16 else 1.6e-2
    torch.testing.assert_close(launch.outputs[0].double(), want[0], rtol=0, atol=tolerance)
    torch.testing.assert_close(launch.outputs[1].double(), want[1], rtol=1e-5, atol=1e-5)


def test_the_absorbed_form_is_the_definition():
    pages, table, starts = batch([1, 3, 2], [9, 7, 2], dtype=torch.float64)
    generator = torch.Generator().manual_seed(2)
    q_nope, q_rope = (torch.randn(6, 3, width, generator=generator, dtype=torch.float64) for width in (128, 64))
    w_uk, w_uv = (torch.randn(3, 128, 512, generator=generator, dtype=torch.float64) / 20 for _ in range(2))
    want = mla_unabsorbed(q_nope, q_rope, pages, table, [9, 7, 2], starts, w_uk, w_uv)
    pools, scale = (pages[:, :, None], pages[:, :, None, :512]), 192**-0.5
    latents, lse = ragged_attention_lse(
        absorbed_query(q_nope, q_rope, w_uk), *pools, table, [9, 7, 2], starts, softmax_scale=scale
    )
    torch.testing.assert_close(values_of_latents(latents, w_uv), want[0], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(lse, want[1], rtol=1e-9, atol=1e-9)


def test_decode_append_and_requests_without_keys():
    judged([1, 6, 0, 1], [150, 40, 9, 0], 16, chunk_keys=64)  # cut, two tiles of rows, no token, no key


def test_heads_in_two_groups_walk_the_same_rows():
    judged([1, 2], [70, 33], 128, dtype=torch.bfloat16)


def test_what_does_not_fit_is_a_sentence():
    pages, table, starts = batch([1], [5])
    engine = MlaEngine(16, dtype=torch.float16, num_blocks=2)
    q = torch.zeros(1, 16, 576, dtype=torch.float16)
    with pytest.raises(ShapeError, match="no plan"):
        engine.run(q, pages)
    engine.plan(starts, [5], table)
    with pytest.raises(ShapeError, match=r"expected \(num_pages, page_size, 576\)"):
        engine.run(q, pages[..., :512])
    with pytest.raises(ShapeError, match=r"the plan asks for torch.float16 \(1, 16, 576\)"):
        engine.run(q[..., :512], pages)
    engine.plan(starts, [50], table)
    with pytest.raises(ShapeError, match="a request has 50 keys, and 3 pages of 4 hold 12"):
        engine.run(q, pages)
    with pytest.raises(UnsupportedError, match="up to 64 or a multiple of 64"):
        MlaEngine(100)

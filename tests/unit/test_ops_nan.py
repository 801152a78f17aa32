"""NaN in, NaN out: where torch's own computation gives NaN, every step of every family does, and nowhere else."""

import pytest
import torch

from course_lib.cuda.steps import step
from course_lib.errors import CourseError
from course_lib.ops import attention, decode, flash_attention_1, paged, softmax

LANGUAGES = ("cuda", "triton")


def languages(family, variants):
    return [(one, lang) for one in variants for lang in LANGUAGES if lang in step(f"{family}/{one}").languages]


def reference(q, k, v):
    """(out, lse) of one query a head, in float64: q (heads, d), k and v (heads, keys, d)."""
    scores = torch.einsum("hd,hnd->hn", q.double(), k.double()) * q.shape[-1] ** -0.5
    return torch.einsum("hn,hnd->hd", scores.softmax(-1), v.double()), scores.logsumexp(-1)


def same_pattern(got, expected):
    assert torch.equal(got.isnan(), expected.isnan())


@pytest.mark.parametrize(("variant", "language"), languages("softmax", softmax.ROW_VARIANTS))
def test_softmax_of_rows_with_nan(variant, language):
    x = torch.randn(5, 70)
    x[1, 3] = x[2, 69] = float("nan")
    x[3] = float("nan")
    x[4, 5] = float("inf")
    same_pattern(softmax.softmax(x, variant=variant, language=language), x.softmax(-1))


@pytest.mark.parametrize("language", LANGUAGES)
def test_log_sum_exp_and_masked_rows_with_nan(language):
    x = torch.randn(3, 70)
    x[1, 3] = float("nan")
    same_pattern(softmax.log_sum_exp(x.half(), language=language), x.logsumexp(-1))
    out, lse = softmax.masked_softmax(x[None], torch.tensor([70], dtype=torch.int32), language=language)
    expected = x.masked_fill(torch.ones(3, 70).tril(67).logical_not(), -torch.inf)
    same_pattern(lse[0], expected.logsumexp(-1))
    visible = expected != -torch.inf
    assert torch.equal(out[0].isnan(), expected.softmax(-1).isnan() & visible)
    assert (out[0][~visible] == 0).all()


def _decode_case():
    q, k, v = torch.randn(2, 2, 64).half(), torch.randn(2, 2, 40, 64).half(), torch.randn(2, 2, 40, 64).half()
    k[0, 1, 7, 3] = float("nan")
    return q, k, v


@pytest.mark.parametrize(("variant", "language"), languages("decode", decode.VARIANTS))
def test_decode_with_nan(variant, language):
    q, k, v = _decode_case()
    lens = torch.tensor([40, 33], dtype=torch.int32)
    out, lse = decode.decode_attention(q, k, v, lens, variant=variant, language=language)
    for one in range(2):
        expected = reference(q[one], k[one, :, : lens[one]], v[one, :, : lens[one]])
        same_pattern(out[one], expected[0])
        same_pattern(lse[one], expected[1])


@pytest.mark.parametrize(("variant", "language"), languages("paged", paged.DECODE_VARIANTS))
def test_paged_with_nan(variant, language):
    q, k, v = _decode_case()
    pages = [x.transpose(1, 2).reshape(2 * 5, 8, 2, 64).contiguous() for x in (k, v)]
    table, lens = torch.arange(10, dtype=torch.int32).reshape(2, 5), torch.tensor([40, 33], dtype=torch.int32)
    out, lse = paged.paged_attention(q, *pages, table, lens, variant=variant, language=language)
    for one in range(2):
        expected = reference(q[one], k[one, :, : lens[one]], v[one, :, : lens[one]])
        same_pattern(out[one], expected[0])
        same_pattern(lse[one], expected[1])


def _attention(variant):
    return lambda *qkv, language: attention.attention(*qkv, variant=variant, language=language)


STEPS = languages("attention", [one for one in attention.VARIANTS if one < "06"])


@pytest.mark.parametrize(
    ("call", "language"),
    [(_attention(variant), language) for variant, language in STEPS]
    + [(flash_attention_1.flash_attention_1, language) for language in LANGUAGES],
)
def test_attention_with_nan(call, language):
    q, k, v = (torch.randn(1, 2, 5, 64) for _ in range(3))
    q[0, 1, 2, 0] = float("nan")
    try:
        got = call(q, k, v, language=language)
    except CourseError:  # half precision only
        got = call(q.half(), k.half(), v.half(), language=language)
    out = got[0] if isinstance(got, tuple) else got
    scores = q @ k.transpose(-1, -2)
    same_pattern(out, scores.softmax(-1) @ v)
    if isinstance(got, tuple):
        same_pattern(got[1], scores.logsumexp(-1))

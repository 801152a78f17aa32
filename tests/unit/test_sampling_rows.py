"""Sampling of rows that are hard to search: ties, spikes, tails, masks, extreme temperatures; how often it reads."""

import math

import pytest
import torch

from course_lib.device import has_gpu
from course_lib.ops import sampling as ops
from course_lib.reference import sampling as reference

WHERE = "cuda" if has_gpu() else "cpu"  # these tests also run on a GPU
LARGEST = torch.finfo(torch.float32).max


def normal(num_cols):
    return 3.0 * torch.randn(num_cols, generator=torch.Generator().manual_seed(num_cols))


def masked(num_cols):
    return torch.where(torch.arange(num_cols) % 7 == (num_cols - 1) % 7, normal(num_cols), -math.inf)


def signed_zeros(num_cols):
    token = torch.arange(num_cols)
    return where(token % 2 == 0, -0.0, 0.0) - (token % 5 == 4).float()


def where(condition, one, other):
    return torch.where(condition, torch.tensor(one), torch.tensor(other))


ROWS = {
    "normal": normal,
    "equal": lambda num_cols: torch.full((num_cols,), -2.5),
    "two_values": lambda num_cols: where(torch.arange(num_cols) % 3 == 1, 0.75, 0.5),
    "spike": lambda num_cols: where(torch.arange(num_cols) == num_cols // 2, 30.0, 1.0),
    "tail": lambda num_cols: normal(num_cols) ** 5,
    "masked": masked,
    "one_left": lambda num_cols: where(torch.arange(num_cols) == num_cols - 1, 1.0, -math.inf),
    "rising": lambda num_cols: torch.arange(num_cols) * (8.0 / num_cols),
    "falling": lambda num_cols: torch.arange(num_cols) * (-20.0 / num_cols) - 5.0,
    "denormal": lambda num_cols: (torch.arange(num_cols) % 50 - 20) * 1e-44,
    "signed_zeros": signed_zeros,
    "huge": lambda num_cols: torch.linspace(-0.25, 0.25, num_cols) * LARGEST,
}


def filters_of(num_cols):
    """(temperature, top_k, top_p, min_p) of each row."""
    middle, almost = max(1, num_cols // 2), 1.0 - 2.0**-24
    return [
        (1.0, 0, 1.0, 0.0), (1.0, 0, 0.93, 0.0), (0.7, 3, 0.71, 0.02), (1e30, 1, 1.0, 0.0),
        (1e30, num_cols - 1, 1.0, 0.0), (1e30, middle, 0.613, 0.0), (1.0, 0, almost, 0.0), (1.0, 0, 1e-8, 0.0),
        (1e-4, 0, 0.93, 0.0), (2.0, 611, 0.977, 1e-3), (LARGEST, 0, 0.377, 0.0), (2e-5, 5, 0.9, 0.0),
    ]  # fmt: skip


def drawn(row, options, noise, dtype=torch.float32, offset=0):
    """(tokens, their probabilities, noise): one row, each of the options with each noise."""
    cases = [(*option, number) for option in options for number in noise]
    columns = [torch.tensor(column, device=WHERE) for column in zip(*cases, strict=True)]
    temperature, top_k, top_p, min_p, noise = (column.float() for column in columns)
    stored = torch.zeros(len(cases), len(row) + offset).to(dtype)
    stored[:, offset:] = row.to(dtype)
    logits, filters = stored.to(WHERE)[:, offset:], {"top_k": top_k.int(), "top_p": top_p, "min_p": min_p}
    tokens = ops.sample(logits, temperature, noise, **filters)
    return tokens, reference.kept_probabilities(logits, temperature, **filters), noise


def assert_right(tokens, probabilities, noise, units=1e-5):
    """Each token is kept and meets its noise within `units`."""
    upto = torch.cumsum(probabilities, dim=-1).gather(-1, tokens[:, None])[:, 0]
    own = probabilities.gather(-1, tokens[:, None])[:, 0]
    assert bool((own > 0).all()), torch.nonzero(own == 0)[:, 0].tolist()
    wrong = (noise < upto - own - units) | (noise > upto + units)
    assert not bool(wrong.any()), torch.nonzero(wrong)[:, 0].tolist()


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("num_cols", [1, 31, 32, 33, 4096])
def test_hard_rows(num_cols, kind):
    assert_right(*drawn(ROWS[kind](num_cols), filters_of(num_cols), (0.0, 0.37, 0.999)))


@pytest.mark.parametrize("kind", [kind for kind in ROWS if kind not in ("huge", "denormal", "tail")])
@pytest.mark.parametrize(
    ("num_cols", "offset", "dtype"), [(33, 0, torch.float16), (528, 2, torch.bfloat16), (4096, 0, torch.bfloat16)]
)
def test_hard_rows_of_16_bits(num_cols, offset, dtype, kind):
    assert_right(*drawn(ROWS[kind](num_cols), filters_of(num_cols), (0.2, 0.9), dtype, offset))


@pytest.mark.parametrize("kind", ["equal", "two_values", "normal", "tail", "falling", "masked"])
def test_rows_of_which_no_thread_holds_all(kind):
    """32 logits of a thread where its column holds 22: the interval has to shrink first, or ends at a single value."""
    options = [(1.0, 0, 0.93, 0.0), (1e30, 9000, 1.0, 0.0), (30.0, 12000, 0.7, 0.0), (1e30, 50, 0.7, 0.0)]
    assert_right(*drawn(ROWS[kind](16384), options, (0.31, 0.94)))


def test_a_row_of_a_whole_vocabulary():
    options = [(1.0, 0, 0.9, 0.0), (1.0, 50, 0.9, 0.0), (1.0, 0, 1.0, 0.0)]
    assert_right(*drawn(normal(128256), options, (0.6,)))
    assert_right(*drawn(normal(128256), options[:2], (0.6,), torch.bfloat16))
    assert_right(*drawn(normal(131073), options[2:], (0.3, 0.8), torch.float16))  # warps divide the row three times


def test_every_kept_token_is_drawn_and_no_other():
    """Noise at the middle of each token that float64 keeps: the set is exact, in equal weights and in uneven ones."""
    for temperature, top_k, top_p in ((1e30, 37, 1.0), (1e30, 37, 0.683), (2.0, 0, 0.871), (1e30, 91, 1.0)):
        row = normal(200)
        probabilities = reference.kept_probabilities(
            row[None], torch.tensor([temperature]), top_k=torch.tensor([top_k]), top_p=torch.tensor([top_p])
        )[0]
        kept = torch.nonzero(probabilities)[:, 0]
        noise = (torch.cumsum(probabilities, -1) - probabilities / 2)[kept].tolist()
        tokens, _, _ = drawn(row, [(temperature, top_k, top_p, 0.0)], noise)
        assert tokens.tolist() == kept.tolist()


@pytest.mark.skipif(has_gpu(), reason="the SIMT machine counts the bytes")
def test_how_often_a_row_is_read():
    """Once without filters; with top-k 50 a second time for the few in question, a third for their sums."""
    num_cols = 16384
    row, numbers = 4 * num_cols, 512 * 4 * 5
    logits, one = normal(num_cols)[None], torch.ones(1)
    top_k, top_p = torch.tensor([50], dtype=torch.int32), 0.9 * one
    part = row // 16  # walked again, up to the token
    for filters, passes in (
        ({}, 1), ({"min_p": 0.1 * one}, 2), ({"top_k": top_k}, 3), ({"top_k": top_k, "top_p": top_p}, 3),
        ({"top_p": 0.2 * one}, 3), ({"top_p": top_p}, 4),
    ):  # fmt: skip
        read, _ = ops.plan(logits, one, 0.5 * one, **filters).traffic()
        assert passes * row <= read <= passes * row + 2 * part + numbers, (filters.keys(), read / row)


@pytest.mark.skipif(has_gpu(), reason="the SIMT machine counts the bytes")
def test_a_tail_over_60_powers_of_ten_takes_few_passes():
    """Even steps of value alone would take 50."""
    logits, top_k = 10.0 ** torch.linspace(-30.0, 30.0, 16384)[None], torch.tensor([9000], dtype=torch.int32)
    one = torch.ones(1)
    read, _ = ops.plan(logits, 1e30 * one, 0.5 * one, top_k=top_k).traffic()
    assert read < 16 * 4 * 16384

"""Sampling without a sort: exact cases, ties, every filter against float64, rows of their own, no finding."""

import math

import pytest
import torch

from course_lib.device import has_gpu
from course_lib.errors import ShapeError
from course_lib.ops import sampling as ops
from course_lib.reference import sampling as reference

WHERE = "cuda" if has_gpu() else "cpu"  # these tests also run on a GPU
FOUR = (0.5, 0.3, 0.15, 0.05)


def numbers(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype, device=WHERE)


def support(probs, *, draws=41, temperature=1.0, order=None, **filters):
    """The tokens that come out of one row for evenly spread noise, with how often, in one launch."""
    logits = torch.tensor(probs, device=WHERE).log().expand(draws, -1)
    noise = (torch.arange(draws, device=WHERE) + 0.5) / draws
    kinds = {name: torch.int32 if name == "top_k" else torch.float32 for name in filters}
    spread = {name: numbers(*[value] * draws, dtype=kinds[name]) for name, value in filters.items()}
    tokens = ops.sample(logits, numbers(*[temperature] * draws), noise, **spread)
    return {token: count for token, count in enumerate(torch.bincount(tokens).tolist()) if count}


@pytest.mark.parametrize(
    ("top_p", "kept"), [(0.6, 2), (0.85, 3), (0.5, 1), (1.0, 4), (1e-9, 1), (0.8, 2), (0.0, 1), (0.96, 4)]
)
def test_the_token_that_crosses_top_p_is_kept(top_p, kept):
    for order in ((0, 1, 2, 3), (3, 1, 0, 2)):
        found = support([FOUR[i] for i in order], draws=200, top_p=top_p)
        total = sum(FOUR[:kept])
        assert set(found) == {place for place, i in enumerate(order) if i < kept}
        for place, count in found.items():
            assert abs(count - 200 * FOUR[order[place]] / total) <= 1  # renormalised


def test_top_k_min_p_and_their_order():
    assert set(support(FOUR, top_k=1)) == {0}
    assert set(support(FOUR, top_k=3)) == {0, 1, 2}
    assert set(support(FOUR, top_k=0)) == set(support(FOUR, top_k=9)) == {0, 1, 2, 3}
    assert set(support(FOUR, min_p=0.31)) == {0, 1}
    assert set(support(FOUR, min_p=1.0)) == set(support(FOUR, min_p=7.0)) == {0}
    assert set(support(FOUR, top_k=2, top_p=0.62)) == {0}  # 0.5 of 0.8 is 0.625; of all it would not be enough
    assert set(support(FOUR, top_p=0.9, temperature=0.1)) == {0}  # the temperature comes before the filters


def test_ties_stay_together_and_greedy_takes_the_first():
    tied = (0.1, 0.3, 0.3, 0.3)
    assert set(support(tied, top_k=2)) == set(support(tied, top_p=0.5)) == {1, 2, 3}
    assert support(tied, temperature=0.0) == support(tied, temperature=1e-6) == {1: 41}
    assert support((0.2,) * 5, temperature=0.0, top_k=3, top_p=0.1) == {0: 41}
    assert support((1.0,), top_p=0.3) == {0: 41}
    signed = torch.tensor([[-0.0, 0.0, -1.0]], device=WHERE)  # equal, though their bits are not
    assert ops.sample(signed, numbers(1.0), numbers(0.9), top_k=numbers(1, dtype=torch.int32)).item() == 1


def mixed(num_rows, num_cols, dtype, stride=None):
    """Rows of their own temperature and filters, some off, and noise."""
    generator = torch.Generator().manual_seed(num_cols)
    logits = (4.0 * torch.randn(num_rows, stride or num_cols, generator=generator)).to(dtype)[:, :num_cols]
    logits[num_rows // 2, num_cols // 2 + 1 :] = -math.inf
    chance = torch.rand(5, num_rows, generator=generator)
    row = torch.arange(num_rows)
    filters = {
        "top_k": torch.where(row % 3 == 0, (chance[0] * min(80, num_cols)).int(), 0).int(),
        "top_p": torch.where(row % 4 < 2, chance[1], 1.0),
        "min_p": torch.where(row % 5 == 0, chance[2] / 5, 0.0),
    }
    temperature = torch.where(row % 7 == 6, 0.0, 0.3 + chance[3])
    return [each.to(WHERE) for each in (logits, temperature, chance[4])], {k: v.to(WHERE) for k, v in filters.items()}


def assert_right(tokens, probabilities, noise, units=1e-5):
    """The token is the one at the noise, or a neighbour of it whose border the noise meets within `units`."""
    upto = torch.cumsum(probabilities, dim=-1).gather(-1, tokens[:, None])[:, 0]
    own = probabilities.gather(-1, tokens[:, None])[:, 0]
    assert bool((own > 0).all()), f"rows {torch.nonzero(own == 0)[:, 0].tolist()} gave a token that is not kept"
    below, above = noise.double() - (upto - own), upto - noise.double()
    assert bool(((below >= -units) & (above >= -units)).all()), (below.min(), above.min())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("num_cols", [1, 7, 33, 1000, 8200])
def test_rows_with_filters_of_their_own(num_cols, dtype):
    (logits, temperature, noise), filters = mixed(12, num_cols, dtype, stride=num_cols + 8)
    probabilities = reference.kept_probabilities(logits, temperature, **filters)
    out = torch.full((12,), -7, device=WHERE)
    assert ops.sample(logits, temperature, noise, out=out, **filters) is out
    assert_right(out, probabilities, noise)
    assert_right(reference.sample(probabilities, noise), probabilities, noise)


def test_a_row_depends_on_its_own_noise_alone():
    (logits, temperature, noise), filters = mixed(9, 1000, torch.bfloat16)
    together = ops.sample(logits, temperature, noise, **filters)
    for row in range(9):
        one = slice(row, row + 1)
        alone = ops.sample(
            logits[one], temperature[one], noise[one], **{name: each[one] for name, each in filters.items()}
        )
        assert alone == together[row]
    extremes = ops.sample(logits, temperature.clamp(0.5), torch.full_like(noise, 1 - 2**-24))
    assert_right(extremes, reference.kept_probabilities(logits, temperature.clamp(0.5)), noise * 0 + 1, units=1e-4)


def test_drawn_as_often_as_probable():
    """Chi-square over 4,000 draws of seven tokens: 22.5 is passed once in a thousand times, and the seed is fixed."""
    logits = 2.0 * torch.randn(7, generator=torch.Generator().manual_seed(0)).to(WHERE)
    noise = torch.rand(4000, generator=torch.Generator().manual_seed(1)).to(WHERE)
    tokens = ops.sample(logits.expand(4000, 7), torch.ones(4000, device=WHERE), noise)
    want = 4000 * torch.softmax(logits.double(), dim=-1)
    assert ((torch.bincount(tokens, minlength=7) - want) ** 2 / want).sum() < 22.5


def test_without_a_temperature_every_row_is_greedy():
    (logits, _, _), _ = mixed(5, 1000, torch.bfloat16)
    out = torch.full((5,), -7, device=WHERE)
    assert ops.sample(logits, out=out) is out and out.equal(logits.argmax(-1))


@pytest.mark.parametrize("draws", [True, False])
def test_a_row_is_counted_and_kept_with_its_token(draws):
    (logits, temperature, noise), filters = mixed(3, 33, torch.float32)
    counts = torch.zeros(18, dtype=torch.int32, device=WHERE)
    narrow, wide = counts[:6].view(2, 3), counts[6:].view(torch.int64).view(2, 3)
    narrow.copy_(torch.tensor([[7, 8, 9], [0, -1, 5]]))
    wide.copy_(torch.tensor([[2**32 - 1, 2**40, 3], [-1, 2, 0]]))
    before = narrow.clone(), wide.clone()
    history = torch.full((4, 3), -7, device=WHERE)
    chance = {"temperature": temperature, "noise": noise, **filters} if draws else {}
    tokens = ops.sample(logits, counts=counts, history=history, **chance)
    assert tokens.equal(ops.sample(logits, **chance))
    assert narrow.equal(before[0] + 1) and wide.equal(before[1] + 1)
    want = torch.full_like(history, -7)
    for row, step in enumerate((0, 3, 1)):
        want[step, row] = tokens[row]
    assert history.equal(want)


def test_without_filters_a_row_is_read_once():
    """And once more in one warp's part, up to the token."""
    logits = torch.randn(2, 4096).half()
    row = 2 * 4096
    greedy = ops.plan(logits, torch.zeros(2), torch.zeros(2)).traffic()
    numbers_read = 2 * 4 * 512  # each thread of 512 chunks reads the temperature
    assert greedy == (2 * row + numbers_read, 2 * 8)
    assert ops.plan(logits).traffic() == (2 * row, 2 * 8)
    counts, history = torch.zeros(12, dtype=torch.int32), torch.zeros(2, 2, dtype=torch.int64)
    counted = 2 * 2 * (4 + 8)  # of each row two numbers of each size, and the last once more
    both = ops.plan(logits, counts=counts, history=history).traffic()
    assert both == (2 * row + counted + 2 * 8, 2 * 8 + counted + 2 * 8)
    read, _ = ops.plan(logits, torch.ones(2), torch.full((2,), 0.999)).traffic()
    assert 2 * row < read <= 2 * row + 2 * row // 16 + 3 * numbers_read


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random", "resident"])
def test_no_finding(schedule):
    for num_cols, dtype in ((33, torch.float32), (700, torch.bfloat16), (2050, torch.float16)):
        (logits, temperature, noise), filters = mixed(4, num_cols, dtype)
        report = ops.plan(logits, temperature, noise, **filters).profile(schedule)
        assert report.ok, report


def test_what_does_not_fit_is_refused_in_words():
    (logits, temperature, noise), filters = mixed(3, 8, torch.float32)
    counts = torch.zeros(18, dtype=torch.int32, device=WHERE)
    history = torch.zeros(1, 3, dtype=torch.int64, device=WHERE)
    for wrong, sentence in (
        (lambda: ops.sample(logits[0], temperature, noise), r"expected \(num_rows, num_cols\)"),
        (lambda: ops.sample(logits, temperature[:2], noise), r"temperature is torch.float32 \(2,\)"),
        (lambda: ops.sample(logits, temperature, noise.double()), "noise is torch.float64"),
        (lambda: ops.sample(logits, temperature, noise, top_k=filters["top_k"].long()), "torch.int32"),
        (lambda: ops.sample(logits.long(), temperature, noise), "float32, float16 or bfloat16"),
        (lambda: ops.sample(logits, temperature), "temperature and noise belong together"),
        (lambda: ops.sample(logits, counts=counts), "counts and history; one of them is None"),
        (lambda: ops.sample(logits, counts=counts, history=history[:, :2]), "history is .* expected 18 numbers"),
        (lambda: ops.sample(logits, counts=counts[:12], history=history), "counts are 12 numbers"),
        (lambda: ops.sample(logits, counts=counts.long(), history=history), "counts"),
    ):
        with pytest.raises(ShapeError, match=sentence):
            wrong()
    if WHERE == "cpu":
        with pytest.raises(ShapeError, match="expected 0 to below 1"):
            ops.sample(logits, temperature, noise + 1.0)
        with pytest.raises(ShapeError, match="no row of a history of 1"):
            ops.sample(logits, counts=counts, history=history)
        with pytest.raises(ShapeError, match="at least 0"):
            ops.sample(logits, temperature - 5.0, noise)
        with pytest.raises(ShapeError, match="no token to take"):
            ops.sample(logits * math.nan, temperature, noise)

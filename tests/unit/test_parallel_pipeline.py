"""The pipeline's timetable, its bubble and its memory; a real training step against one rank; bytes."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.errors import WorldError
from course_lib.parallel import pipeline as pp
from course_lib.parallel import run

HIDDEN, MICRO = 4, 3


def orders(order, num_stages, num_micro):
    return [order(stage, num_stages, num_micro) for stage in range(num_stages)]


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.integers(1, 9), st.integers(1, 3), st.integers(1, 3))
def test_both_orders_have_the_bubble_of_the_formula(num_stages, num_micro, forward, backward):
    for order in (pp.order_1f1b, pp.order_gpipe):
        entries = pp.timetable(orders(order, num_stages, num_micro), forward, backward)
        assert max(e.end for e in entries) == (num_micro + num_stages - 1) * (forward + backward)
        assert abs(pp.bubble(entries) - pp.bubble_formula(num_stages, num_micro)) < 1e-12
        ends = {(e.stage, e.kind, e.micro): e.end for e in entries}
        for e in entries:
            needed = (
                [(e.stage - 1, "F", e.micro)]
                if e.kind == "F"
                else [(e.stage, "F", e.micro), (e.stage + 1, "B", e.micro)]
            )
            assert all(ends[n] <= e.begin for n in needed if n in ends), "it ran before its inputs were there"
        for stage in range(num_stages):
            times = sorted((e.begin, e.end) for e in entries if e.stage == stage)
            assert all(a[1] <= b[0] for a, b in zip(times, times[1:], strict=False)), "two at once on one stage"
            assert len(times) == 2 * num_micro


@pytest.mark.parametrize("num_stages, num_micro", [(4, 8), (4, 2), (1, 3), (3, 3)])
def test_one_in_turn_holds_fewer_micro_batches(num_stages, num_micro):
    held = [pp.most_held(order) for order in orders(pp.order_1f1b, num_stages, num_micro)]
    assert held == [min(num_stages - stage, num_micro) for stage in range(num_stages)]
    assert all(pp.most_held(order) == num_micro for order in orders(pp.order_gpipe, num_stages, num_micro))


def test_orders_that_wait_for_each_other_are_refused():
    with pytest.raises(WorldError, match="no stage can go on: stage 0 for the inputs of B0, stage 1 for .* F0"):
        pp.timetable([[("B", 0), ("F", 0)], [("F", 0), ("B", 0)]])


def whole_model(num_stages):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(HIDDEN, HIDDEN, generator=generator, dtype=torch.float64) for _ in range(num_stages)]


def inputs(num_micro):
    generator = torch.Generator().manual_seed(2)
    return [torch.randn(MICRO, HIDDEN, generator=generator, dtype=torch.float64) for _ in range(num_micro)]


@pytest.mark.parametrize("order", [pp.order_1f1b, pp.order_gpipe])
@pytest.mark.parametrize("num_stages, num_micro", [(1, 3), (2, 4), (4, 6), (4, 2)])
def test_a_training_step_equals_one_rank(num_stages, num_micro, order):
    batches = inputs(num_micro)

    def loss_of(y, micro):
        return (y * (micro + 1)).square().mean()

    def function(world):
        weight = whole_model(num_stages)[world.rank].requires_grad_()
        stage = lambda x: torch.tanh(F.linear(x, weight))  # noqa: E731
        options = {"order": order, "dtype": torch.float64}
        loss = pp.train_step(world, stage, batches, loss_of, (MICRO, HIDDEN), **options)
        return loss, weight.grad

    outcome = run(function, num_stages)
    weights = [weight.requires_grad_() for weight in whole_model(num_stages)]
    loss = 0.0
    for micro, x in enumerate(batches):
        for weight in weights:
            x = torch.tanh(F.linear(x, weight))
        loss = loss + loss_of(x, micro) / num_micro
    loss.backward()
    assert outcome.results[-1][0] == pytest.approx(loss.item(), rel=1e-12)
    for (_, found), weight in zip(outcome.results, weights, strict=True):
        torch.testing.assert_close(found, weight.grad, rtol=1e-12, atol=1e-12)
    for rank in range(num_stages):
        assert outcome.sent(rank) == pp.step_bytes(rank, num_stages, num_micro, MICRO * HIDDEN * 8)
        labels = [e.label for e in outcome.events if e.rank == rank and e.kind == "compute"]
        assert labels == [f"{kind}{micro}" for kind, micro in order(rank, num_stages, num_micro)]

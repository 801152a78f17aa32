"""What the tests of decode on every engine ask of a launch's outputs."""

import math

import torch


def refill(launch):
    """Fill outputs and float scratch with NaN: they may hold anything before a launch."""
    arguments = [x for part in getattr(launch, "launches", (launch,)) for x in part.arguments]
    scratch = [x for x in arguments if getattr(x, "dtype", None) == torch.float32]
    for tensor in (*launch.outputs, *scratch):
        tensor.fill_(math.nan)


def require_near(out, lse, right, right_lse, limit):
    """Assert that out is within `limit` of the largest right number, at least 1, and lse within 1e-4."""
    assert (out.double() - right).abs().max() <= limit * max(1.0, right.abs().max().item())
    assert torch.equal(lse.isneginf(), right_lse.isneginf())
    assert torch.all((lse - right_lse)[right_lse.isfinite()].abs() <= 1e-4)

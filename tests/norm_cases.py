"""Rows to normalise, which the tests of the launchers and those of the GPU share."""

import torch

ROUNDING = {torch.float32: 2.0**-23, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


def rows(num_rows, num_cols, dtype=torch.float32, *, seed=0, mean=0.0, device="cpu", stride=None):
    """(num_rows, num_cols) around `mean`, rows `stride` apart."""
    generator = torch.Generator().manual_seed(seed)
    wide = mean + torch.randn(num_rows, stride or num_cols, generator=generator)
    return wide.to(dtype).to(device)[:, :num_cols]


def vector(num_cols, dtype=torch.float32, *, seed=9, device="cpu"):
    """A weight or a bias."""
    return (1.0 + 0.5 * torch.randn(num_cols, generator=torch.Generator().manual_seed(seed))).to(dtype).to(device)


def assert_near(got, want, dtype, *, units=1.0, terms=1.0):
    """`got` differs from the float64 `want` by a rounding of its dtype and a few of float32, of the largest.

    terms : float or tensor, the largest of what cancels or is exponentiated on the way: its roundings are in the result
    """
    assert got.dtype == dtype and got.shape == want.shape
    largest = max(1.0, want.abs().max().item())
    limit = units * ROUNDING[dtype] * largest + 8 * ROUNDING[torch.float32] * max(largest, float(terms))
    error = (got.double() - want).abs().max().item()
    assert error <= limit, f"wrong by {error:.2e}, limit {limit:.2e}"

"""What the tests of the matrix product share: random operands."""

import torch


def operands(size_m, size_n, size_k, dtype=torch.float16):
    """(a, b): (size_m, size_k) and (size_k, size_n), normal numbers rounded to `dtype`, of one seed for each shape."""
    generator = torch.Generator().manual_seed(size_m + size_n)
    a = torch.randn(size_m, size_k, generator=generator).to(dtype)
    return a, torch.randn(size_k, size_n, generator=generator).to(dtype)

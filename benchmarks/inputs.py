"""Inputs of small launches, and a launch that needs no launcher: what launches.py and counter_cases.py share.

May import: torch; course_lib inside functions.
"""

import torch


def random(device, *shape, dtype=torch.float32, seed=0):
    """N(0, 1), the same numbers on every device."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype).to(device)


def heads(device, dtype=torch.float32, seq_len_q=37, seq_len_kv=53, head_dim=64, num_heads=4, num_kv_heads=2):
    """q, k, v of a ragged attention with grouped heads."""
    return (
        random(device, 1, num_heads, seq_len_q, head_dim, dtype=dtype),
        random(device, 1, num_kv_heads, seq_len_kv, head_dim, dtype=dtype, seed=1),
        random(device, 1, num_kv_heads, seq_len_kv, head_dim, dtype=dtype, seed=2),
    )


def direct(device, path, kernel, grid, block, make, defines=None):
    """A launch that no launcher of course_lib.ops makes: `make()` gives the arguments, tensors on the CPU."""
    from course_lib import cuda
    from course_lib.ops._foundation.launch import Launch

    arguments = tuple(item.to(device) if isinstance(item, torch.Tensor) else item for item in make())
    tensors = tuple(item for item in arguments if isinstance(item, torch.Tensor))
    return Launch("cuda", cuda.load(path, kernel, defines=defines or {}), grid, block, arguments, {}, tensors)

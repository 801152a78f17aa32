"""Inputs of small launches, and a launch for kernels that have no launcher.

May import: ops._foundation, torch.
"""

import torch

from .._foundation.launch import cuda_launch


def random(device, *shape, dtype=torch.float32, seed=0):
    """N(0, 1), the same numbers on every device."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), device="cpu").to(dtype).to(device)


def heads(device, dtype=torch.float32, seq_len_q=37, seq_len_kv=53, head_dim=64, num_heads=4, num_kv_heads=2):
    """q, k, v of a ragged attention with grouped heads."""
    return (
        random(device, 1, num_heads, seq_len_q, head_dim, dtype=dtype),
        random(device, 1, num_kv_heads, seq_len_kv, head_dim, dtype=dtype, seed=1),
        random(device, 1, num_kv_heads, seq_len_kv, head_dim, dtype=dtype, seed=2),
    )


def direct(device, stem, grid, block, make, defines=None, kernel=None):
    """A launch that no launcher makes: `make()` gives the arguments, tensors on the CPU; all of them are outputs."""
    arguments = tuple(item.to(device) if isinstance(item, torch.Tensor) else item for item in make())
    tensors = tuple(item for item in arguments if isinstance(item, torch.Tensor))
    return cuda_launch(stem, grid, block, arguments, tensors, kernel=kernel, defines=defines)


def paged_cache(device, seq_lens=(0, 17, 40), page_size=3, head_dim=64, num_heads=4, dtype=torch.float16):
    """(q, k_pages, v_pages, block_table, seq_lens): two heads of keys; pages in no order, unused slots NaN."""
    needed = [-(-length // page_size) for length in seq_lens]
    order = torch.randperm(sum(needed) + 2, generator=torch.Generator().manual_seed(0), device="cpu").to(torch.int32)
    table = torch.full((len(seq_lens), max(needed) + 1), -1, dtype=torch.int32)
    pools = [random("cpu", len(order), page_size, 2, head_dim, dtype=dtype, seed=seed) for seed in (1, 2)]
    for b, pages in enumerate(order[: sum(needed)].split(needed)):
        table[b, : len(pages)] = pages
        for pool in pools if len(pages) else ():
            pool[pages[-1], (seq_lens[b] - 1) % page_size + 1 :] = torch.nan
    for pool in pools:
        pool[order[sum(needed) :].long()] = torch.nan
    q = random("cpu", len(seq_lens), num_heads, head_dim, dtype=dtype)
    lengths = torch.tensor(seq_lens, dtype=torch.int32)
    return tuple(x.to(device) for x in (q, *pools, table, lengths))


def byte_pools(device, k_pages):
    """([k_pages, v_pages], [k_scales, v_scales]) in int8 for a pool of `paged_cache`; unused scales are NaN."""
    shape, generator = k_pages.shape, torch.Generator().manual_seed(6)
    pools = [
        torch.randint(-127, 128, shape, generator=generator, device="cpu").to(torch.int8).to(device) for _ in range(2)
    ]
    used = k_pages[..., 0].isfinite()
    return pools, [(random(device, *shape[:3], seed=seed).abs() / 50).where(used, torch.nan) for seed in (7, 8)]

"""Cases and runs of FlashAttention-2's order: a program for each tile of queries, no state in global memory.

May import: protocol, flash_attention.cases.
"""

from ...processes.protocol import Ref, Run
from ..flash_attention import cases as cases
from ..flash_attention.cases import BLOCK_M, BLOCK_N, itemsize


def forward_run(case, tensors, *, flags=(), block_m=BLOCK_M, constants=None, **extra):
    """(q, k, v, out, lse, num_q_per_kv, seq_len_q, seq_len_kv, softmax_scale, *flags), grid (tiles of Q, H, B)."""
    batch_size, num_heads, num_kv_heads, num_q, num_kv, head_dim = case.sizes.values()
    rows = (batch_size, num_heads, num_q)
    outputs = {"out": ((*rows, head_dim), case.dtype), "lse": (rows, "float32")}
    arguments = tuple(Ref(name) for name in ("q", "k", "v", *outputs))
    arguments += (num_heads // num_kv_heads, num_q, num_kv, head_dim**-0.5, *flags)
    defines = {"HEAD_DIM": head_dim, "BLOCK_M": block_m, "BLOCK_N": BLOCK_N} | (constants or {})
    grid = (-(-num_q // block_m), num_heads, batch_size)
    return Run(case.name, tensors, outputs, arguments, grid=grid, constants=defines, **extra)


def usual_bytes(case, *, block_m=BLOCK_M, keys_read=None):
    """Bytes of this order: q, out and lse once, `keys_read` keys and values (all, without) for each tile of queries."""
    batch_size, num_heads, _, num_q, num_kv, head_dim = case.sizes.values()
    keys = -(-num_q // block_m) * num_kv if keys_read is None else keys_read
    return batch_size * num_heads * ((2 * num_q + 2 * keys) * head_dim * itemsize(case) + 4 * num_q)


def half_case(name, sizes, values="normal", schedules=(), **options):
    """A case of (B, H, Hkv, Nq, Nkv, D) in half precision."""
    one = cases.heads_case(name, sizes, values, schedules, **options)
    return type(one)(one.name, one.sizes, one.values, "float16", one.options, one.schedules)

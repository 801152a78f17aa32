"""The launch of FlashAttention-3's Triton kernel: descriptors of K and V, tiles, grid.

May import: errors, ops._foundation, torch.
"""

from ...errors import UnsupportedError
from .._foundation.launch import triton_launch
from .._foundation.sizes import attention_outputs, ceil_div, power_of_two, steps_of

STEM = "flash_attention_3/03_producer_consumer"
BLOCK_M, BLOCK_N = 128, 128  # query rows: two warpgroups of 64, the only number that the compiler makes; keys
NUM_WARPS, NUM_STAGES = 4, 2  # of the warpgroup that loads; tiles of K and of V in flight


def plan_warp_specialised(q, k, v, *, causal, softmax_scale_log2, block_n=None):
    """The launch of 03_producer_consumer's twin; outputs (out, lse).

    Parameters
    ----------
    q, k, v : tensors as `plan` checks them
    softmax_scale_log2 : float above 0
    block_n : int or None; keys of a tile, a power of two, at least 16
    """
    from triton.tools.tensor_descriptor import TensorDescriptor

    block_n = block_n or BLOCK_N
    if power_of_two(block_n) != block_n:
        raise UnsupportedError(f"block_n={block_n}; a tile of the Triton kernel has a power of two keys, at least 16.")
    batch_size, num_heads, seq_len_q, head_dim = q.shape
    out, lse = attention_outputs(q)
    k_desc, v_desc = (
        TensorDescriptor(x, list(x.shape), [*steps_of(x, single=head_dim), 1], [1, 1, block_n, head_dim])
        for x in (k, v)
    )
    sizes = (num_heads, num_heads // k.shape[1], seq_len_q, k.shape[2], *steps_of(q, single=head_dim))
    constants = {
        "HEAD_DIM": head_dim, "BLOCK_M": BLOCK_M, "BLOCK_N": block_n, "num_warps": NUM_WARPS, "num_stages": NUM_STAGES,
    }  # fmt: skip
    grid = (batch_size * num_heads * ceil_div(seq_len_q, BLOCK_M),)
    arguments = (q, k_desc, v_desc, out, lse, *sizes, softmax_scale_log2, int(causal))
    return triton_launch(STEM, grid, arguments, constants, (out, lse), scratch=True)

"""torch's fused attention as a peer: one backend, named, so that no other one is taken.

    from benchmarks.harness.sdpa import BACKENDS, sdpa

May import: torch.
"""

import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = {"sdpa_flash": SDPBackend.FLASH_ATTENTION, "sdpa_cudnn": SDPBackend.CUDNN_ATTENTION}


def sdpa(backend, causal=False):
    """function(q, k, v) -> out: scaled_dot_product_attention with this backend and no other.

    causal is bottom-right aligned, as in the course; torch's own flag is so only where both lengths are the same.
    """

    def run(q, k, v):
        lengths, grouped = (q.shape[-2], k.shape[-2]), q.shape[1] != k.shape[1]
        mask = _lower_right(*lengths) if causal and lengths[0] != lengths[1] else None
        flags = {"is_causal": bool(causal) and mask is None, "enable_gqa": grouped}
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, **flags)

    return run


def _lower_right(seq_len_q, seq_len_kv):
    from torch.nn.attention.bias import causal_lower_right  # imports triton, which only course_lib may do first

    return causal_lower_right(seq_len_q, seq_len_kv)

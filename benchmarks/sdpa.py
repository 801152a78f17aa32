"""torch's fused attention as a peer: one backend, named, so that no other one is taken.

    from sdpa import BACKENDS, sdpa

May import: torch.
"""

import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = {"sdpa_flash": SDPBackend.FLASH_ATTENTION, "sdpa_cudnn": SDPBackend.CUDNN_ATTENTION}


def sdpa(backend, causal=False):
    """function(q, k, v) -> out: scaled_dot_product_attention with this backend and no other."""

    def run(q, k, v):
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return run

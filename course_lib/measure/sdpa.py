"""The kernels that torch's scaled_dot_product_attention can run here, backend by backend.

May import: dispatch, tables; torch inside functions.
"""

from .tables import Table

_NAMES = ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH")


def sdpa_backends(q, k, v, *, is_causal=False):
    """A Table of the backend asked for, the operators that ran, and the largest difference to float64.

    Parameters
    ----------
    q, k, v : tensors, (batch_size, num_heads, seq_len, head_dim), on the CPU or the GPU

    A row says so where a backend cannot run these inputs here. "none named" is torch's own choice.
    """
    import warnings

    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    from .dispatch import OperatorNames

    want = scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=is_causal)
    rows = []
    for name in ("none named", *_NAMES):
        backends = [getattr(SDPBackend, name)] if name in _NAMES else list(map(SDPBackend.__members__.get, _NAMES))
        try:
            with sdpa_kernel(backends), warnings.catch_warnings(), OperatorNames() as ran:
                warnings.simplefilter("ignore")  # torch warns once for each reason; the table has the outcome
                out = scaled_dot_product_attention(q, k, v, is_causal=is_causal)
        except RuntimeError:  # "No viable backend": the kernel does not exist here, or not for this dtype or shape
            rows.append((name, "not available for these tensors here", None))
            continue
        rows.append((name, _summary(ran.names), (out.double() - want).abs().max().item()))
    torch.cuda.synchronize() if q.is_cuda else None
    return Table(("backend asked for", "operators that ran", "largest error"), tuple(rows))


def _summary(names):
    """One fused operator, or how many single ones."""
    fused = [name for name in names if "attention" in name and not name.endswith("_math")]
    return fused[0] if fused else f"{len(names)} single operators: {', '.join(dict.fromkeys(names))}"

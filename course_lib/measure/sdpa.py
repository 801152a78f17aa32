"""Which fused kernel torch's scaled_dot_product_attention takes here: every backend asked by name.

May import: torch, tables.
"""

from .tables import Table

_NAMES = ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH")


def sdpa_backends(q, k, v, *, is_causal=False):
    """A Table: backend asked for, the operators of torch that ran, largest difference to float64.

    Parameters
    ----------
    q, k, v : tensors, (batch_size, num_heads, seq_len, head_dim), on the CPU or the GPU

    A backend that cannot run these inputs here gets the reason instead. "none named" is torch's own choice.
    """
    import warnings

    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    want = scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=is_causal)
    rows = []
    for name in ("none named", *_NAMES):
        backends = [getattr(SDPBackend, name)] if name in _NAMES else list(map(SDPBackend.__members__.get, _NAMES))
        try:
            with sdpa_kernel(backends), warnings.catch_warnings(), _Names() as ran:
                warnings.simplefilter("ignore")  # torch warns once for each reason; the table says the outcome
                out = scaled_dot_product_attention(q, k, v, is_causal=is_causal)
        except RuntimeError:  # "No viable backend": the kernel does not exist here, or not for this dtype or shape
            rows.append((name, "not available for these tensors here", None))
            continue
        rows.append((name, _said(ran.names), (out.double() - want).abs().max().item()))
    torch.cuda.synchronize() if q.is_cuda else None
    return Table(("backend asked for", "operators that ran", "largest error"), tuple(rows))


def _said(names):
    """One fused operator, or how many single ones."""
    fused = [name for name in names if "attention" in name and not name.endswith("_math")]
    return fused[0] if fused else f"{len(names)} single operators: {', '.join(dict.fromkeys(names))}"


def _Names():
    """A mode that writes down the operators of torch that run inside it."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Names(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.names = []

        @classmethod
        def _should_skip_dynamo(cls):
            return False  # else the first operator imports torch.compile's machinery, which takes more than a second

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.names.append(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {}))

    return Names()

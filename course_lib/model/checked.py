"""Arguments of the model's public functions, checked once where they come in.

May import: errors, expect, torch.
"""

import torch

from .. import expect
from ..errors import ModelError, UnsupportedError

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
SEED_BITS = 63  # of a torch.Generator


def checked_dtype(dtype):
    """The dtype of a model or its cache."""
    if not isinstance(dtype, torch.dtype) or dtype not in FLOATS:
        raise UnsupportedError(f"dtype is {dtype!r:.60}; a model runs in float32, float16, bfloat16 or float64.")
    return dtype


def checked_device(device):
    """A torch.device that this machine has; None: torch's default."""
    if device is None:
        return torch.get_default_device()
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        found = None
    if found is None or found.type not in ("cpu", "cuda"):
        raise UnsupportedError(f"device is {device!r:.60}; a model runs on 'cpu' or on 'cuda'.")
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise UnsupportedError(f"device is {device!r:.60}; this machine has {torch.cuda.device_count()} CUDA devices.")
    return found


def require_tensor(name, x, ndim, dtypes, what):
    """A tensor in plain memory; `what` says its shape in words."""
    if not isinstance(x, torch.Tensor):
        raise ModelError(f"{name} is {expect.shown(x)}; expected {what}: torch.tensor makes one of lists.")
    if x.device.type not in ("cpu", "cuda") or x.layout != torch.strided:
        raise ModelError(f"{name} lies on {x.device} with the layout {x.layout}; expected plain memory of CPU or CUDA.")
    if x.ndim != ndim or x.dtype not in dtypes:
        raise ModelError(f"{name} are {x.dtype} {tuple(x.shape)}; expected {what}.")


def require_tokens(low, high, vocab_size):
    """Raise where tokens from `low` to `high` are none of the vocabulary."""
    if low < 0 or high >= vocab_size:
        wrong = low if low < 0 else high
        raise ModelError(
            f"token {expect.shown(wrong)} is out of range; the vocabulary has the tokens 0 to {vocab_size - 1}."
        )

"""Device buffers that stay where they are as long as they are large enough, so that captured launches read new plans.

May import: errors, torch.
"""

import torch

from ...errors import ShapeError, UnsupportedError


class Buffers:
    """Flat buffers by name on one device; a new one is zero."""

    def __init__(self, device):
        self.device, self._tensors = device, {}

    def named(self, names):
        """The buffers of these names; None for one that was never asked for."""
        return [self._tensors.get(name) for name in names]

    def fill(self, name, values):
        """Copy int32 `values` to the front of a buffer."""
        self.grow(name, values.numel(), torch.int32)
        self._tensors[name][: values.numel()].copy_(values, non_blocking=True)

    def grow(self, name, size, dtype):
        """Make sure that a buffer has `size` elements; one that is too small is replaced by one a quarter larger.

        Raises
        ------
        UnsupportedError  during a capture: its launches would read the old buffer
        """
        buffer = self._tensors.get(name)
        if buffer is not None and buffer.numel() >= size:
            return
        if self.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            raise UnsupportedError(f"{name} must grow to {size} during a capture; plan the largest batch before it.")
        self._tensors[name] = torch.zeros(max(size * 5 // 4, 1), dtype=dtype, device=self.device)


def packed_masks(masks, cu_seqlens_q, seq_lens):
    """The masks of all requests, one after the other, 32 bits a word, and a word more: int32.

    Parameters
    ----------
    masks : list of bool tensors, (new tokens, keys) of each request

    Raises
    ------
    ShapeError  a mask of another shape, or fewer than there are requests
    """
    shapes = [(end - start, keys) for start, end, keys in zip(cu_seqlens_q, cu_seqlens_q[1:], seq_lens, strict=False)]
    came = [tuple(mask.shape) for mask in masks]
    if came != shapes:
        raise ShapeError(f"masks are {came}; the requests ask for {shapes}, (new tokens, keys).")
    bits = torch.cat([mask.reshape(-1).bool().cpu() for mask in masks])
    bits = torch.nn.functional.pad(bits, (0, 32 + -len(bits) % 32)).reshape(-1, 32).long()
    words = (bits << torch.arange(32)).sum(1)
    return torch.where(words >= 2**31, words - 2**32, words).int()

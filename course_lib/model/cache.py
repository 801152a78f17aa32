"""Keys and values of the tokens so far: contiguous, one stretch of `capacity` slots a row of the batch.

May import: errors, expect, model.checked, model.config, torch.
"""

from contextlib import contextmanager

import torch

from .. import expect
from ..errors import ModelError
from .checked import checked_device, checked_dtype
from .config import ModelConfig


class KVCache:
    """Room for `capacity` tokens of every row, in every layer.

    Attributes
    ----------
    k, v : tensors, (num_layers, batch_size * capacity + 1, num_kv_heads, head_dim); slot row * capacity + position.
        The last slot is nobody's: padding is written there by kernels that cannot skip it
    lengths : tensor, (batch_size,), int32, on the device: tokens of each row; `set_lengths` and `advance` change them
    next_lengths, next_slots : tensors, (batch_size,), int32 and int64: the lengths with one token more, and its slots
    steps : tensor, (batch_size,), int64: tokens that each row was advanced by since the lengths were set, one by one
    counts : tensor, (6 * batch_size,), int32: all of these, as `ops.sampling.sample` takes them
    longest : int, on the host: no row has more
    """

    def __init__(self, config, batch_size, capacity, *, dtype=torch.float32, device="cpu"):
        expect.kind("config", config, ModelConfig, error=ModelError)
        batch_size = expect.whole("batch_size", batch_size, 1, error=ModelError)
        capacity = expect.whole("capacity", capacity, 1, error=ModelError)
        dtype, device = checked_dtype(dtype), checked_device(device)
        shape = (config.num_layers, batch_size * capacity + 1, config.num_kv_heads, config.head_dim)
        self.batch_size, self.capacity, self.longest = batch_size, capacity, 0
        self.k, self.v = (torch.zeros(shape, dtype=dtype, device=device) for _ in range(2))
        self._bound = None
        self._first = torch.arange(batch_size, device=device)[:, None] * capacity
        # one tensor, so that a step counts all in one launch; a number of 64 bits is two words, the lower first
        self.counts = torch.zeros(6 * batch_size, dtype=torch.int32, device=device)
        self._one_more = torch.ones_like(self.counts)
        self._one_more[2 * batch_size + 1 :: 2] = 0
        self.lengths, self.next_lengths = self.counts[: 2 * batch_size].view(2, batch_size)
        self.next_slots, self.steps = self.counts[2 * batch_size :].view(torch.int64).view(2, batch_size)
        self.set_lengths(0)

    @property
    def num_bytes(self):
        return 2 * self.k.numel() * self.k.element_size()

    def require(self, num_tokens):
        """Raise where `num_tokens` more do not fit into the longest row; nothing is changed."""
        expect.whole("num_tokens", num_tokens, 0, error=ModelError)
        if self.longest + num_tokens > self.capacity:
            raise ModelError(
                f"the cache has room for {self.capacity} tokens a row, the longest has {self.longest} and {num_tokens} "
                "more are to come; make it larger or generate fewer."
            )

    def grow(self, num_tokens):
        """Count `num_tokens` more a row on the host; returns a number that no row's length exceeds then."""
        self.require(num_tokens)
        if self._bound is not None:
            return self._bound
        self.longest += num_tokens
        return self.longest

    def set_lengths(self, lengths):
        """Let the rows have so many tokens, a tensor (batch_size,) or an int; `longest` is the caller's."""
        if isinstance(lengths, torch.Tensor):
            self.lengths.copy_(lengths)
        else:
            self.lengths.fill_(lengths)
        self._count_again()
        self.steps.zero_()

    def advance(self, num_tokens):
        """Let every row have `num_tokens` more; one more is one launch."""
        if num_tokens == 1:
            self.counts.add_(self._one_more)
        else:
            self.lengths.add_(num_tokens)
            self._count_again()

    def _count_again(self):
        """What follows from the lengths."""
        torch.add(self.lengths, 1, out=self.next_lengths)
        torch.add(self._first[:, 0], self.lengths, out=self.next_slots)

    @contextmanager
    def lengths_on_device(self):
        """Within, the lengths are known to the device alone: `grow` counts nothing and returns the capacity.

        A launch recorded in a CUDA graph keeps every number that the host gave it.
        """
        self._bound = self.capacity
        try:
            yield
        finally:
            self._bound = None

    def next_positions(self, num_tokens):
        """Positions of the next tokens of every row, (batch_size, num_tokens) int32."""
        if num_tokens == 1:
            return self.lengths[:, None]
        return self.lengths[:, None] + torch.arange(num_tokens, device=self.lengths.device, dtype=torch.int32)

    def slots(self, positions, valid=None):
        """Where tokens at `positions` (batch_size, num_tokens) are kept, flat int64; -1 where `valid` is False."""
        slots = self._first + positions
        return (slots if valid is None else slots.masked_fill(~valid, -1)).flatten()

    def places(self, positions):
        """(slots, keys that each token sees) of the next tokens, as `slots` and `next_positions` have them."""
        if positions.shape[1] == 1:
            return self.next_slots, self.next_lengths[:, None]
        return self.slots(positions), positions + 1

    def rows(self, layer):
        """(k, v) of a layer as (batch_size, capacity, num_kv_heads, head_dim), views."""
        return tuple(x[layer, :-1].unflatten(0, (self.batch_size, self.capacity)) for x in (self.k, self.v))

    def truncate(self, lengths):
        """Forget what comes after `lengths`, a tensor like `lengths` or an int: the next tokens overwrite it."""
        if not isinstance(lengths, torch.Tensor):
            lengths = expect.whole("lengths", lengths, 0, error=ModelError)
            self.longest = min(self.longest, lengths)
        self.lengths.clamp_(max=lengths)
        self._count_again()

    def clear(self):
        """Forget everything."""
        self.truncate(0)

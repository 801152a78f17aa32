"""What a step sends to the device: one buffer of bytes, copied at once, whose parts are the inputs of its tokens.

May import: torch, numpy.
"""

import functools

import numpy as np
import torch

# name, dtype, what a padding row has (DUMMY: the row of the block table that no sequence has); one number a token …
DUMMY = "dummy"
TOKENS = (
    ("ids", torch.int64, 0),  # PENDING: the token that the step before chose, which the host may not know yet
    ("slots", torch.int64, -1),
    ("rows", torch.int64, DUMMY),  # of the block table
    ("places", torch.int64, DUMMY),  # in the flat block table, of the page that the token is written to
    ("positions", torch.int32, 0),
    ("seq_lens", torch.int32, 0),
    ("pages", torch.int32, 0),
)
# … and one for each token that is chosen
CHOICES = (
    ("index", torch.int64, 0),  # of the token whose logits are used
    ("targets", torch.int64, DUMMY),  # the row that keeps the token for the next step
    ("temperature", torch.float32, 0.0),
    ("top_k", torch.int32, 0),
    ("top_p", torch.float32, 1.0),
    ("min_p", torch.float32, 0.0),
    ("noise", torch.float32, 0.0),
)
OPTIONS = ("temperature", "top_k", "top_p", "min_p")
NUMPY = {torch.int64: np.int64, torch.int32: np.int32, torch.float32: np.float32}
ALIGNMENT = 16


@functools.lru_cache(1024)
def layout(num_tokens, num_choices):
    """([(name, dtype, first byte, count, what padding has)], bytes of all)."""
    parts, first = [], 0
    for fields, count in ((TOKENS, num_tokens), (CHOICES, num_choices)):
        for name, dtype, padding in fields:
            parts.append((name, dtype, first, count, padding))
            first += -(-count * dtype.itemsize // ALIGNMENT) * ALIGNMENT
    return parts, first


def views(buffer, num_tokens, num_choices):
    """name -> its part of a flat uint8 tensor."""
    parts, _ = layout(num_tokens, num_choices)
    return {name: buffer[first : first + count * dtype.itemsize].view(dtype) for name, dtype, first, count, _ in parts}


def packed(arrays, num_tokens, num_choices, dummy, pin):
    """A host tensor with all arrays, each padded to `num_tokens` or `num_choices`.

    Parameters
    ----------
    arrays : dict, name -> array, no longer than that; one that is missing is padding
    dummy : dict, name -> what padding has where it depends on the block table
    pin : bool; torch keeps pinned memory for the next step, and until the copy from it is done
    """
    parts, size = layout(num_tokens, num_choices)
    buffer = torch.empty(size, dtype=torch.uint8, pin_memory=pin)
    raw = buffer.numpy()
    for name, dtype, first, count, padding in parts:
        part, values = np.frombuffer(raw, NUMPY[dtype], count, first), arrays.get(name, ())
        part[: len(values)] = values
        if len(values) < count:
            part[len(values) :] = dummy[name] if padding is DUMMY else padding
    return buffer

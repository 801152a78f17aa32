"""The lanes of one access of an interpreted kernel: which are active, and what a suppressed read gives.

May import: numpy; triton only where it is loaded already.
"""

import sys

import numpy as np


def mask_of(mask, ptrs):
    """Return the mask as a boolean array of the pointers' shape; descriptors pass an array, pointers a handle."""
    data = mask if isinstance(mask, np.ndarray) else mask.data
    if data.__class__ is np.ndarray and data.dtype == np.bool_ and data.shape == ptrs.data.shape:
        return data
    return np.broadcast_to(np.asarray(data).astype(bool, copy=False), ptrs.data.shape)


def int1_of(ptrs):
    return sys.modules["triton.language"].int1


def poison(dtype):
    """Return the value of a suppressed read: NaN for floats, the largest number for integers; never a plausible 0."""
    return np.array(np.nan if dtype.kind == "f" else np.iinfo(dtype).max if dtype.kind in "iu" else True, dtype=dtype)

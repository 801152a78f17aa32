"""The oracle and the baseline of an exercise from one reference that computes in either dtype.

May import: torch.
"""

import torch


def in_both_dtypes(function):
    """The options of `exercise` of a reference function(case, tensors, dtype): float64 is right, float32 may differ."""
    return {
        "oracle": lambda case, tensors: function(case, tensors, torch.float64),
        "baseline": lambda case, tensors: function(case, tensors, torch.float32),
    }

"""How far a variant is from float64.

May import: torch.
"""

import torch


def largest_error(outputs, pairs, *, scale=None):
    """Largest |output - reference|; infinity when any output has an element that is not finite.

    Parameters
    ----------
    outputs : sequence of tensor, everything that the variant wrote
    pairs : iterable of (tensor, float64 tensor), the parts of the outputs that are compared and their references
    scale : function of a reference that gives the unit of its errors; None: absolute errors

    Returns
    -------
    float
    """
    if not all(bool(torch.isfinite(output).all()) for output in outputs):
        return float("inf")
    errors = [(mine.double() - right).abs().max().item() / (scale(right) if scale else 1.0) for mine, right in pairs]
    return max(errors)


def reason(error):
    """The first line of an exception, for the column `note`."""
    return f"not run: {(str(error).strip() or type(error).__name__).splitlines()[0][:120]}"

"""What is looked at first in wrong gradients, whichever they are of.

May import: diagnostics, pairs, sums.
"""

from . import diagnostics, pairs
from .sums import by_fading, by_groups


def first_looks(evidence, rounded):
    """Functions without arguments, each giving a Diagnosis or None; `rounded`: what an answer in half may round."""
    return (
        lambda: pairs.by_undefined(evidence),
        lambda: by_fading(evidence),
        lambda: by_groups(evidence),
        lambda: diagnostics.by_threshold(evidence),
        lambda: diagnostics.by_rounded_exponent(evidence),
        lambda: diagnostics.by_rounding(evidence, rounded),
        lambda: diagnostics.by_length(evidence),
        lambda: diagnostics.by_finite_infinity(evidence),
        lambda: diagnostics.by_parameters(evidence),
    )

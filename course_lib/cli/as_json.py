"""Data for `--json`. May import: nothing of the course."""

import math


def finite(value):
    """Return the data with NaN and infinities as strings: JSON has no numbers for them."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value

"""Tables of what profiled kernels load from global and from shared memory.

May import: tables, results.
"""

from .results import spoken
from .tables import Table

_COLUMNS = {  # name -> its value for a profile and the FLOP of the problem
    "bytes asked for": lambda profile, flop: profile.global_load.bytes,
    "sectors touched": lambda profile, flop: profile.global_load.sectors,
    "FLOP per byte": lambda profile, flop: flop / profile.global_load.bytes,
    "global loads": lambda profile, flop: profile.global_load.requests,
    "shared loads": lambda profile, flop: profile.shared_load.requests,
    "wavefronts": lambda profile, flop: profile.shared_load.wavefronts,
}


def load_table(profiles, flop, columns):
    """A Table with one row a variant.

    Parameters
    ----------
    profiles : dict, variant -> what ``plan.profile()`` returns
    flop : int, operations of the problem, the same for all variants
    columns : sequence of "bytes asked for", "sectors touched", "FLOP per byte", "global loads", "shared loads",
        "wavefronts"
    """
    unknown = [name for name in columns if name not in _COLUMNS]
    if unknown:
        raise ValueError(f"columns={unknown} are unknown; choose from {', '.join(_COLUMNS)}.")
    rows = tuple(
        (spoken(variant), *(_COLUMNS[name](profile, flop) for name in columns)) for variant, profile in profiles.items()
    )
    return Table(("variant", *columns), rows)

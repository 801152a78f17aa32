"""What every case file shares: the command line, the check against float64, timing in turns, and writing rows.

    from benchmarks.harness import Benchmark, Variants, launched, main

A case file says what is timed, at which sizes, and which columns it adds; the harness does the rest.
May import: the standard library, torch, and of course_lib measure, errors and cuda.steps.
"""

from .alone import alone
from .benchmark import Benchmark, main, rows_by_kind
from .checks import largest_error
from .rows import microseconds
from .turns import graphed, timed_in_turns
from .variants import Variants, in_languages, launched, rate_beside, ratio_to_best

__all__ = [
    "Benchmark",
    "Variants",
    "alone",
    "graphed",
    "in_languages",
    "largest_error",
    "launched",
    "main",
    "microseconds",
    "rate_beside",
    "ratio_to_best",
    "rows_by_kind",
    "timed_in_turns",
]

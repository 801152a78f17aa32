"""Numbers of the course: tables, roofline, timing, stored results. Plain data in, plain data or a Table out.

May import: notation, errors, the standard library; torch only in `timing` and `memory`. Nothing here knows a kernel.
"""

from .attention import AttentionCost
from .memory import peak_bytes
from .results import Results, read_results
from .roofline import attainable_tflops, limiting_resource, ridge_intensity
from .tables import Table, shape_table, traffic_table
from .timing import Timing, median_time

__all__ = [
    "AttentionCost",
    "Results",
    "Table",
    "Timing",
    "attainable_tflops",
    "limiting_resource",
    "median_time",
    "peak_bytes",
    "read_results",
    "ridge_intensity",
    "shape_table",
    "traffic_table",
]

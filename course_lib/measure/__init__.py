"""Numbers of the course: tables, roofline, timing, stored results. Plain data in, plain data or a Table out.

May import: notation, errors and the standard library; torch only inside `timing`. Nothing here knows a kernel.
"""

from .results import Results, read_results
from .roofline import attainable_tflops, limiting_resource, ridge_intensity
from .tables import Table, shape_table, traffic_table
from .timing import Timing, median_time

__all__ = [
    "Results",
    "Table",
    "Timing",
    "attainable_tflops",
    "limiting_resource",
    "median_time",
    "read_results",
    "ridge_intensity",
    "shape_table",
    "traffic_table",
]

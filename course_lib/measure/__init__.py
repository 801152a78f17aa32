"""Numbers of the course: tables, roofline, timing, stored results. Plain data in, plain data or a Table out.

May import: notation, errors, device, stdlib; torch only in `timing`, `memory`, `lecture`, `sdpa`, `copying` and
`dispatch`. No module here knows a kernel.
"""

from . import decode, serving_cost
from .attention import AttentionCost
from .copying import copy_task_losses
from .hierarchy import levels_table, memory_levels, steps_table
from .ladder import (
    counter_table,
    gain_table,
    instruction_table,
    keys_read,
    ladder_rates,
    load_counts,
    outside_products,
    rung_table,
)
from .layers import block_bytes, layer_table
from .lecture import set_up, time_and_peak
from .loads import load_table
from .memory import operator_traffic, peak_bytes
from .results import Results, read_results, spoken
from .roofline import attainable_tflops, limiting_resource, ridge_intensity, tile_cycles
from .tables import Table, shape_table, traffic_table
from .timing import Timing, median_time

__all__ = [
    "AttentionCost",
    "Results",
    "Table",
    "Timing",
    "attainable_tflops",
    "block_bytes",
    "copy_task_losses",
    "counter_table",
    "decode",
    "gain_table",
    "instruction_table",
    "keys_read",
    "ladder_rates",
    "layer_table",
    "levels_table",
    "limiting_resource",
    "load_counts",
    "load_table",
    "median_time",
    "memory_levels",
    "operator_traffic",
    "outside_products",
    "peak_bytes",
    "read_results",
    "ridge_intensity",
    "rung_table",
    "serving_cost",
    "set_up",
    "shape_table",
    "spoken",
    "steps_table",
    "tile_cycles",
    "time_and_peak",
    "traffic_table",
]

"""Constants and spellings shared by all of the course.

May import: nothing of the course.
"""

import math

LOG2_E = 1.4426950408889634  # log2(e): exp(x) == exp2(x * LOG2_E)
LN_2 = math.log(2.0)
WARP_SIZE = 32
SECTOR_BYTES = 32  # granularity of global memory traffic
NUM_BANKS = 32  # shared-memory banks, each 4 bytes wide
BANK_BYTES = 4

# dtype name -> bytes per element
ITEMSIZE = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}

# dtype name -> unit roundoff (half the spacing of numbers next to 1)
UNIT_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def number_or_text(text):
    """Parse a number: "128" -> 128, "0.5" -> 0.5; other text unchanged."""
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text

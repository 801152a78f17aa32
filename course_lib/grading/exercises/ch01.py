"""Chapter 01, GPU memory hierarchy: its four exercises, in order.

May import: the modules that hold them.
"""

from .memory_kernels import COPY, TRANSPOSE
from .memory_python import ROOFLINE, SECTORS

EXERCISES = (SECTORS, COPY, TRANSPOSE, ROOFLINE)

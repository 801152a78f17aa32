"""What every lecture does before and beside its subject: repeatable tensors, the cost of a call on this machine.

May import: device, memory, timing; torch inside functions.
"""

from ..device import has_gpu
from .memory import peak_bytes
from .timing import median_time


def set_up(seed):
    """Make a lecture repeatable: torch's seed, its device (a GPU where there is one), and how it prints tensors."""
    import torch

    torch.set_default_device("cuda" if has_gpu() else "cpu")
    torch.manual_seed(seed)
    torch.set_printoptions(precision=4, sci_mode=False, linewidth=110)


def time_and_peak(function, *, num_runs=15):
    """(milliseconds, bytes) of ``function()`` on this machine: the lower quartile of its times, its peak memory."""
    timing = median_time(function, num_runs=num_runs, on_gpu=has_gpu())
    return timing.low_ms, peak_bytes(function, on_gpu=has_gpu())

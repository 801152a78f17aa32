"""The peak memory of a function, beyond what was allocated before it began, and the bytes that its operators move.

On a GPU torch's allocator records the peak. On a CPU it does not, so a dispatch mode counts the bytes of every tensor
that an operator makes, as long as it lives; scratch memory inside one operator is not counted.

May import: dispatch; torch inside functions.
"""


def peak_bytes(function, *, on_gpu=False):
    """Run ``function()`` once and return its peak memory.

    Parameters
    ----------
    function : callable without arguments
    on_gpu : bool; True asks torch's allocator for the current GPU

    Returns
    -------
    int, bytes; the result of the function is part of it
    """
    return _gpu_peak(function) if on_gpu else _cpu_peak(function)


def _gpu_peak(function):
    import torch

    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    function()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def _cpu_peak(function):
    from .dispatch import LiveBytes

    with LiveBytes() as live:
        function()
    return live.peak


def operator_traffic(function):
    """Run ``function()`` once and return what each of torch's operators in it reads and writes.

    Parameters
    ----------
    function : callable without arguments

    Returns
    -------
    list of (name, bytes read, bytes written), in order; each tensor counts once, views count nothing
    """
    from .dispatch import OperatorBytes

    with OperatorBytes() as observer:
        function()
    return observer.launches

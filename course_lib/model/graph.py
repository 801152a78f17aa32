"""A function recorded as a CUDA graph: the host starts one thing instead of hundreds.

May import: torch.
"""

import contextlib
import gc

import torch


@contextlib.contextmanager
def recorded(graph, pool=None):
    """Record what the block launches into a CUDAGraph.

    The cyclic garbage collector waits: a dead graph that it destroys while another is recorded spoils the record.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        with torch.cuda.graph(graph, pool=pool):
            yield
    finally:
        if collects:
            gc.enable()


class Graph:
    """Call it like the function, which has no arguments and no result and touches only buffers that keep their address.

    The first call runs the function, so that every kernel is compiled and loaded; the second records it and replays the
    record, and so do all later ones.
    """

    def __init__(self, function):
        self.function, self.calls, self.graph = function, 0, None

    def __call__(self):
        self.calls += 1
        if self.calls == 1:
            self.function()
            return
        if self.graph is None:
            graph = torch.cuda.CUDAGraph()
            with recorded(graph):
                self.function()
            self.graph = graph
        self.graph.replay()

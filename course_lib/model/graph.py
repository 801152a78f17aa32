"""A function recorded as a CUDA graph: the host starts one thing instead of hundreds.

May import: torch.
"""

import contextlib
import functools
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

    def __init__(self, function, pool=None):
        """pool : of memory, shared with other graphs of which none runs while another's results are used; or None"""
        self.function, self.pool, self.calls, self.graph = function, pool, 0, None

    def __call__(self):
        self.calls += 1
        if self.calls == 1:
            self.function()
            return
        if self.graph is None:
            graph = torch.cuda.CUDAGraph()
            with recorded(graph, self.pool):
                self.function()
            self.graph = graph
        self.graph.replay()


class Graphs:
    """Call it like the function, whose arguments are whole numbers or other keys: a Graph for each key.

    At most `most` are kept; the one that was not used for the longest time goes first. They share their memory.
    """

    def __init__(self, function, most):
        self.function, self.most, self.graphs, self.pool = function, most, {}, None

    def __call__(self, *key):
        self.pool = self.pool or torch.cuda.graph_pool_handle()
        graph = self.graphs.pop(key, None) or Graph(functools.partial(self.function, *key), self.pool)
        self.graphs[key] = graph  # the latest is the last
        if len(self.graphs) > self.most:
            self.graphs.pop(next(iter(self.graphs)))
        graph()

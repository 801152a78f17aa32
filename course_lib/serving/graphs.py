"""Steps of fixed numbers of rows, recorded as CUDA graphs, which share one memory pool.

May import: torch.
"""

import torch


def buckets(most):
    """Numbers of rows that steps are padded to: 1, 2, 4, every 8, and `most`."""
    return sorted({size for size in (1, 2, 4, *range(8, most, 8), most) if size <= most})


class StepGraphs:
    """Calls body(size, longest), or replays the record of such a call.

    Everything that the body is told by the host is in its arguments, and these are the key: a launch that was recorded
    keeps each number that the host gave it. Its tensors come from buffers that keep their address.
    """

    def __init__(self, body):
        self.body, self.graphs, self.pool = body, {}, None

    def __call__(self, size, longest):
        """Run the step; the first one of a key runs as it is, and is recorded for the others."""
        if (size, longest) in self.graphs:
            self.graphs[size, longest].replay()
            return
        self.body(size, longest)  # compiles and loads the kernels, and is this step
        self.record(size, longest)

    def record(self, size, longest):
        """Record a step that has run once; nothing is computed."""
        self.pool = self.pool or torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            self.body(size, longest)
        self.graphs[size, longest] = graph

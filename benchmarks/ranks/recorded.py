"""A call as a CUDA graph, made when it is first needed: every rank of a benchmark comes there at the same time."""

import torch


class Recorded:
    """Runs a function the first time; then records `calls` of it as one graph, replayed at every `calls`-th call."""

    def __init__(self, function, calls=1):
        self.function, self.calls, self.graph, self.called = function, calls, None, -1

    def __call__(self):
        self.called += 1
        if self.called == 0:
            return self.function()
        if self.graph is None:
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                for _ in range(self.calls):
                    self.function()
            self.graph = graph
        if (self.called - 1) % self.calls == 0:
            self.graph.replay()

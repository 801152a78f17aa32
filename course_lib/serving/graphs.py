"""Steps of fixed sizes, recorded as CUDA graphs, which share one memory pool.

May import: expect, model.graph, torch.
"""

import torch

from .. import expect
from ..model.graph import recorded

MOST_ROWS = 1 << 20  # sequences of a step
LEAST_TOKENS = 64  # of a ragged step: a smaller one is padded to it


def row_buckets(most):
    """Numbers of rows that steps are padded to: 1, 2, 4, every 8, and `most`."""
    most = expect.whole("most", most, 1, MOST_ROWS)
    return sorted({size for size in (1, 2, 4, *range(8, most, 8), most) if size <= most})


def token_buckets(most):
    """Numbers of tokens that ragged steps are padded to: four sizes for each doubling, and `most`."""
    most = expect.whole("most", most, 1)
    found, size = [], LEAST_TOKENS
    while size < most:
        found += [size * quarters // 4 for quarters in (4, 5, 6, 7)]
        size *= 2
    return [size for size in found if size < most] + [most]


class StepGraphs:
    """Calls body(*key), or replays the record of such a call.

    Everything that the body is told by the host is in the key: a launch that was recorded keeps each number that the
    host gave it. Its tensors come from buffers that keep their address. What it returned is overwritten by the next
    step, so that it must be used on the same stream before.
    """

    def __init__(self):
        self.graphs, self.pool = {}, None

    # region: call
    def __call__(self, body, *key):
        """The first step of a key runs as it is, and is recorded for the others."""
        key = (body, *key)
        if key in self.graphs:
            graph, result = self.graphs[key]
            graph.replay()
            return result
        result = body(*key[1:])  # compiles and loads the kernels, and is this step
        self.pool = self.pool or torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        with recorded(graph, self.pool):
            again = body(*key[1:])
        self.graphs[key] = graph, again
        return result

    # endregion


def eager(body, *key):
    """In place of StepGraphs: call it."""
    return body(*key)

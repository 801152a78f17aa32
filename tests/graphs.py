"""What the tests of a GPU share about CUDA graphs."""

import math

import torch


def require_same_in_a_graph(launch, replays=1):
    """Assert that a captured launch, replayed, gives the outputs of a plain one."""
    launch.run()
    wanted = [output.clone() for output in launch.outputs]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch.run()
    for output in launch.outputs:
        output.fill_(math.nan)
    for _ in range(replays):
        graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(output, want) for output, want in zip(launch.outputs, wanted, strict=True))

import operator
from itertools import pairwise

import torch


def share(num_tokens, num_ranks):
    """Positions of each rank's tokens: a list of num_ranks lists."""
    ### BEGIN SOLUTION
    cuts = [chunk * num_tokens // (2 * num_ranks) for chunk in range(2 * num_ranks + 1)]
    chunks = [list(range(start, end)) for start, end in pairwise(cuts)]
    return [chunks[rank] + chunks[-1 - rank] for rank in range(num_ranks)]
    ### END SOLUTION


def shared(num_tokens, num_ranks):
    """The positions of every rank as one row of numbers. Given: the judge reads it."""
    numbers = []
    for positions in share(num_tokens, num_ranks):
        numbers.append(len(positions))
        numbers += map(operator.index, positions)  # whole numbers
    return torch.tensor(numbers, dtype=torch.int64)

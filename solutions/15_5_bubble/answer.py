import operator

import torch


def timetable(num_stages, num_micro, forward, backward):
    """Entries (kind, micro-batch, begin) of each stage, kind "F" or "B": a list of num_stages lists."""
    ### BEGIN SOLUTION
    stages, both = [], forward + backward
    for stage in range(num_stages):
        entries = []
        for micro in range(num_micro):
            warm = micro < num_stages - stage  # no backward has come yet
            begin = (stage + micro) * forward if warm else stage * forward + micro * both
            last = num_stages * forward + (num_stages - 1 - stage) * backward  # where backward 0 begins
            entries += [("F", micro, begin), ("B", micro, last + micro * both)]
        stages.append(entries)
    return stages
    ### END SOLUTION


def written(num_stages, num_micro, forward, backward):
    """The entries of every stage as one row of numbers. Given: the judge reads it."""
    numbers = []
    for entries in timetable(num_stages, num_micro, forward, backward):
        numbers.append(len(entries))
        for kind, micro, begin in entries:
            numbers += ["FB".index(kind), operator.index(micro), operator.index(begin)]  # whole numbers
    return torch.tensor(numbers, dtype=torch.int64)

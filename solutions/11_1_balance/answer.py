import operator

import torch


def deal(seq_lens, num_blocks, step):
    """Items (request, first key, end key) of each block: a list of num_blocks lists."""
    ### BEGIN SOLUTION
    total, start = sum(seq_lens), 0  # start: keys of the requests before this one
    blocks = [[] for _ in range(num_blocks)]
    for request, seq_len in enumerate(seq_lens):
        cuts = []
        for block in range(num_blocks + 1):
            cut = block * total // num_blocks - start  # where the block's share begins, as a key of this request
            cuts.append(seq_len if cut >= seq_len else max(cut, 0) // step * step)
        for block in range(num_blocks):
            first, end = cuts[block], cuts[block + 1]
            if first < end:
                blocks[block].append((request, first, end))
        start += seq_len
    return blocks
    ### END SOLUTION


def dealt(seq_lens, num_blocks, step):
    """The items of every block as one row of numbers. Given: the judge reads it."""
    deal(seq_lens.tolist()[::-1], num_blocks, step)  # another call, of which nothing may remain
    numbers = []
    for items in deal(seq_lens.tolist(), num_blocks, step):
        numbers.append(len(items))
        for request, first, end in items:
            numbers += map(operator.index, (request, first, end))  # whole numbers
    return torch.tensor(numbers, dtype=torch.int64)

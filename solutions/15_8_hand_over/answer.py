import torch


def slots(table, seq_lens, page_size):
    """Of each token, in order of sequences and tokens: page * page_size + place in the page. Given."""
    found = [torch.empty(0, dtype=torch.int64)]
    for row, seq_len in zip(table, seq_lens.tolist(), strict=True):
        token = torch.arange(seq_len)
        found.append(row[token // page_size] * page_size + token % page_size)
    return torch.cat(found)


def send(world, kv, table, seq_lens):
    """Rank 0: hand the keys and values of all sequences to rank 1."""
    ### BEGIN SOLUTION
    world.send(seq_lens, 1)
    tokens = kv.flatten(2, 3)[:, :, slots(table, seq_lens, kv.shape[3])]
    world.send(tokens, 1)
    ### END SOLUTION


def receive(world, kv, free_pages, num_seqs, max_pages):
    """Rank 1: (table, seq_lens) of the sequences, whose keys and values are written into pages of kv."""
    ### BEGIN SOLUTION
    page_size = kv.shape[3]
    seq_lens = world.recv(torch.empty(num_seqs, dtype=torch.int64), 0)
    table = torch.full((num_seqs, max_pages), -1)
    taken = 0
    for row, seq_len in zip(table, seq_lens.tolist(), strict=True):
        count = -(-seq_len // page_size)
        row[:count] = free_pages[taken : taken + count]
        taken += count
    layers, _, _, _, num_heads, head_dim = kv.shape
    tokens = world.recv(kv.new_empty(layers, 2, int(seq_lens.sum()), num_heads, head_dim), 0)
    kv.flatten(2, 3)[:, :, slots(table, seq_lens, page_size)] = tokens
    return table, seq_lens
    ### END SOLUTION


def hand_over_on_rank(world, kv, table, seq_lens, free_pages):
    """What the two ranks run, each with its own pool; returns the pool, the table and the lengths. Given."""
    own = kv[world.rank].clone()
    if world.rank == 0:
        send(world, own, table, seq_lens)
        return own, table, seq_lens
    return own, *receive(world, own, free_pages, *table.shape)

import torch


def work_list(cu_seqlens_q, seq_lens, group, block_rows, chunk_keys):
    """(items, token_parts) of one key-value head: what the blocks of one launch have to do."""
    starts, num_keys = cu_seqlens_q.tolist(), seq_lens.tolist()
    items, counts = [], []  # (request, first token, rows, first key, end key, part); parts of each token
    ### BEGIN SOLUTION
    tile_tokens = block_rows // group
    for request, seq_len in enumerate(num_keys):
        start, end = starts[request], starts[request + 1]
        for first in range(start, end, tile_tokens):
            tokens = min(tile_tokens, end - first)
            end_key = seq_len - end + first + tokens  # one past the last key that the tile's last token sees
            parts = -(-end_key // chunk_keys)
            for part in range(parts):
                keys = part * chunk_keys, min((part + 1) * chunk_keys, end_key)
                items.append((request, first, tokens * group, *keys, part))
            counts += [parts if parts > 1 else 0] * tokens
    ### END SOLUTION
    items = torch.tensor(items, dtype=torch.int64).reshape(-1, 6)
    token_parts = torch.tensor([0, *counts], dtype=torch.int64).cumsum(0)
    return items, token_parts

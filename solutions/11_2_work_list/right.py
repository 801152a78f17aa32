"""Right answers to 11.2 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

IN_TENSORS = """import torch


def work_list(cu_seqlens_q, seq_lens, group, block_rows, chunk_keys):
    tokens = cu_seqlens_q.diff()
    per_tile = block_rows // group
    num_tiles = (tokens + per_tile - 1) // per_tile
    request = torch.repeat_interleave(torch.arange(len(seq_lens)), num_tiles)
    number = torch.arange(len(request)) - torch.repeat_interleave(num_tiles.cumsum(0) - num_tiles, num_tiles)
    first = number * per_tile
    count = torch.minimum(torch.tensor(per_tile), tokens[request] - first)
    end_key = seq_lens[request] - tokens[request] + first + count
    parts = (end_key + chunk_keys - 1) // chunk_keys
    of = torch.repeat_interleave(torch.arange(len(parts)), parts)
    part = torch.arange(len(of)) - torch.repeat_interleave(parts.cumsum(0) - parts, parts)
    end = torch.minimum((part + 1) * chunk_keys, end_key[of])
    columns = [request[of], (cu_seqlens_q[request] + first)[of], (count * group)[of], part * chunk_keys, end, part]
    counts = torch.repeat_interleave(torch.where(parts > 1, parts, 0), count)
    return torch.stack(columns, 1), torch.nn.functional.pad(counts.cumsum(0), (1, 0))
"""

BACKWARDS = """import torch


def work_list(cu_seqlens_q, seq_lens, group, block_rows, chunk_keys):
    starts, lens = cu_seqlens_q.tolist(), seq_lens.tolist()
    tiles = {}
    for token in range(starts[-1]):
        request = sum(token >= end for end in starts[1:])
        place = token - starts[request]
        tiles.setdefault((request, place // (block_rows // group)), []).append(token)
    items, counts = [], [0] * starts[-1]
    for (request, _), tokens in reversed(tiles.items()):
        keys = range(lens[request] - starts[request + 1] + tokens[-1] + 1)
        chunks = [keys[i:i + chunk_keys] for i in range(0, len(keys), chunk_keys)]
        for part, chunk in reversed(list(enumerate(chunks))):
            items.append([request, tokens[0], len(tokens) * group, chunk[0], chunk[-1] + 1, part])
        for token in tokens:
            counts[token] = len(chunks) * (len(chunks) > 1)
    return torch.tensor(items, dtype=torch.int64).reshape(-1, 6), torch.tensor([0] + counts).cumsum(0)
"""

ANSWERS = [
    Right("without a loop", text=IN_TENSORS),
    Right("token by token, items in reverse order", text=BACKWARDS),
    Right(
        "the first key and then the next",
        (
            (
                "for part in range(parts):\n"
                "                keys = part * chunk_keys, min((part + 1) * chunk_keys, end_key)\n",
                "for part, key in enumerate(range(0, end_key, chunk_keys)):\n"
                "                keys = key, min(key + chunk_keys, end_key)\n",
            ),
        ),
    ),
]

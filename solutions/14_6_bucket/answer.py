from typing import NamedTuple

import torch


class DecodeRequest(NamedTuple):
    token: int  # id of the token that the step computes
    num_computed: int  # tokens before it
    pages: tuple  # physical pages, with room for it


def fill(buffers, requests, page_size, batch_buckets, len_buckets):
    """Write a decode step into the buffers of the recorded launches; (batch bucket, length bucket) or None."""
    ### BEGIN SOLUTION
    longest = max(request.num_computed for request in requests) + 1
    batch = next((size for size in batch_buckets if size >= len(requests)), None)
    length = next((size for size in len_buckets if size >= longest), None)
    if batch is None or length is None:
        return None
    for name, buffer in buffers.items():
        buffer[:batch] = -1 if name == "slots" else 0
    for row, request in enumerate(requests):
        page, offset = divmod(request.num_computed, page_size)
        buffers["token_ids"][row] = request.token
        buffers["positions"][row] = request.num_computed
        buffers["slots"][row] = request.pages[page] * page_size + offset
        buffers["seq_lens"][row] = request.num_computed + 1
        buffers["block_tables"][row, : len(request.pages)] = torch.tensor(request.pages)
    return batch, length
    ### END SOLUTION


def filled(calls):
    """The keys and the buffers after each step, as text. Given: the judge reads it."""
    results = []
    for steps, page_size, batch_buckets, len_buckets, max_pages, before in calls:
        rows = batch_buckets[-1]
        recorded = {name: torch.full((rows,), before) for name in ("token_ids", "positions", "slots", "seq_lens")}
        recorded["block_tables"] = torch.full((rows, max_pages), before)
        found = []
        for step in steps:
            requests = tuple(DecodeRequest(token, computed, tuple(pages)) for token, computed, pages in step)
            key = fill(dict(recorded), requests, page_size, tuple(batch_buckets), tuple(len_buckets))
            found.append((key, [buffer.tolist() for buffer in recorded.values()]))
        results.append(found)
    return torch.tensor(list(repr(results).encode()), dtype=torch.uint8)

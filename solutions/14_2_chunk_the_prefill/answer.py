from typing import NamedTuple

import torch


class StepRequest(NamedTuple):
    tokens: tuple  # ids of all known tokens: the prompt, then what was produced
    num_prompt: int  # of these, how many are the prompt's
    num_computed: int  # how many have their keys and values in the cache
    num_new: int  # how many the step computes, 1 or more
    pages: tuple  # physical pages, in the order of the sequence


def assemble(requests, page_size):
    """(token_ids, positions, slots, query_starts, seq_lens, sample_rows) of a step, lists of whole numbers."""
    ### BEGIN SOLUTION
    token_ids, positions, slots, query_starts, seq_lens, sample_rows = [], [], [], [0], [], []
    for request in requests:
        end = request.num_computed + request.num_new
        for position in range(request.num_computed, end):
            page, offset = divmod(position, page_size)
            token_ids.append(request.tokens[position])
            positions.append(position)
            slots.append(request.pages[page] * page_size + offset)
        query_starts.append(len(positions))
        seq_lens.append(end)
        if end == len(request.tokens):
            sample_rows.append(len(positions) - 1)
    return token_ids, positions, slots, query_starts, seq_lens, sample_rows
    ### END SOLUTION


def assembled(calls):
    """The lists of each call, as text. Given: the judge reads it."""
    steps = []
    for requests, page_size in calls:
        fields = ((tuple(tokens), *numbers, tuple(pages)) for tokens, *numbers, pages in requests)
        steps.append(assemble(tuple(StepRequest(*one) for one in fields), page_size))
    return torch.tensor(list(repr(steps).encode()), dtype=torch.uint8)

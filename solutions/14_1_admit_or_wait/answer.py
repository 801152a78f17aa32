from typing import NamedTuple

import torch


class Request(NamedTuple):
    id: int
    num_tokens: int  # known tokens: the prompt and what was produced
    num_computed: int  # of these, how many have their keys and values in the cache


class Limits(NamedTuple):
    budget: int  # tokens of a step
    chunk: int  # tokens of one request in a step
    max_seqs: int  # running requests
    page_size: int
    watermark: int  # pages that stay free when a request is admitted


def schedule(running, waiting, free_pages, preempted, limits):
    """List of (id, number of tokens) of the step. running, waiting: tuples of Request, in the order of their turn."""
    ### BEGIN SOLUTION
    step, budget, seats = [], limits.budget, limits.max_seqs - len(running)
    for request in running:
        num_new = min(request.num_tokens - request.num_computed, limits.chunk, budget)
        if num_new > 0:
            step.append((request.id, num_new))
            budget -= num_new
    if preempted:
        return step
    for request in waiting:
        pages = -(-request.num_tokens // limits.page_size) - request.num_computed // limits.page_size
        if budget == 0 or seats == 0 or free_pages - pages < limits.watermark:
            break
        num_new = min(request.num_tokens - request.num_computed, limits.chunk, budget)
        step.append((request.id, num_new))
        budget, seats, free_pages = budget - num_new, seats - 1, free_pages - pages
    return step
    ### END SOLUTION


def schedules(calls):
    """The step of each call, as text. Given: the judge reads it."""
    steps = []
    for running, waiting, free_pages, preempted, limits in calls:
        running, waiting = (tuple(Request(*fields) for fields in queue) for queue in (running, waiting))
        steps.append(schedule(running, waiting, free_pages, preempted, Limits(*limits)))
    return torch.tensor(list(repr(steps).encode()), dtype=torch.uint8)

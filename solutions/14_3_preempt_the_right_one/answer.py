from typing import NamedTuple

import torch


class PagedRequest(NamedTuple):
    id: int
    priority: int  # 0 is the most important
    arrival: int  # a later request has a larger number; no two have the same
    prompt: tuple  # ids of tokens
    output: tuple  # ids of tokens produced so far
    num_computed: int  # tokens whose keys and values are in its pages
    pages: tuple


def make_room(running, waiting, refs, page_size):
    """(running, waiting, refs, refused) in which every running request has pages for all its tokens."""
    ### BEGIN SOLUTION
    live, waiting, refs, refused = {request.id: request for request in running}, list(waiting), list(refs), []

    def release(request):
        del live[request.id]
        for page in request.pages:
            refs[page] -= 1

    for number in list(live):
        while number in live:
            request = live[number]
            num_pages = -(-(len(request.prompt) + len(request.output)) // page_size)
            if num_pages <= len(request.pages):
                break
            if num_pages > len(refs):
                release(request)
                refused.append((number, f"{number} needs {num_pages} pages, and the pool has {len(refs)}."))
            elif 0 in refs:
                page = refs.index(0)
                refs[page] = 1
                live[number] = request._replace(pages=(*request.pages, page))
            else:
                victim = max(live.values(), key=lambda one: (one.priority, one.arrival))
                release(victim)
                waiting.insert(0, victim._replace(num_computed=0, pages=()))
    return list(live.values()), waiting, refs, refused
    ### END SOLUTION


def rooms(calls):
    """What make_room returns for each call, as text. Given: the judge reads it."""
    found = []
    for running, waiting, refs, page_size in calls:
        queues = []
        for queue in (running, waiting):
            fields = ((*one[:3], *map(tuple, one[3:5]), one[5], tuple(one[6])) for one in queue)
            queues.append(tuple(PagedRequest(*one) for one in fields))
        running, waiting, refs, refused = make_room(*queues, tuple(refs), page_size)
        found.append((list(map(tuple, running)), list(map(tuple, waiting)), refs, refused))
    return torch.tensor(list(repr(found).encode()), dtype=torch.uint8)

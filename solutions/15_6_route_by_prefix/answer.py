import operator

import torch


class Router:
    """Chooses a worker for each request, by the prefixes that it has sent to each and by what waits there."""

    def __init__(self, num_workers, max_extra):
        ### BEGIN SOLUTION
        self.max_extra = max_extra
        self.sent = [set() for _ in range(num_workers)]  # of each worker: every prefix of every prompt, as tuples
        ### END SOLUTION

    def route(self, pages, loads):
        """The worker for a prompt of these pages; loads: tokens that wait at each worker."""
        ### BEGIN SOLUTION
        prefixes = [pages[:count] for count in range(1, len(pages) + 1)]
        limit = min(loads) + self.max_extra
        allowed = [worker for worker in range(len(loads)) if loads[worker] <= limit]
        known = {worker: sum(prefix in self.sent[worker] for prefix in prefixes) for worker in allowed}
        best = min(allowed, key=lambda worker: (-known[worker], loads[worker], worker))
        self.sent[best].update(prefixes)
        return best
        ### END SOLUTION


def served(prompts, num_workers, max_extra, page_size, pause):
    """The worker of each request; what waits shrinks by `pause` tokens between two of them. Given."""
    router, loads, chosen = Router(num_workers, max_extra), [0] * num_workers, []
    held = [set() for _ in range(num_workers)]
    for row in prompts.tolist():
        pages = tuple(page for page in row if page >= 0)
        chosen.append(operator.index(router.route(pages, tuple(loads))))
        worker = chosen[-1] % num_workers
        new = {pages[:count] for count in range(1, len(pages) + 1)} - held[worker]
        held[worker] |= new
        loads[worker] += len(new) * page_size  # pages that it holds are not computed again
        loads = [max(load - pause, 0) for load in loads]
    return torch.tensor(chosen, dtype=torch.int64)

"""Fragmentation of a KV cache while requests are served: one contiguous piece a sequence against pages.

Both simulations serve the same requests in the same memory, first come first served, one token of each running sequence
a step, and count the slots of each kind at every step. Nothing is measured.

Names: our later, never and holes = reserved slots, internal and external fragmentation in the paper.
Source: W. Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention", 2023,
section 3.1, https://arxiv.org/abs/2309.06180

May import: errors, pool, trace.
"""

from collections import deque
from dataclasses import dataclass

from ..errors import ArgumentError
from .pool import PagePool
from .trace import Request

PAGE_SIZES = (1, 4, 16, 64, 256)
KINDS = ("tokens", "later", "never", "holes", "free")


@dataclass(frozen=True)
class Use:
    """The result of one simulation.

    Attributes
    ----------
    name : str
    capacity : int, slots; a slot holds a token
    steps : tuple of dict, one a step; slots by kind, adding up to `capacity`:
        tokens  holds a token
        later   reserved for a running sequence, which will use it
        never   reserved for a running sequence, which will end before it uses it
        holes   free, and the next request would fit into all holes together, but into none of them
        free    all other free slots
    running : tuple of int, sequences at each step
    waiting : tuple of bool, whether a request waited for memory at that step
    preempted : int, how often a running sequence was preempted: it released its pages and returned to the queue, with
        its tokens so far as its prompt
    """

    name: str
    capacity: int
    steps: tuple
    running: tuple
    waiting: tuple
    preempted: int = 0

    def shares(self):
        """Kind -> mean share of the memory, 0 to 1, over the steps at which a request waited: memory was the limit."""
        steps = self._full(self.steps)
        return {kind: sum(step[kind] for step in steps) / (self.capacity * len(steps)) for kind in KINDS}

    def mean_running(self):
        """Mean number of running sequences over the steps at which a request waited."""
        counts = self._full(self.running)
        return sum(counts) / len(counts)

    def _full(self, values):
        """The values of the steps at which a request waited; all values when none ever did."""
        kept = [value for value, waited in zip(values, self.waiting, strict=True) if waited]
        return kept or list(values)


def contiguous_use(requests, capacity, *, reserve=None, name="one piece of the longest length"):
    """Serve with one contiguous piece a sequence, reserved when it is admitted, first fit.

    Parameters
    ----------
    requests : sequence of Request, in order of arrival
    capacity : int, tokens
    reserve : callable, Request -> tokens to reserve, at least its total_len; default: the largest total_len of all
    name : str

    Returns
    -------
    use : Use
    """
    longest = max(request.total_len for request in requests)
    reserve = reserve or (lambda _request: longest)
    _need_room(requests, capacity, reserve)
    queue, running, steps, now = deque(requests), [], [], 0
    while queue or running:
        while queue and queue[0].arrival <= now:
            start = _first_fit(running, capacity, reserve(queue[0]))
            if start is None:
                break
            request = queue.popleft()
            running.append([start, reserve(request), request.prompt_len, request])
        blocked = reserve(queue[0]) if queue and queue[0].arrival <= now else None
        if running:
            steps.append((_sort_pieces(running, capacity, blocked), len(running), blocked is not None))
        for piece in running:
            piece[2] += 1
        running = [piece for piece in running if piece[2] < piece[3].total_len]
        now = now + 1 if running or not queue else max(now + 1, queue[0].arrival)
    return Use(name, capacity, *zip(*steps, strict=True))


def paged_use(requests, capacity, page_size, *, name=None):
    """Serve on pages, each allocated when a token needs it; out of pages, the youngest sequence is preempted.

    Parameters
    ----------
    requests : sequence of Request, in order of arrival
    capacity : int, tokens, a multiple of page_size
    page_size : int, tokens

    Returns
    -------
    use : Use
    """
    if capacity % page_size:
        raise ArgumentError(f"capacity is {capacity}; it must be a multiple of page_size, {page_size}.")
    _need_room(requests, capacity, lambda request: -(-request.total_len // page_size) * page_size)
    pool, queue = PagePool(capacity // page_size, page_size), deque(enumerate(requests))
    running, steps, now, preempted = {}, [], 0, 0
    while queue or running:
        while queue and queue[0][1].arrival <= now:
            number, request = queue[0]
            pool.add(number)
            if not pool.can_append(number, request.prompt_len):
                pool.free(number)
                break
            pool.append(number, request.prompt_len)
            running[number] = queue.popleft()[1]
        if running:
            waits = bool(queue) and queue[0][1].arrival <= now
            steps.append((_sort_pages(running, pool, capacity), len(running), waits))
        for number, request in tuple(running.items()):
            if pool.num_tokens(number) + 1 >= request.total_len:
                pool.free(number)
                del running[number]
        preempted += _grow(pool, running, queue)
        now = now + 1 if running or not queue else max(now + 1, queue[0][1].arrival)
    return Use(name or f"pages of {page_size}", capacity, *zip(*steps, strict=True), preempted)


def page_size_use(requests, capacity, page_sizes=PAGE_SIZES):
    """`paged_use` of the same requests for several page sizes, as a tuple."""
    return tuple(paged_use(requests, capacity, page_size) for page_size in page_sizes)


def _grow(pool, running, queue):
    """One more token for every running sequence, oldest first; returns how many sequences were preempted."""
    preempted = 0
    for number in sorted(running):
        while number in running and not pool.can_append(number):
            youngest = max(running)
            request, known = running.pop(youngest), pool.num_tokens(youngest) + 1  # with the token of this step
            pool.free(youngest)
            queue.appendleft((youngest, Request(request.arrival, known, request.total_len - known)))
            preempted += 1
        if number in running:
            pool.append(number)
    return preempted


def _need_room(requests, capacity, reserve):
    for request in requests:
        if reserve(request) > capacity or reserve(request) < request.total_len:
            raise ArgumentError(
                f"A request of {request.total_len} tokens gets {reserve(request)} of {capacity} slots; it needs at "
                "least its own length, and at most all."
            )


def _holes(running, capacity):
    """(start, size) of the free stretches between the pieces."""
    end = 0  # of the previous piece
    for start, size, _, _ in [*sorted(running), (capacity, 0, 0, None)]:
        if start > end:
            yield end, start - end
        end = start + size


def _first_fit(running, capacity, size):
    return next((start for start, room in _holes(running, capacity) if room >= size), None)


def _sort_pieces(running, capacity, blocked):
    """Slots by kind; `blocked` is the size that the next request needs and cannot get, or None."""
    rooms = [room for _, room in _holes(running, capacity)]
    idle, useless = sum(rooms), bool(blocked) and sum(rooms) >= blocked
    tokens = sum(written for _, _, written, _ in running)
    later = sum(request.total_len - written for _, _, written, request in running)
    return {
        "tokens": tokens,
        "later": later,
        "never": capacity - idle - tokens - later,
        "holes": idle if useless else 0,
        "free": 0 if useless else idle,
    }


def _sort_pages(running, pool, capacity):
    tokens = later = held = 0
    for number, request in running.items():
        written, room = pool.num_tokens(number), len(pool.pages(number)) * pool.page_size
        tokens, held = tokens + written, held + room
        later += min(room, request.total_len) - written
    return {"tokens": tokens, "later": later, "never": held - tokens - later, "holes": 0, "free": capacity - held}

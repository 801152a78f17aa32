"""The step of 14.1, and each usual mistake as a step of its own.

May import: nothing of the course.
"""

from itertools import takewhile


def _to_compute(request, chunk, budget):
    _, num_tokens, num_computed = request
    return min(num_tokens - num_computed, chunk, budget)


def _whole(request, page_size):
    """Pages that a request lacks for all of its known tokens."""
    _, num_tokens, num_computed = request
    return -(-num_tokens // page_size) - num_computed // page_size


def step(
    running, waiting, free_pages, preempted, limits, *, new=_to_compute, going=_to_compute, pages=_whole, cost=None,
    free=True, charged=True, new_ones="unless preempted", prefill_first=False, blocked="ends", seats=0, zeros=False,
    fits=lambda left, watermark, cached, idle: left >= watermark, taken=None, order=list, old=True, whole=False,
    counted=True,
):  # fmt: skip
    """[(id, number of tokens), …]; each option is one mistake.

    `new`, `going`: tokens of a waiting and of a running request; `cost`: what so many tokens take from the budget;
    `fits`: whether so many pages may be left; `free`: pages of admitted requests are taken off; `taken`: how many;
    `charged`: running requests take from the budget; `seats`: how many more than max_seqs; `old`: running requests
    count against max_seqs; `whole`: a prompt is never cut; `counted`: admitted requests take seats
    """
    budget, chunk, max_seqs, page_size, watermark = limits
    cost = cost or (lambda num_new: num_new)
    going_on, left = [], budget
    for request in running:
        num_new = going(request, chunk, left)
        if num_new > 0 or zeros:
            going_on.append((request[0], num_new))
            left -= cost(num_new)
    left = left if charged and not prefill_first else budget
    if preempted and new_ones == "unless preempted":
        return going_on
    room, admitted = max_seqs + seats - (len(running) if old else 0), []
    for request in order(waiting):
        need = pages(request, page_size) if pages is _whole else pages(request, page_size, chunk, left)
        num_new = new(request, chunk, left)
        too_long = whole and request[1] - request[2] > left
        fitting = fits(free_pages - need, watermark, request[2] > 0, not running)
        if left <= 0 or room <= 0 or not fitting or too_long:
            if blocked == "ends":
                break
            continue
        admitted.append((request[0], num_new))
        need = taken(request, page_size, chunk, left) if taken else need
        left, room, free_pages = left - cost(num_new), room - counted, free_pages - need * free
    if prefill_first and admitted:
        return admitted
    return going_on + admitted


def _of_chunk(request, page_size, chunk, budget):
    """Pages for the tokens of this step alone."""
    _, _, num_computed = request
    return -(-(num_computed + _to_compute(request, chunk, budget)) // page_size) - num_computed // page_size


def _all(request, chunk, budget):
    return min(request[1], chunk, budget)


# (code, words, what `step` does otherwise); each sentence goes on from "It is what comes when"
MISTAKES = (
    ("prefill_only", "a step with new requests leaves the running ones out. Every running request goes on in every "
     "step; a long prompt would stall all of them", {"prefill_first": True}),
    ("new_while_preempting", "requests are admitted in a step that preempted one. The pages just taken from it would "
     "go to a newcomer, and the next step preempts again", {"new_ones": "always"}),
    ("budget_in_requests", "each request takes 1 from the budget. It takes as many as it computes tokens",
     {"cost": lambda num_new: 1}),
    ("running_not_charged", "running requests take nothing from the budget", {"charged": False}),
    ("one_token_each", "every running request gets one token. One that is still in its prompt goes on with the rest "
     "of it, up to chunk", {"going": lambda request, chunk, budget: min(1, budget)}),
    ("chunk_ignored", "chunk limits nothing", {
        "new": lambda request, chunk, budget: _to_compute(request, budget, budget),
        "going": lambda request, chunk, budget: _to_compute(request, budget, budget)}),
    ("chunk_of_new", "chunk does not limit the waiting requests",
     {"new": lambda request, chunk, budget: _to_compute(request, budget, budget)}),
    ("chunk_of_running", "chunk does not limit the running requests",
     {"going": lambda request, chunk, budget: _to_compute(request, budget, budget)}),
    ("never_chunked", "a prompt waits until the budget holds all of it. It can be computed in parts, step by step; a "
     "prompt above the budget would never start", {"whole": True}),
    ("prefix_computed_again", "all tokens of a new request are computed. Its first num_computed ones came from the "
     "prefix cache", {"new": _all}),
    ("over_budget", "the tokens of a request are not cut to what is left of the budget", {
        "new": lambda request, chunk, budget: _to_compute(request, chunk, chunk),
        "going": lambda request, chunk, budget: _to_compute(request, chunk, chunk) * (budget > 0)}),
    ("empty_entries", "a running request for which no budget is left is in the list, with 0 tokens", {"zeros": True}),
    ("overtaken", "a request that does not fit lets the ones after it pass. First come, first served: it ends the "
     "admissions, or small requests keep it waiting without end", {"blocked": "passes"}),
    ("last_first", "the waiting request that came last is admitted first", {"order": lambda queue: queue[::-1]}),
    ("shortest_first", "the shortest waiting request is admitted first. Under load a long one then never starts",
     {"order": lambda queue: sorted(queue, key=lambda request: request[1])}),
    ("by_id", "the waiting requests are sorted by id. They are in the order of their turn already", {"order": sorted}),
    ("one_seat_more", "one request more than max_seqs runs", {"seats": 1}),
    ("max_seqs_of_new", "only the new requests count against max_seqs. The running ones do too", {"old": False}),
    ("max_seqs_not_counted", "the requests that the step admits do not count against max_seqs", {"counted": False}),
    ("pages_ignored", "pages limit nothing", {"fits": lambda left, watermark, cached, idle: True}),
    ("watermark_ignored", "the last free pages are given away. `watermark` of them stay free, for the requests that "
     "run already and grow", {"fits": lambda left, watermark, cached, idle: left >= 0}),
    ("watermark_off_by_one", "more than `watermark` pages must stay free. So many are enough",
     {"fits": lambda left, watermark, cached, idle: left > watermark}),
    ("watermark_when_idle", "the watermark is 0 while nothing runs. The admitted requests grow as well",
     {"fits": lambda left, watermark, cached, idle: left >= watermark * (not idle)}),
    ("watermark_of_cached", "a request with tokens from the prefix cache may take the pages of the watermark, too",
     {"fits": lambda left, watermark, cached, idle: left >= watermark * (not cached)}),
    ("pages_of_chunk_taken", "the free pages shrink by those of this step's tokens. The request will fill all that it "
     "needs: they are its own from now on", {"taken": _of_chunk}),
    ("pages_not_taken", "the pages of an admitted request still count as free for the next one", {"free": False}),
    ("pages_of_chunk", "a new request is admitted with pages for this step's tokens alone. It then stops in the "
     "middle of its prompt and holds pages that others need", {"pages": _of_chunk}),
    ("pages_rounded_down", "the pages of a request are rounded down. Its last page, not full, is a page",
     {"pages": lambda request, page_size, chunk, budget: request[1] // page_size - request[2] // page_size}),
    ("pages_one_too_many", "a request whose last page is full counts one page too many: num_tokens // page_size + 1",
     {"pages": lambda request, page_size, chunk, budget: request[1] // page_size + 1 - request[2] // page_size}),
    ("prefix_pages_again", "a request needs pages for all its tokens. The num_computed tokens of the prefix cache have "
     "their pages", {"pages": lambda request, page_size, chunk, budget: -(-request[1] // page_size)}),
    ("tokens_for_pages", "a request needs as many free pages as it has tokens. A page holds page_size of them",
     {"pages": lambda request, page_size, chunk, budget: request[1] - request[2]}),
)  # fmt: skip


def say(call, got, right):
    """The facts of one wrong step."""
    running, waiting, free_pages, preempted, (budget, chunk, max_seqs, page_size, watermark) = call
    after = ", after a preemption" if preempted else ""
    got, right = [tuple(pair) for pair in got], [tuple(pair) for pair in right]
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(got, right, strict=False)))
    start = same if same > 4 else 0
    where = f" from place {start} on" * (start > 0)
    return (
        f"Running {_queue(running)}; waiting {_queue(waiting)}; {free_pages} free pages of {page_size}, watermark "
        f"{watermark}, budget {budget}, chunk {chunk}, max_seqs {max_seqs}{after}: the step is {_pairs(got[start:])}"
        f"{where} and should be {_pairs(right[start:])}."
    )


def _queue(requests):
    """ "3 (5 of 6 tokens computed)", the first few of a queue."""
    said = [f"{number} ({computed} of {known} computed)" for number, known, computed in requests[:5]]
    return ", ".join(said + ["…"] * (len(requests) > 5)) or "none"


def _pairs(pairs):
    return repr(pairs[:8])[:-1] + ", …" * (len(pairs) > 8) + "]"

"""What a router of 15.6 chooses, the usual mistakes as routers of their own, and the first request that went astray.

May import: verdict, torch.
"""

from itertools import takewhile

import torch

from course_lib.grading.report.verdict import Diagnosis


def prefixes(pages):
    """All prefixes of a prompt, the shortest first."""
    return [pages[:count] for count in range(1, len(pages) + 1)]


class Right:
    """The rules of the contract; a mistake changes one of its methods."""

    def __init__(self, num_workers, max_extra):
        self.max_extra, self.sent = max_extra, [set() for _ in range(num_workers)]
        self.count = 0

    def route(self, pages, loads):
        best = min(self.allowed(loads), key=lambda worker: self.order(worker, pages, loads))
        self.remember(best, pages)
        self.count += 1
        return best

    def allowed(self, loads):
        return [worker for worker, load in enumerate(loads) if load <= min(loads) + self.max_extra]

    def order(self, worker, pages, loads):
        return -self.known(worker, pages), loads[worker], worker

    def known(self, worker, pages):
        return sum(prefix in self.sent[worker] for prefix in prefixes(pages))

    def remember(self, worker, pages):
        self.sent[worker].update(prefixes(pages))


def run(router, case, tensors):
    """(chosen, loads before each request, pages found of each) of a router, or of a list of workers already chosen."""
    sizes = case.sizes
    num_workers, loads = sizes["num_workers"], [0] * sizes["num_workers"]
    held, chosen, before, found = [set() for _ in range(num_workers)], [], [], []
    for number, row in enumerate(tensors["prompts"].tolist()):
        pages = tuple(page for page in row if page >= 0)
        worker = router[number] if isinstance(router, list) else router.route(pages, tuple(loads))
        chosen.append(worker)
        before.append(tuple(loads))
        new = set(prefixes(pages)) - held[worker % num_workers]
        found.append(len(pages) - len(new))
        held[worker % num_workers] |= new
        loads[worker % num_workers] += len(new) * sizes["page_size"]
        loads = [max(load - sizes["pause"], 0) for load in loads]
    return chosen, before, found


def right(case, tensors):
    """(num_requests,) int64: the workers that the contract chooses."""
    return torch.tensor(run(_new(Right, case), case, tensors)[0])


def _new(router, case):
    return router(case.sizes["num_workers"], case.sizes["max_extra"])


def _with(**methods):
    """A router with other methods."""
    return type("Mistake", (Right,), methods)


def _leading(pages, parts, sent):
    """How many pages there are before the first that is no part of a prompt that was sent."""
    known = {page for prefix in sent for page in parts(prefix)}
    return sum(1 for _ in takewhile(known.__contains__, pages))


def _spill_to_least(self, pages, loads):
    """The longest prefix of all workers; where that one is too busy the least busy, whatever it knows."""
    everyone = range(len(loads))
    best = min(everyone, key=lambda worker: self.order(worker, pages, loads))
    if best not in self.allowed(loads):
        best = min(everyone, key=lambda worker: (loads[worker], worker))
    self.remember(best, pages)
    return best


class _ByCount(Right):
    def route(self, pages, loads):
        self.count += 1
        return (self.count - 1) % len(loads)


class _LastPrompt(Right):
    def remember(self, worker, pages):
        self.sent[worker] = set(prefixes(pages))


def _everyone(self, loads):
    return list(range(len(loads)))


# code, words, router; each sentence goes on from "It is what comes when"
_MISTAKES = (
    ("round_robin", "the workers take turns: requests with a common prefix are computed again on each of them",
     _ByCount),
    ("least_loaded", "the least busy worker is taken, as if all workers knew equally much of a prompt",
     _with(known=lambda self, worker, pages: 0)),
    ("limit_ignored", "the longest prefix decides alone: a popular one fills one worker's queue, and those behind it "
     "wait while others are idle. More than min(loads) + max_extra is too much", _with(allowed=_everyone)),
    ("limit_strict", "a worker with exactly min(loads) + max_extra is left out: at most that many may wait",
     _with(allowed=lambda self, loads: [w for w, load in enumerate(loads) if load < min(loads) + self.max_extra]
           or [loads.index(min(loads))])),
    ("limit_from_mean", "the limit is counted from the mean of the loads; it is counted from the smallest",
     _with(allowed=lambda self, loads: [
         w for w, load in enumerate(loads) if load <= sum(loads) / len(loads) + self.max_extra])),
    ("limit_absolute", "max_extra is taken for the most that may wait at all; it is counted from the smallest load",
     _with(allowed=lambda self, loads: [
         w for w, load in enumerate(loads) if load <= max(self.max_extra, min(loads))])),
    ("spilled_to_the_least", "a request whose best worker is too busy goes to the least busy one: of the others that "
     "may be taken, one may know more of it", _with(route=_spill_to_least)),
    ("first_page_alone", "only the first page of a prompt is looked at",
     _with(known=lambda self, worker, pages: int(pages[:1] in self.sent[worker]))),
    ("whole_prompts_alone", "a worker is preferred only for a prompt that it has had whole: count the leading pages",
     _with(known=lambda self, worker, pages: int(pages in self.sent[worker]) * len(pages))),
    ("prompts_remembered", "whole prompts are remembered and looked up, without their prefixes: a prompt that goes on "
     "from an earlier one is found, one that leaves it half-way is not",
     _with(remember=lambda self, worker, pages: self.sent[worker].add(pages))),
    ("overlap", "pages are counted wherever they are: after another beginning the same page is another one",
     _with(known=lambda self, worker, pages: len(set(pages) & {p for prefix in self.sent[worker] for p in prefix}))),
    ("overlap", "leading pages count wherever the worker had them before: after another beginning the same page is "
     "another one", _with(known=lambda self, worker, pages: _leading(pages, lambda prefix: prefix, self.sent[worker]))),
    ("overlap", "leading pages count where the worker had each at its place: after another beginning the same page is "
     "another one", _with(known=lambda self, worker, pages: _leading(enumerate(pages), enumerate, self.sent[worker]))),
    ("last_prompt_alone", "a worker is known by its last prompt: keep what it was sent before", _LastPrompt),
    ("tie_by_number", "of workers that know equally much the one with the smallest number is taken, not the least busy",
     _with(order=lambda self, worker, pages, loads: (-self.known(worker, pages), worker))),
    ("tie_to_the_busiest", "of workers that know equally much the busiest is taken",
     _with(order=lambda self, worker, pages, loads: (-self.known(worker, pages), -loads[worker], worker))),
    ("tie_to_the_last", "of workers that know equally much and are equally busy the last one is taken, not the first",
     _with(order=lambda self, worker, pages, loads: (-self.known(worker, pages), loads[worker], -worker))),
    ("load_and_pages_mixed", "a page known is worth one token less that waits. Among the workers that may be taken the "
     "longest prefix decides first",
     _with(order=lambda self, worker, pages, loads: (loads[worker] - self.known(worker, pages), worker))),
    ("by_first_page", "the first page's number decides, modulo the workers, whatever waits there",
     _with(route=lambda self, pages, loads: pages[0] % len(loads))),
)  # fmt: skip


def diagnose(evidence):
    """Diagnosis of wrong choices, or None."""
    failing = evidence.failing_by_values()
    if not failing:
        return None
    code, start = _first_broken(failing[0])
    if code == "no_such_worker":
        return Diagnosis(code, start)
    start = f"{start} {_whole_trace(failing[-1])}"
    for known, words, router in _MISTAKES:
        cases = [*failing, *evidence.passing()]
        if all(_chosen(c) == run(_new(router, c.case), c.case, c.inputs)[0] for c in cases):
            return Diagnosis(known, f"{start} It is what comes when {words}.")
    if _shared(evidence.cases):
        return Diagnosis("state_shared", f"{start} It is what comes when routers share what they remember: a new one "
                         "begins with nothing, so make it in __init__.")  # fmt: skip
    passing = evidence.passing()
    if passing and min(map(_prompts_each, failing)) > max(map(_prompts_each, passing)):
        text = f"{start} All is right where a worker has had at most {max(map(_prompts_each, passing)):.0f} prompts"
        if code == "prefix_missed":
            return Diagnosis("prompts_forgotten", f"{text}: it knows every request that was ever sent there.")
    return Diagnosis(code, start)


def _prompts_each(case):
    """Requests for each worker of a case."""
    return case.case.sizes["num_requests"] / case.case.sizes["num_workers"]


def _chosen(case):
    return case.first.outputs["chosen"].tolist()


def _shared(cases):
    """Whether every case goes on with the prefixes that the case before has left."""
    sent = {}
    for case in cases:
        router = _new(Right, case.case)
        for worker in range(len(router.sent)):
            router.sent[worker] = sent.setdefault(worker, set())
        if run(router, case.case, case.inputs)[0] != _chosen(case):
            return False
    return True


def _first_broken(case):
    """(code, words) of the first request whose worker is not the contract's."""
    chosen, wanted = _chosen(case), case.ref["chosen"].long().tolist()
    number = next(i for i, (one, other) in enumerate(zip(chosen, wanted, strict=True)) if one != other)
    sizes, got, want = case.case.sizes, chosen[number], wanted[number]
    start = f"Case {case.case.name!r}, {sizes['num_workers']} workers: request {number} goes to worker {got}"
    if not 0 <= got < sizes["num_workers"]:
        return "no_such_worker", f"{start}; there are 0 to {sizes['num_workers'] - 1}."
    _, before, _ = run(chosen, case.case, case.inputs)
    loads, router = before[number], _new(Right, case.case)
    prompts = _prompts(case)
    for worker, pages in zip(chosen[:number], prompts, strict=False):
        router.remember(worker, pages)
    known = [router.known(worker, prompts[number]) for worker in (got, want)]
    facts = (
        f"{start} and should go to {want}: of its {len(prompts[number])} pages worker {got} knows {known[0]} and "
        f"{want} knows {known[1]}; {loads[got]} and {loads[want]} tokens wait there, max_extra is {sizes['max_extra']}."
    )
    if got not in router.allowed(loads):
        return "too_busy", facts
    return ("prefix_missed" if known[0] < known[1] else "wrong_tie"), facts


def _prompts(case):
    return [tuple(page for page in row if page >= 0) for row in case.inputs["prompts"].tolist()]


def _whole_trace(case):
    """What the choices of a case come to: pages found, and the most that waits beyond the smallest queue."""
    said, pages = [], sum(map(len, _prompts(case)))
    for chosen in (_chosen(case), case.ref["chosen"].long().tolist()):
        if not all(0 <= worker < case.case.sizes["num_workers"] for worker in chosen):
            return ""
        _, before, found = run(chosen, case.case, case.inputs)
        extra = max(loads[worker] - min(loads) for worker, loads in zip(chosen, before, strict=True))
        said.append((f"{sum(found) / pages:.0%}", f"{extra:,}"))
    (share, extra), (by_rule, rule_extra) = said
    return (
        f"In all of {case.case.name!r} {share} of the pages are found, by the contract {by_rule}, and a request waits "
        f"behind up to {extra} tokens more than elsewhere, by the contract {rule_extra}."
    )

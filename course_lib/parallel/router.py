"""Which replica serves a prompt: in turn, where least waits, or where its beginning is already cached.

A router sees prompts, lists of tokens, and the loads of the replicas, tokens that wait at each; what a replica is does
not concern it. It remembers what it sent, so what it expects to be cached is a guess: a replica evicts on its own.

Source: V. Srivatsa et al., "Preble: Efficient Distributed Prompt Scheduling for LLM Serving", 2024, arXiv:2407.00023

May import: errors, expect, parallel.checked.
"""

from collections import OrderedDict

from .. import expect
from ..errors import WorldError
from .checked import counted

PAGE_SIZE = 16


def _loads(loads, num_replicas=None):
    """The loads as a list of numbers, one a replica."""
    expect.kind("loads", loads, (list, tuple), how="the tokens that wait at each replica", error=WorldError)
    if not loads or num_replicas not in (None, len(loads)):
        wanted = "at least one" if num_replicas is None else f"one for each of {num_replicas} replicas"
        raise WorldError(f"there are {len(loads)} loads; expected {wanted}.")
    return [expect.real("a load", load, 0, error=WorldError) for load in loads]


@counted
def page_keys(prompt, page_size=PAGE_SIZE):
    """A key for each whole page of a prompt, of all tokens up to its end: equal where the whole beginning is equal."""
    prompt = expect.tokens("prompt", prompt, error=WorldError)
    keys, before = [], 0
    for end in range(page_size, len(prompt) + 1, page_size):
        before = hash((before, *prompt[end - page_size : end]))
        keys.append(before)
    return keys


class RoundRobin:
    """One replica after the other."""

    @counted
    def __init__(self, num_replicas):
        self.num_replicas, self.next = num_replicas, 0

    def route(self, prompt, loads):
        _loads(loads, self.num_replicas)
        replica, self.next = self.next, (self.next + 1) % self.num_replicas
        return replica


class LeastLoaded:
    """The replica where the fewest tokens wait; of equals the first."""

    def route(self, prompt, loads):
        loads = _loads(loads)
        return min(range(len(loads)), key=lambda replica: (loads[replica], replica))


class PrefixAffinity:
    """The replica that knows most of the prompt, of those whose load is at most `max_extra` above the smallest.

    Attributes
    ----------
    known : list of OrderedDict, the keys of the pages that each replica should hold, the least recently used first
    """

    @counted
    def __init__(self, num_replicas, max_extra, *, page_size=PAGE_SIZE, capacity=None):
        """max_extra : tokens; capacity : pages that a replica's cache holds, or None: it forgets nothing."""
        max_extra = expect.real("max_extra", max_extra, 0, error=WorldError)
        capacity = None if capacity is None else expect.whole("capacity", capacity, 0, error=WorldError)
        self.known = [OrderedDict() for _ in range(num_replicas)]
        self.max_extra, self.page_size, self.capacity = max_extra, page_size, capacity

    def matched(self, keys, replica):
        """Pages of a prompt, from its beginning, that a replica should hold."""
        count = 0
        while count < len(keys) and keys[count] in self.known[replica]:
            count += 1
        return count

    # region: route
    def route(self, prompt, loads):
        """The number of a replica; what it computes for the prompt is remembered."""
        loads = _loads(loads, len(self.known))
        keys, limit = page_keys(prompt, self.page_size), min(loads) + self.max_extra
        allowed = [replica for replica in range(len(loads)) if loads[replica] <= limit]
        best = min(allowed, key=lambda replica: (-self.matched(keys, replica), loads[replica], replica))
        self.remember(keys, best)
        return best

    # endregion

    def remember(self, keys, replica):
        """A replica has these pages now; its oldest ones go where it has no room."""
        known = self.known[replica]
        for key in reversed(keys):  # a prefix is used after what follows it, so it is evicted later
            known[key] = True
            known.move_to_end(key)
        while self.capacity is not None and len(known) > self.capacity:
            known.popitem(last=False)


class Replica:
    """A stand-in for a server: a cache of pages, the least recently used evicted, and a queue of tokens.

    Attributes
    ----------
    computed, cached : int, tokens of prompts that it computed, and that it had
    load : tokens that wait
    """

    @counted
    def __init__(self, capacity=None, page_size=PAGE_SIZE):
        self.cache, self.load, self.computed, self.cached = PrefixAffinity(1, 0, capacity=capacity), 0.0, 0, 0
        self.cache.page_size = self.page_size = page_size

    def submit(self, prompt):
        """Take a prompt; returns the tokens that it has to compute."""
        prompt = expect.tokens("prompt", prompt, error=WorldError)
        if not prompt:
            raise WorldError("the prompt is empty; a replica computes at least one token of it.")
        keys = page_keys(prompt, self.page_size)
        had = min(self.cache.matched(keys, 0) * self.page_size, len(prompt) - 1)  # the last token gives the logits
        self.cache.remember(keys, 0)
        self.computed, self.cached, self.load = (
            self.computed + len(prompt) - had, self.cached + had, self.load + len(prompt) - had,
        )  # fmt: skip
        return len(prompt) - had

    def work(self, num_tokens):
        """Compute tokens that wait."""
        num_tokens = expect.real("num_tokens", num_tokens, 0, error=WorldError)
        self.load = max(0.0, self.load - num_tokens)


def route_all(router, prompts, replicas, pause=0.0):
    """Send prompts to replicas, which compute `pause` tokens each between two of them.

    Returns
    -------
    (chosen, waits) : the replica of each prompt, and the tokens that waited there before it
    """
    if not callable(getattr(router, "route", None)):
        raise WorldError(f"router is {expect.shown(router)}; expected one with route(prompt, loads), as RoundRobin(2).")
    for name, value in (("prompts", prompts), ("replicas", replicas)):
        expect.kind(name, value, (list, tuple), error=WorldError)
    for replica in replicas:
        expect.kind("a replica", replica, Replica, how="Replica() makes one", error=WorldError)
    expect.real("pause", pause, 0, error=WorldError)
    chosen, waits = [], []
    for prompt in prompts:
        loads = [replica.load for replica in replicas]
        number = router.route(prompt, loads)
        if not 0 <= number < len(replicas):
            raise WorldError(f"the router chose replica {number}; there are 0 to {len(replicas) - 1}.")
        chosen.append(number)
        waits.append(loads[number])
        replicas[number].submit(prompt)
        for replica in replicas:
            replica.work(pause)
    return chosen, waits

"""What must be true of a scheduler between any two calls.

May import: errors, request.
"""

from collections import Counter

from ..errors import ServingError
from .request import PENDING, State


def audit(scheduler):
    """Check pages, states and queues; ServingError or PageError with the first broken invariant."""
    config, cache, held = scheduler.config, scheduler.cache, Counter()
    for sequence in (*scheduler.running, *scheduler.waiting, *scheduler.leaving):
        _audit_sequence(config, sequence)
        _audit_tokens(config, sequence, scheduler.in_flight, cache.cached_pages())
        held.update(sequence.pages)
    _audit_pages(config, cache, held)
    cache.audit()
    if host := scheduler.tables.host:
        host.audit()
        kept = sum(len(sequence.host_pages) for sequence in scheduler.waiting)
        _require(kept == host.num_used, f"{kept} host pages are kept and {host.num_used} are counted.")
    for queue, states in ((scheduler.running, [State.RUNNING]), (scheduler.waiting, [State.WAITING, State.SWAPPED])):
        _require(all(each.state in states for each in queue), f"A sequence is queued among the {states[0].value}.")
        keys = [each.key for each in queue]
        _require(keys == sorted(keys), f"The queue of the {states[0].value} is out of order.")
    num_running, most = len(scheduler.running), config.max_num_seqs
    _require(num_running <= most, f"{num_running} sequences run; max_num_seqs is {most}.")


def _audit_pages(config, cache, held):
    """free + cached + held = all, and the references are those of the tables and of the cache."""
    cache.allocator.audit()
    cached = set(cache.cached_pages())
    for page in range(config.num_pages):
        tables, counted = held[page], cache.allocator.references(page)
        expected = tables + (page in cached)
        _require(expected == counted, f"Page {page} is in {tables} tables, and counted {counted} times.")
    idle = len(cached - held.keys())
    _require(idle == cache.num_evictable, f"{idle} pages are in no table; {cache.num_evictable} can be evicted.")
    total = cache.allocator.num_free + idle + len(held)
    _require(total == config.num_pages, f"Free, cached and held pages are {total}, not {config.num_pages}.")


def _audit_sequence(config, sequence):
    name, pages = sequence.name, sequence.pages or sequence.host_pages
    has_pages = sequence.state in (State.RUNNING, State.SWAPPED) or sequence.num_in_flight > 0
    expected = config.pages_for(sequence.num_computed) if has_pages else 0
    _require(len(set(pages)) == len(pages), f"{name!r} has a page twice in its table {pages}.")
    _require(
        len(pages) == expected,
        f"{name!r} ({sequence.state.value}) has {len(pages)} pages for {sequence.num_computed} tokens; not {expected}.",
    )
    on_host = sequence.state is State.SWAPPED
    _require(bool(sequence.host_pages) == on_host, f"{name!r} is {sequence.state.value}, its pages are elsewhere.")
    _require(sequence.num_produced <= sequence.request.max_new_tokens, f"{name!r} has more tokens than it asked for.")


def _audit_tokens(config, sequence, in_flight, cached):
    name = sequence.name
    flying = [piece for step in in_flight for piece in step.pieces if piece.sequence is sequence]
    _require(len(flying) == sequence.num_in_flight, f"{name!r} is in {len(flying)} steps in flight, not those counted.")
    if sequence.state is State.FINISHED:
        return
    pending, choosing = sequence.tokens.count(PENDING), sum(piece.samples for piece in flying)
    _require(pending == choosing, f"{name!r} waits for {pending} tokens; the steps in flight choose {choosing}.")
    _require(flying or sequence.num_new > 0, f"{name!r} has no token to compute, it can never go on.")
    computed = flying[0].start if flying else sequence.num_computed
    full, known = computed // config.page_size, sum(page in cached for page in sequence.pages)
    _require(known <= full, f"{name!r} has {full} full pages; {known} of its pages can be found.")


def _require(holds, sentence):
    if not holds:
        raise ServingError(sentence)

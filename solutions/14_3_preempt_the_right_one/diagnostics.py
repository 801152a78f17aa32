"""What make_room of 14.3 returns, and each usual mistake as an outcome of its own.

May import: subjects.plain_data.
"""

import re

from course_lib.grading.subjects.plain_data import same

ID, PRIORITY, ARRIVAL, PROMPT, OUTPUT, COMPUTED, PAGES = range(7)


def with_field(request, **changes):
    """A request with other fields, by their names in capitals."""
    places = {"prompt": PROMPT, "output": OUTPUT, "computed": COMPUTED, "pages": PAGES}
    request = list(request)
    for name, value in changes.items():
        request[places[name]] = value
    return tuple(request)


def _last(candidates, _asking, _order):
    return max(candidates, key=lambda one: (one[PRIORITY], one[ARRIVAL]))


def _need(request, page_size):
    return -(-(len(request[PROMPT]) + len(request[OUTPUT])) // page_size)


def _again(request):
    """A victim as it waits."""
    return with_field(request, computed=0, pages=())


def room(
    running, waiting, refs, page_size, *, victim=_last, need=_need, again=_again, into=lambda queue, one: [one, *queue],
    freed=lambda refs: refs - 1, safe="none", refuses=lambda num_pages, lacks, refs: num_pages > len(refs),
    of_refused=None, grown=True, stays=False, words=True, once=False, pick=min,
):  # fmt: skip
    """(running, waiting, refs, refused); each option is one mistake.

    `into`: the waiting queue with a victim; `freed`: what a victim does to the count of each page, `of_refused` a
    refused request; `safe`: "itself" or "served" are no victims; `grown`: pages taken in this step are released too;
    `stays`: a victim is in both queues; `once`: a request gets one page at most; `pick`: which free page
    """
    first = {request[ID]: tuple(request) for request in running}
    live, waiting, refs, refused, gone = dict(first), list(waiting), list(refs), [], {}
    order = list(live)
    for number in order:
        while number in live:
            request, num_pages = live[number], need(live[number], page_size)
            lacks = num_pages - len(request[PAGES])
            if lacks <= 0:
                break
            if refuses(num_pages, lacks, refs):
                refused.append((number, words and _need(request, page_size) in (num_pages, len(refs))))
                del live[number]
                _release(refs, request[PAGES], of_refused or freed)
            elif 0 in refs:
                page = pick(page for page, count in enumerate(refs) if not count)
                refs[page] = 1
                live[number] = with_field(request, pages=(*request[PAGES], page))
                if once:
                    break
            else:
                candidates = [one for one in live.values() if _may(one[ID], number, order, safe)]
                chosen = victim(candidates or [request], request, order)
                del live[chosen[ID]]
                gone[chosen[ID]] = again(chosen)
                _release(refs, chosen[PAGES] if grown else first[chosen[ID]][PAGES], freed)
                waiting = into(waiting, gone[chosen[ID]])
    left = [live.get(number, gone.get(number)) for number in order if number in live or stays and number in gone]
    return left, waiting, refs, refused


def _release(refs, pages, freed):
    for page in pages:
        refs[page] = freed(refs[page])


def _may(candidate, asking, order, safe):
    if safe == "itself":
        return candidate != asking
    return safe == "none" or order.index(candidate) >= order.index(asking)


# (code, words, what `room` does otherwise); each sentence goes on from "It is what comes when"
MISTAKES = (
    ("victim_oldest", "the request that arrived first is preempted. It has the most tokens to compute again, and is "
     "preempted again and again", {"victim": lambda them, asking, order: min(them, key=lambda one: one[ARRIVAL])}),
    ("victim_important", "the most important request is preempted. A small priority number is an important one",
     {"victim": lambda them, asking, order: max(them, key=lambda one: (-one[PRIORITY], one[ARRIVAL]))}),
    ("priority_ignored", "the request that arrived last is preempted, whatever its priority",
     {"victim": lambda them, asking, order: max(them, key=lambda one: one[ARRIVAL])}),
    ("arrival_ignored", "the last of `running` with the largest priority number is preempted. The order in `running` "
     "is that of the admissions; a request that was preempted before is late in it, however early it arrived",
     {"victim": lambda them, asking, order: max(them, key=lambda one: (one[PRIORITY], order.index(one[ID])))}),
    ("victim_last_of_list", "the last of `running` is preempted, whatever its priority and arrival",
     {"victim": lambda them, asking, order: max(them, key=lambda one: order.index(one[ID]))}),
    ("oldest_of_priority", "of the least important requests the one that arrived first is preempted",
     {"victim": lambda them, asking, order: max(them, key=lambda one: (one[PRIORITY], -one[ARRIVAL]))}),
    ("victim_asking", "the request that lacks a page is preempted itself. Then the oldest one, which grows most often, "
     "never ends", {"victim": lambda them, asking, order: asking}),
    ("victim_largest", "the request with the most pages is preempted, whatever its priority and arrival",
     {"victim": lambda them, asking, order: max(them, key=lambda one: (len(one[PAGES]), one[ARRIVAL]))}),
    ("never_itself", "a request never preempts itself. Where it is the last one by priority and arrival, it is the "
     "victim", {"safe": "itself"}),
    ("served_are_safe", "requests earlier in `running` are never preempted. All that run are candidates, those that "
     "have their pages for this step too", {"safe": "served"}),
    ("shared_page_freed", "the pages of a victim become free although other requests hold them. The next request then "
     "writes into a prefix that others read", {"freed": lambda refs: 0}),
    ("pages_not_released", "the pages of a victim are not released",
     {"freed": lambda refs: refs, "of_refused": lambda refs: refs - 1}),
    ("grown_pages_leak", "pages that a request got in this step are not released when it is preempted in it. Then "
     "no request holds them, and their count is 1", {"grown": False}),
    ("output_lost", "the output of a victim is gone. Its client has read these tokens; they are computed again, not "
     "drawn again", {"again": lambda one: with_field(one, output=(), computed=0, pages=())}),
    ("output_doubled", "the output of a victim is appended to its prompt and stays in its output. Then the tokens are "
     "there twice",
     {"again": lambda one: with_field(one, prompt=(*one[PROMPT], *one[OUTPUT]), computed=0, pages=())}),
    ("output_in_prompt", "the output of a victim becomes part of its prompt. Its client would get the later tokens "
     "alone, and max_tokens would begin anew",
     {"again": lambda one: with_field(one, prompt=(*one[PROMPT], *one[OUTPUT]), output=(), computed=0, pages=())}),
    ("computed_kept", "num_computed of a victim stays. Its keys and values are gone with its pages",
     {"again": lambda one: with_field(one, pages=())}),
    ("pages_kept", "a victim keeps the list of its pages. They belong to others soon",
     {"again": lambda one: with_field(one, computed=0)}),
    ("at_the_back", "a victim goes to the end of the waiting ones. It came before all of them",
     {"into": lambda queue, one: [*queue, one]}),
    ("victim_runs_too", "a victim is in `waiting` and still in `running`", {"stays": True}),
    ("never_refused", "a request that needs more pages than the pool has preempts all others and then itself. It "
     "comes back, and so does this step, for ever", {"refuses": lambda num_pages, lacks, refs: False}),
    ("refused_for_now", "a request is refused when the free pages do not suffice. The pool has enough; a victim has to "
     "give some back", {"refuses": lambda num_pages, lacks, refs: lacks > refs.count(0)}),
    ("refused_at_the_limit", "a request that needs exactly the whole pool is refused",
     {"refuses": lambda num_pages, lacks, refs: num_pages >= len(refs)}),
    ("refused_leaks", "the pages of a refused request are not released", {"of_refused": lambda refs: refs}),
    ("no_sentence", "the sentence of a refusal does not name both numbers, the pages that the request needs and those "
     "that the pool has", {"words": False}),
    ("page_order", "a request gets the free page of the largest number. The contract says the smallest", {"pick": max}),
    ("page_too_early", "a request gets a new page one token too early: len // page_size + 1. Where the last page is "
     "full and no token follows, none is needed",
     {"need": lambda one, size: (len(one[PROMPT]) + len(one[OUTPUT])) // size + 1}),
    ("page_too_late", "the number of pages is rounded down",
     {"need": lambda one, size: (len(one[PROMPT]) + len(one[OUTPUT])) // size}),
    ("output_not_counted", "pages are counted for the prompt alone",
     {"need": lambda one, size: -(-len(one[PROMPT]) // size)}),
    ("one_page_at_most", "a request gets one page in a step. One whose prompt goes on may lack several",
     {"once": True}),
)  # fmt: skip


def normal(call, got):
    """The result with True in place of a sentence that names both numbers, False in place of another one."""
    running, waiting, refs, refused = got
    return running, waiting, refs, [(number, not _lacks(call, number, sentence)) for number, sentence in refused]


def _lacks(call, number, sentence):
    """What the sentence of a refusal lacks, in words; "" when it names both numbers."""
    running, _, refs, page_size = call
    found = {int(digits) for digits in re.findall(r"\d+", sentence.replace(",", ""))}
    needed = next((_need(one, page_size) for one in running if one[ID] == number), None)
    numbers = ((needed, "the pages that the request needs"), (len(refs), "those of the pool"))
    lacking = [f"{count}, {what}" for count, what in numbers if count not in found]
    return ", and ".join(lacking) or "words: it has fewer than four" * (len(sentence.split()) < 4)


def explain(call, got):
    """(code, words) of a result that contradicts itself, or None."""
    running, waiting, refs, _ = got
    held = [sum(page in request[PAGES] for request in running) for page in range(len(refs))]
    wrong = next((page for page, count in enumerate(held) if count != refs[page]), None)
    if len(refs) != len(call[2]):
        return "refs_wrong", f"refs has {len(refs)} counts, and the pool {len(call[2])} pages."
    if wrong is not None:
        return "refs_wrong", f"{held[wrong]} running requests hold page {wrong}, and its count is {refs[wrong]}."
    return None


def say(call, got, right):
    """The facts of one wrong result."""
    running, waiting, refs, page_size = call
    queue = ", ".join(
        f"{one[ID]} (priority {one[PRIORITY]}, arrival {one[ARRIVAL]}, {len(one[PROMPT])} + {len(one[OUTPUT])} tokens, "
        f"pages {list(one[PAGES])})"
        for one in running[:4]
    )
    queue += ", …" * (len(running) > 4)
    said = f"Running {queue}; {len(waiting)} waiting; {len(refs)} pages of {page_size} tokens"
    names = ("running", "waiting", "refs", "refused")
    name, mine, want, raw = next(
        one for one in zip(names, normal(call, got), right, got, strict=True) if not same(*one[1:3])
    )
    if name == "refused" and same([one[0] for one in mine], [one[0] for one in want]):
        return f"{said}: the sentence " + next(
            f"of request {one[0]} is {one[1][:120]!r} and lacks {lacks}."
            for one in raw
            if (lacks := _lacks(call, *one))
        )
    return f"{said}: {name} is {_short(name, mine)} and should be {_short(name, want)}."


def _short(name, value):
    if name in ("running", "waiting"):
        said = [
            f"{one[ID]} ({len(one[PROMPT])} + {len(one[OUTPUT])} tokens, {one[COMPUTED]} computed, "
            f"pages {list(one[PAGES])})"
            for one in value[:4]
        ]
        return f"[{', '.join(said)}{', …' * (len(value) > 4)}]"
    if name == "refused":
        return f"[{', '.join(str(number) for number, _ in value)}]"
    return str(list(value[:40]))

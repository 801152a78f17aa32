"""The lists of a step of 14.2, and each usual mistake as lists of its own.

May import: nothing of the course.
"""

NAMES = ("token_ids", "positions", "slots", "query_starts", "seq_lens", "sample_rows")


def _slot(position, _start, pages, page_size):
    return pages[position // page_size] * page_size + position % page_size


def _ends(end, tokens, _num_prompt):
    return end == len(tokens)


def assembled(
    requests, page_size, *, rows=lambda computed, new, tokens: range(computed, computed + new), slot=_slot,
    token=lambda position, start: position, position=lambda position, start: position, samples=_ends,
    row=lambda first, last, number: last, seq_len=lambda start, new, tokens: start + new, starts=list,
):  # fmt: skip
    """The six lists; each option is one mistake.

    `rows`: positions that are computed; `slot`, `token`, `position`: what a position becomes; `samples`: whether a
    request is sampled; `row`: where; `starts`: what becomes of query_starts
    """
    token_ids, positions, slots, query_starts, seq_lens, sample_rows = [], [], [], [0], [], []
    for number, (tokens, num_prompt, computed, new, pages) in enumerate(requests):
        first, computed_rows = len(positions), rows(computed, new, tokens)
        for place in computed_rows:
            token_ids.append(tokens[token(place, computed)])
            positions.append(position(place, computed))
            slots.append(slot(place, computed, pages, page_size))
        query_starts.append(len(positions))
        seq_lens.append(seq_len(computed, new, tokens))
        if samples(computed_rows[-1] + 1, tokens, num_prompt):
            sample_rows.append(row(first, len(positions) - 1, number))
    return token_ids, positions, slots, starts(query_starts), seq_lens, sample_rows


def _from_chunk(position, start):
    return position - start


# (code, words, what `assembled` does otherwise); each sentence goes on from "It is what comes when"
MISTAKES = (
    ("positions_restart", "positions count from 0 in every chunk. RoPE and the mask then read the second chunk as a "
     "new text: a token keeps its place in the sequence", {"position": _from_chunk}),
    ("tokens_restart", "every chunk takes the first tokens of the request. It goes on at token num_computed",
     {"token": _from_chunk}),
    ("slots_restart", "the slots of every chunk begin in the first page of the request. The keys of the chunks before "
     "are overwritten", {"slot": lambda p, start, pages, size: _slot(p - start, 0, pages, size)}),
    ("all_restart", "tokens, positions and slots count from 0 in every chunk", {
        "position": _from_chunk, "token": _from_chunk,
        "slot": lambda p, start, pages, size: _slot(p - start, 0, pages, size)}),
    ("page_border", "the slots of a chunk run on from its first one. At the end of a page the next page of the "
     "request follows, wherever that is in the pool",
     {"slot": lambda p, start, pages, size: _slot(start, start, pages, size) + p - start}),
    ("logical_slots", "the slot is the position itself. Page position // page_size of the request is page "
     "pages[position // page_size] of the pool", {"slot": lambda p, start, pages, size: p}),
    ("offset_forgotten", "every token of a page gets the slot where the page begins",
     {"slot": lambda p, start, pages, size: pages[p // size] * size}),
    ("slot_late", "the slot is that of the next token",
     {"slot": lambda p, start, pages, size: pages[min((p + 1) // size, len(pages) - 1)] * size + (p + 1) % size}),
    ("whole_request", "all tokens that are not computed yet are in the step. num_new of them are",
     {"rows": lambda computed, new, tokens: range(computed, len(tokens)),
      "seq_len": lambda start, new, tokens: len(tokens)}),
    ("computed_again", "the computed tokens are in the step once more",
     {"rows": lambda computed, new, tokens: range(computed + new)}),
    ("sampled_each_chunk", "every chunk is sampled. Only the last known token says what comes next; a token drawn "
     "after half a prompt is part of no answer", {"samples": lambda end, tokens, num_prompt: True}),
    ("sampled_after_prompt", "a request is sampled as soon as its prompt is computed. After a preemption the produced "
     "tokens are computed again, and the answer would get tokens twice",
     {"samples": lambda end, tokens, num_prompt: end >= num_prompt}),
    ("sampled_at_prompt", "a request is sampled where its prompt ends, and never after",
     {"samples": lambda end, tokens, num_prompt: end == num_prompt}),
    ("sampled_when_decoding", "only requests with produced tokens are sampled. The last chunk of a prompt gives the "
     "first token", {"samples": lambda end, tokens, num_prompt: end == len(tokens) > num_prompt}),
    ("sampled_one_early", "a request is sampled when one of its tokens is still missing too",
     {"samples": lambda end, tokens, num_prompt: end >= len(tokens) - 1}),
    ("sampled_by_value", "a request is sampled where the last token of its chunk has the id of its last known token. "
     "The same id may stand earlier: the position decides",
     {"samples": lambda end, tokens, num_prompt: tokens[end - 1] == tokens[-1]}),
    ("never_sampled", "no request is sampled", {"samples": lambda end, tokens, num_prompt: False}),
    ("request_as_row", "sample_rows holds the number of the request. The step's tokens are in one list, and a request "
     "has num_new of them", {"row": lambda first, last, number: number}),
    ("first_row", "the first row of a request is sampled. Its last one has seen all tokens",
     {"row": lambda first, last, number: first}),
    ("row_beyond", "the row after a request's last one is sampled", {"row": lambda first, last, number: last + 1}),
    ("whole_seq_len", "seq_lens holds all known tokens. Those after the chunk have no keys yet: the attention would "
     "read slots that nothing was written to", {"seq_len": lambda start, new, tokens: len(tokens)}),
    ("seq_len_of_chunk", "seq_lens holds the tokens of the chunk. They attend to all tokens before them too",
     {"seq_len": lambda start, new, tokens: new}),
    ("seq_len_before", "seq_lens holds the tokens before the chunk. Its own keys are written in this step, before the "
     "attention", {"seq_len": lambda start, new, tokens: start}),
    ("no_zero", "query_starts lacks the 0 at its beginning", {"starts": lambda starts: starts[1:]}),
    ("no_end", "query_starts lacks the number of rows at its end", {"starts": lambda starts: starts[:-1]}),
    ("lengths_for_starts", "query_starts holds the number of rows of each request, not their running sum",
     {"starts": lambda starts: [0, *(b - a for a, b in zip(starts, starts[1:], strict=False))]}),
)  # fmt: skip


def say(call, got, right):
    """The facts of the first list that is wrong."""
    requests, page_size = call
    name, mine, want = next(
        (name, list(a), list(b)) for name, a, b in zip(NAMES, got, right, strict=True) if list(a) != list(b)
    )
    said = ", ".join(
        f"{computed} of {len(tokens)} tokens computed, {new} new, pages {_short(pages)}"
        for tokens, _, computed, new, pages in requests[:2]
    )
    more = f" and {len(requests) - 2} more" if len(requests) > 2 else ""
    at = next((i for i, (a, b) in enumerate(zip(mine, want, strict=False)) if a != b), min(len(mine), len(want)))
    return (
        f"{said or 'No request'}{more}, pages of {page_size}: {name} is {_short(mine[at:])} from place {at} on and "
        f"should be {_short(want[at:])}."
    )


def _short(numbers):
    return f"[{', '.join(map(str, numbers[:6]))}{', …' * (len(numbers) > 6)}]"

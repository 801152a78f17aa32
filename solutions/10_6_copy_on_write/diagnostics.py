"""Diagnoses of a page pool: the first step after which its state is wrong, and how.

May import: verdict, traces.
"""

from dataclasses import dataclass

from course_lib.grading.report.verdict import Diagnosis

from .traces import APPEND, FORK, Model, say


@dataclass
class State:
    """State of a pool after a step."""

    refused: bool
    slots: list
    copies: list  # of (from page, to page)
    free: list
    holders: list
    tables: dict  # name -> pages
    num_tokens: dict  # name -> tokens
    num_names: int  # entries of num_tokens


def read(log):
    """Yield the State of every step from the log of `replay`."""
    position = 0

    def part():
        nonlocal position
        begin, position = position + 1, position + 1 + log[position]
        return log[begin:position]

    while position < len(log):
        refused, num_tables, num_names = part()
        slots, flat, free, holders = part(), part(), part(), part()
        tables = [part() for _ in range(num_tables)]
        yield State(
            bool(refused),
            slots,
            list(zip(flat[::2], flat[1::2], strict=False)),
            free,
            holders,
            {table[0]: table[2:] for table in tables},
            {table[0]: table[1] for table in tables},
            num_names,
        )


def first_mistake(name, sizes, trace, log):
    """Diagnosis of the first step that goes wrong, or None."""
    judge, steps = _Judge(name, **sizes), list(read(log))
    for number, (step, state) in enumerate(zip(trace, steps, strict=False), 1):
        diagnosis = judge.after(number, step, state)
        if diagnosis is not None:
            return diagnosis
    if len(steps) < len(trace):
        return Diagnosis(
            "exception",
            f"Case {name!r}, pages of {sizes['page_size']}, step {len(steps) + 1}, {say(trace[len(steps)])}: it raised "
            "an exception; the output shows its line. The state was right after every step before it.",
        )
    return None


class _Judge:
    """Follows a trace with a pool of its own, and keeps what a memory would hold after the copies and writes."""

    def __init__(self, name, num_pages, page_size):
        self.name, self.num_pages, self.page_size = name, num_pages, page_size
        self.model, self.memory = Model(num_pages, page_size), [None] * (num_pages * page_size)
        self.before = State(False, [], [], list(range(num_pages)), [0] * num_pages, {}, {}, 0)

    def after(self, number, step, state):
        """Diagnosis of this step, or None."""
        kind, name, value = step
        needed = self.model.needed(name, value) if kind == APPEND else (0, False)
        free, made = self.model.num_free, self.model.made
        refused = self.model.step(*step)
        self.start = f"Case {self.name!r}, pages of {self.page_size}, step {number}, {say(step)}"
        diagnosis = self._refusal(refused, needed, free, state)
        if diagnosis is None and not refused:
            looks = (self._fork, self._state)
            if kind == APPEND:
                looks = (self._count_pages, self._copies, self._state, self._slots)
            for look in looks:
                diagnosis = diagnosis or look(step, state, needed)
            if diagnosis is None and kind == APPEND:
                self._write(state, range(made, self.model.made))
            diagnosis = diagnosis or self._tokens(state)
        self.before = state
        return diagnosis

    def _say(self, code, words):
        return Diagnosis(code, f"{self.start}: {words}.")

    def _refusal(self, refused, needed, free, state):
        """OutOfPages when it must be raised, only then, and with nothing changed."""
        total = sum(needed)
        if refused and not state.refused:
            return self._say("not_refused", f"{total} pages are needed and {free} are free; OutOfPages was not raised")
        if state.refused and not refused:
            return self._say(
                "refused_without_need", f"{total} pages are needed and {free} are free, yet OutOfPages came"
            )
        if not refused:
            return None
        for what, now, then in (
            ("free_pages", state.free, self.before.free),
            ("holders", state.holders, self.before.holders),
            ("the pages of a sequence", state.tables, self.before.tables),
            ("num_tokens", state.num_tokens, self.before.num_tokens),
        ):
            if now != then:
                return self._say(
                    "changed_after_refusal",
                    f"OutOfPages was raised, and {what} changed all the same, from {then} to {now}. Count what is "
                    "needed before you take the first page",
                )
        return None

    def _fork(self, step, state, _needed):
        """A child has its parent's pages, in a list of its own."""
        kind, name, value = step
        if kind == FORK and value not in state.tables:
            return self._say("sequences", f"there is no sequence {value} in pages afterwards")
        if kind == FORK and state.tables.get(value) != self.before.tables[name]:
            return self._say(
                "fork_copies",
                f"the child holds the pages {state.tables.get(value)}, its parent {self.before.tables[name]}. A fork "
                "shares all pages and takes none",
            )
        return None

    def _state(self, step, state, _needed):
        """Nothing free twice, free and held, or lost; holders counts tables; no sequence has a page too many."""
        name = step[1]
        if set(state.tables) != set(self.model.tokens):
            return self._say(
                "sequences",
                f"pages has the sequences {sorted(state.tables)}; it must have {sorted(self.model.tokens)}",
            )
        if state.num_names != len(state.tables):
            return self._say(
                "name_kept",
                f"num_tokens has {state.num_names} sequences, pages {len(state.tables)}: free removes a name from both",
            )
        held = [page for table in state.tables.values() for page in table]
        for other, table in state.tables.items():
            if other != name and other in self.before.tables and table != self.before.tables[other]:
                return self._say(
                    "table_shared",
                    f"the pages of sequence {other} changed from {self.before.tables[other]} to {table}, though "
                    "nothing was appended to it. Does a fork have a list of its own?",
                )
        for page in range(self.num_pages):
            count = held.count(page)
            if state.free.count(page) > 1:
                return self._say("free_twice", f"page {page} is in free_pages {state.free.count(page)} times")
            if count and page in state.free:
                owners = [other for other, table in state.tables.items() if page in table]
                return self._say("free_and_held", f"page {page} is free, and sequence {owners[0]} still holds it")
            if not count and page not in state.free:
                return self._say(
                    "page_lost",
                    f"no sequence holds page {page}, and it is not free: {len(state.free)} free and {len(set(held))} "
                    f"held pages make {len(state.free) + len(set(held))} of {self.num_pages}",
                )
            if state.holders[page] != count:
                return self._say(
                    "count_wrong", f"page {page} is in {count} tables, and holders says {state.holders[page]}"
                )
        return None

    def _count_pages(self, step, state, _needed):
        """As many tokens as were appended, and as many pages as they take."""
        name = step[1]
        tokens, pages = len(self.model.tokens[name]), state.tables[name]
        if state.num_tokens[name] != tokens:
            return self._say(
                "num_tokens", f"sequence {name} has {tokens} tokens, num_tokens says {state.num_tokens[name]}"
            )
        right = -(-tokens // self.page_size)
        if len(pages) != right:
            return self._say("wrong_page_count", f"{tokens} tokens take {right} pages; the sequence has {len(pages)}")
        return None

    def _copies(self, step, state, needed):
        """A copy where the last page is shared and not full, and nowhere else."""
        name = step[1]
        then, now = self.before.tables[name], state.tables[name]
        if not needed[1]:
            if not state.copies:
                return None
            source = state.copies[0][0]
            full = self.before.num_tokens[name] % self.page_size == 0
            why = "it is full, so it is not written again" if full else f"sequence {name} alone holds it"
            return self._say("copied_full_page" if full else "copied_unshared", f"page {source} was copied; {why}")
        last, others = then[-1], self.before.holders[then[-1]] - 1
        slot = self.before.num_tokens[name] % self.page_size
        if now[len(then) - 1] == last:
            return self._say(
                "shared_page_written",
                f"the new token goes to slot {slot} of page {last}, which {others} other sequence"
                f"{'s hold' if others > 1 else ' holds'} too. Copy it to a free page first",
            )
        right = [(last, now[len(then) - 1])]
        if state.copies == [pair[::-1] for pair in right]:
            return self._say(
                "copy_reversed", f"the copy goes from page {right[0][1]} to {last}; {last} holds the tokens"
            )
        if state.copies != right:
            return self._say("copy_missing", f"copies is {state.copies}; it must be {right}")
        return None

    def _slots(self, step, state, _needed):
        """The slots are those of the new tokens, by the table."""
        _, name, count = step
        end, pages, size = state.num_tokens[name], state.tables[name], self.page_size
        right = [pages[t // size] * size + t % size for t in range(end - count, end)]
        if state.slots == right:
            return None
        token = next((i for i, (a, b) in enumerate(zip(state.slots, right, strict=False)) if a != b), len(state.slots))
        got = state.slots[token] if token < len(state.slots) else "missing"
        return self._say(
            "wrong_slot",
            f"new token {token} is token {end - count + min(token, count - 1)} of the sequence, whose pages are "
            f"{pages}: slot {right[min(token, count - 1)]}; here it is {got}",
        )

    def _write(self, state, tokens):
        for source, target in state.copies:
            source_start, target_start = source * self.page_size, target * self.page_size
            copied = self.memory[source_start : source_start + self.page_size]
            self.memory[target_start : target_start + self.page_size] = copied
        for slot, token in zip(state.slots, tokens, strict=True):
            self.memory[slot] = token

    def _tokens(self, state):
        """Every sequence reads back what was written for it."""
        for name, tokens in self.model.tokens.items():
            pages, size = state.tables[name], self.page_size
            for i, token in enumerate(tokens):
                if i // size >= len(pages) or self.memory[pages[i // size] * size + i % size] != token:
                    return self._say(
                        "tokens_lost", f"token {i} of sequence {name} is no longer what was written for it"
                    )
        return None

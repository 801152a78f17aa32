"""What the books of a page pool say: the first step after which they are wrong, and in what.

May import: verdict, traces.
"""

from dataclasses import dataclass

from course_lib.grading.report.verdict import Diagnosis

from .traces import APPEND, FORK, Model, say


@dataclass
class Books:
    """What a pool said after a step."""

    refused: bool
    slots: list
    copies: list  # of (from page, to page)
    free: list
    holders: list
    tables: dict  # name -> pages
    num_tokens: dict  # name -> tokens


def read(log):
    """Yield the Books of every step from the log of `replay`."""
    at = 0

    def part():
        nonlocal at
        found = log[at + 1 : at + 1 + log[at]]
        at += 1 + log[at]
        return found

    while at < len(log):
        refused, num_tables = part()
        slots, flat, free, holders = part(), part(), part(), part()
        tables = [part() for _ in range(num_tables)]
        yield Books(
            bool(refused),
            slots,
            list(zip(flat[::2], flat[1::2], strict=False)),
            free,
            holders,
            {table[0]: table[2:] for table in tables},
            {table[0]: table[1] for table in tables},
        )


def first_mistake(name, sizes, trace, log):
    """Diagnosis of the first step that goes wrong, or None."""
    judge, steps = _Judge(name, **sizes), list(read(log))
    for number, (step, books) in enumerate(zip(trace, steps, strict=False), 1):
        found = judge.after(number, step, books)
        if found is not None:
            return found
    if len(steps) < len(trace):
        return Diagnosis(
            "exception",
            f"Case {name!r}, pages of {sizes['page_size']}, step {len(steps) + 1}, {say(trace[len(steps)])}: it raised "
            "an exception, whose line stands in what was printed. All books were right up to there.",
        )
    return None


class _Judge:
    """Follows a trace with a pool of its own, and keeps what a memory would hold after the copies and writes."""

    def __init__(self, name, num_pages, page_size):
        self.name, self.num_pages, self.page_size = name, num_pages, page_size
        self.model, self.memory = Model(num_pages, page_size), [None] * (num_pages * page_size)
        self.before = Books(False, [], [], list(range(num_pages)), [0] * num_pages, {}, {})

    def after(self, number, step, books):
        """Diagnosis of this step, or None."""
        kind, name, value = step
        needed = self.model.needed(name, value) if kind == APPEND else (0, False)
        free, made = self.model.num_free, self.model.made
        refused = self.model.step(*step)
        self.start = f"Case {self.name!r}, pages of {self.page_size}, step {number}, {say(step)}"
        found = self._refusal(refused, needed, free, books)
        if found is None and not refused:
            looks = (self._fork, self._books)
            if kind == APPEND:
                looks = (self._count_pages, self._copies, self._books, self._slots)
            for look in looks:
                found = found or look(step, books, needed)
            if found is None and kind == APPEND:
                self._write(books, range(made, self.model.made))
            found = found or self._tokens(books)
        self.before = books
        return found

    def _say(self, code, words):
        return Diagnosis(code, f"{self.start}: {words}.")

    def _refusal(self, refused, needed, free, books):
        """OutOfPages when it must be raised, only then, and with nothing changed."""
        total = sum(needed)
        if refused and not books.refused:
            return self._say("not_refused", f"{total} pages are needed and {free} are free; OutOfPages was not raised")
        if books.refused and not refused:
            return self._say(
                "refused_without_need", f"{total} pages are needed and {free} are free, yet OutOfPages came"
            )
        if not refused:
            return None
        for what, now, then in (
            ("free_pages", sorted(books.free), sorted(self.before.free)),
            ("holders", books.holders, self.before.holders),
            ("the pages of a sequence", books.tables, self.before.tables),
            ("num_tokens", books.num_tokens, self.before.num_tokens),
        ):
            if now != then:
                return self._say(
                    "changed_after_refusal",
                    f"OutOfPages was raised, and {what} changed all the same, from {then} to {now}. Count what is "
                    "needed before you take the first page",
                )
        return None

    def _fork(self, step, books, _needed):
        """A child has its parent's pages, in a list of its own."""
        kind, name, value = step
        if kind == FORK and value not in books.tables:
            return self._say("sequences", f"there is no sequence {value} in pages afterwards")
        if kind == FORK and books.tables.get(value) != self.before.tables[name]:
            return self._say(
                "fork_copies",
                f"the child holds the pages {books.tables.get(value)}, its parent {self.before.tables[name]}. A fork "
                "shares all pages and takes none",
            )
        return None

    def _books(self, step, books, _needed):
        """Nothing free twice, free and held, or lost; holders counts tables; no sequence has a page too many."""
        name = step[1]
        if set(books.tables) != set(self.model.tokens):
            return self._say(
                "sequences",
                f"pages has the sequences {sorted(books.tables)}; it must have {sorted(self.model.tokens)}",
            )
        held = [page for table in books.tables.values() for page in table]
        for other, table in books.tables.items():
            if other != name and other in self.before.tables and table != self.before.tables[other]:
                return self._say(
                    "table_shared",
                    f"the pages of sequence {other} changed from {self.before.tables[other]} to {table}, and nobody "
                    "wrote to it. Does a fork have a list of its own?",
                )
        for page in range(self.num_pages):
            count = held.count(page)
            if books.free.count(page) > 1:
                return self._say("free_twice", f"page {page} stands in free_pages {books.free.count(page)} times")
            if count and page in books.free:
                owners = [other for other, table in books.tables.items() if page in table]
                return self._say("free_and_held", f"page {page} is free, and sequence {owners[0]} still holds it")
            if not count and page not in books.free:
                return self._say(
                    "page_lost",
                    f"nobody holds page {page}, and it is not free: {len(books.free)} free and {len(set(held))} held "
                    f"pages make {len(books.free) + len(set(held))} of {self.num_pages}",
                )
            if books.holders[page] != count:
                return self._say(
                    "count_wrong", f"page {page} stands in {count} tables, and holders says {books.holders[page]}"
                )
        return None

    def _count_pages(self, step, books, _needed):
        """As many tokens as were appended, and as many pages as they take."""
        name = step[1]
        tokens, pages = len(self.model.tokens[name]), books.tables[name]
        if books.num_tokens[name] != tokens:
            return self._say(
                "num_tokens", f"sequence {name} has {tokens} tokens, num_tokens says {books.num_tokens[name]}"
            )
        right = -(-tokens // self.page_size)
        if len(pages) != right:
            return self._say(
                "wrong_page_count", f"{tokens} tokens stand on {right} pages; the sequence has {len(pages)}"
            )
        return None

    def _copies(self, step, books, needed):
        """A copy where the last page is shared and not full, and nowhere else."""
        name = step[1]
        then, now = self.before.tables[name], books.tables[name]
        if not needed[1]:
            if not books.copies:
                return None
            source = books.copies[0][0]
            full = self.before.num_tokens[name] % self.page_size == 0
            why = "it is full, so nobody writes to it" if full else f"sequence {name} alone holds it"
            return self._say("copied_full_page" if full else "copied_unshared", f"page {source} was copied; {why}")
        last, others = then[-1], self.before.holders[then[-1]] - 1
        place = self.before.num_tokens[name] % self.page_size
        if now[len(then) - 1] == last:
            return self._say(
                "shared_page_written",
                f"the new token goes to place {place} of page {last}, which {others} other sequence"
                f"{'s hold' if others > 1 else ' holds'} too. Copy it to a free page first",
            )
        right = [(last, now[len(then) - 1])]
        if books.copies == [pair[::-1] for pair in right]:
            return self._say(
                "copy_reversed", f"the copy goes from page {right[0][1]} to {last}; {last} holds the tokens"
            )
        if books.copies != right:
            return self._say("copy_missing", f"copies is {books.copies}; it must be {right}")
        return None

    def _slots(self, step, books, _needed):
        """The slots are those of the new tokens, by the table."""
        _, name, count = step
        end, pages, size = books.num_tokens[name], books.tables[name], self.page_size
        right = [pages[t // size] * size + t % size for t in range(end - count, end)]
        if books.slots == right:
            return None
        token = next((i for i, (a, b) in enumerate(zip(books.slots, right, strict=False)) if a != b), len(books.slots))
        got = books.slots[token] if token < len(books.slots) else "missing"
        return self._say(
            "wrong_slot",
            f"new token {token} is token {end - count + min(token, count - 1)} of the sequence, whose pages are "
            f"{pages}: slot {right[min(token, count - 1)]}; here it is {got}",
        )

    def _write(self, books, tokens):
        for source, target in books.copies:
            at, to = source * self.page_size, target * self.page_size
            self.memory[to : to + self.page_size] = self.memory[at : at + self.page_size]
        for slot, token in zip(books.slots, tokens, strict=True):
            self.memory[slot] = token

    def _tokens(self, books):
        """Every sequence reads back what was written for it."""
        for name, tokens in self.model.tokens.items():
            pages, size = books.tables[name], self.page_size
            for i, token in enumerate(tokens):
                if i // size >= len(pages) or self.memory[pages[i // size] * size + i % size] != token:
                    return self._say(
                        "tokens_lost", f"token {i} of sequence {name} is no longer what was written for it"
                    )
        return None

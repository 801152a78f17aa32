"""Wrong answers to 10.6, each an edit of answer.py."""

from course_lib.grading.exercise.submissions import Wrong

SHARED = "shared = start % self.page_size > 0 and self.holders[pages[-1]] > 1"
NEEDED = "needed = -(-end // self.page_size) - len(pages) + shared"
GUARD = """        if needed > len(self.free_pages):
            raise OutOfPages(f"{needed} pages are needed, {len(self.free_pages)} are free")
"""
FRESH = "fresh = [self.free_pages.pop() for _ in range(needed)]"
COUNT = """        for page in fresh:
            self.holders[page] = 1
"""
COPY = "copies.append((pages[-1], fresh[0]))"
LEAVE = "            self.holders[pages[-1]] -= 1\n"
REPLACE = "            pages[-1] = fresh.pop(0)\n"
LENGTH = "        self.num_tokens[name] = end\n"
SLOTS = "slots = [pages[t // self.page_size] * self.page_size + t % self.page_size for t in range(start, end)]"
FORK = "self.pages[child], self.num_tokens[child] = list(self.pages[name]), self.num_tokens[name]"
FORK_COUNT = """        for page in self.pages[child]:
            self.holders[page] += 1
"""
FREE_COUNT = "            self.holders[page] -= 1\n            if self.holders[page] == 0:\n"
FREE = "self.free_pages.append(page)"

ONE_BY_ONE = """fresh = []
        for _ in range(needed):
            if not self.free_pages:
                raise OutOfPages
            fresh.append(self.free_pages.pop())"""
EARLY_SLOTS = f"""        pages += fresh[shared:]
        {SLOTS}
        del pages[len(pages) - needed + shared :]
        copies = []
"""


def one(find, text):
    """One edit."""
    return ((find, text),)


ANSWERS = [
    # sharing
    Wrong("never copies", one(SHARED, "shared = False"), "shared_page_written", "holds too"),
    Wrong(
        "copies whatever is not full",
        one(SHARED, "shared = start % self.page_size > 0"),
        "copied_unshared",
        "alone holds it",
    ),
    Wrong(
        "copies full pages as well",
        one(SHARED, "shared = start > 0 and self.holders[pages[-1]] > 1"),
        "copied_full_page",
        "it is full",
    ),
    Wrong(
        "copies the other way", one(COPY, "copies.append((fresh[0], pages[-1]))"), "copy_reversed", "holds the tokens"
    ),
    Wrong("says nothing of the copy", one(COPY, "pass"), "copy_missing", "it must be"),
    Wrong("the old page keeps its count", one(LEAVE, ""), "count_wrong", "holders says"),
    Wrong("the copy is not in the table", one(REPLACE, "            fresh.pop(0)\n"), "shared_page_written", "Copy it"),
    Wrong("fork without a count", one(FORK_COUNT, ""), "count_wrong", "is in 2 tables"),
    Wrong(
        "fork shares the list itself",
        one(FORK, FORK.replace("list(self.pages[name])", "self.pages[name]")),
        "table_shared",
        "a list of its own",
    ),
    Wrong(
        "fork copies",
        ((FORK, FORK.replace("list(self.pages[name])", "[self.free_pages.pop() for _ in self.pages[name]]")),),
        "fork_copies",
        "takes none",
    ),
    Wrong(
        "fork counts the last page alone",
        one(FORK_COUNT, "        if self.pages[child]:\n            self.holders[self.pages[child][-1]] += 1\n"),
        "count_wrong",
        "holders says",
    ),
    Wrong(
        "fork forgets half a page",
        one(
            FORK, FORK.replace("list(self.pages[name])", "self.pages[name][: self.num_tokens[name] // self.page_size]")
        ),
        "fork_copies",
        "its parent",
    ),
    # taking and giving back
    Wrong(
        "frees what others hold",
        one(FREE_COUNT, "            self.holders[page] -= 1\n            if True:\n"),
        "free_and_held",
        "still holds it",
    ),
    Wrong(
        "a count of 1 is free", one(FREE_COUNT, FREE_COUNT.replace("== 0", "<= 1")), "free_and_held", "still holds it"
    ),
    Wrong("gives nothing back", one(FREE, "pass"), "page_lost", "no sequence holds"),
    Wrong(
        "gives back without counting",
        one(FREE_COUNT, "            if self.holders[page] == 1:\n"),
        "count_wrong",
        "holders says",
    ),
    Wrong("gives back twice", one(FREE, "self.free_pages += [page, page]"), "free_twice", "2 times"),
    Wrong(
        "gives back the first page alone",
        one(FREE, "self.free_pages.append(page)\n                break"),
        "page_lost",
        "no sequence holds",
    ),
    Wrong(
        "an ended sequence is not removed",
        (
            ("for page in self.pages.pop(name):", "for page in self.pages[name]:"),
            ("        del self.num_tokens[name]\n", ""),
        ),
        "sequences",
        "it must have []",
    ),
    Wrong("new pages are not counted", one(COUNT, ""), "count_wrong", "holders says 0"),
    Wrong(
        "taken but not out of the list",
        one(FRESH, "fresh = self.free_pages[:needed]"),
        "free_and_held",
        "still holds it",
    ),
    Wrong(
        "one page more to be sure",
        one(NEEDED, "needed = end // self.page_size + 1 - len(pages) + shared"),
        "wrong_page_count",
        "4 tokens take 1",
    ),
    Wrong(
        "pages for the new tokens alone",
        one(NEEDED, "needed = -(-count // self.page_size) + shared"),
        "wrong_page_count",
        "4 tokens take 1",
    ),
    # OutOfPages
    Wrong(
        "takes before it counts",
        (
            (GUARD, ""),
            (
                FRESH,
                ONE_BY_ONE,
            ),
        ),
        "changed_after_refusal",
        "Count what is needed",
    ),
    Wrong(
        "length before the check",
        ((GUARD, LENGTH + GUARD), (LENGTH + "        slots", "        slots")),
        "changed_after_refusal",
        "num_tokens",
    ),
    Wrong(
        "keeps one page in reserve",
        one(GUARD, GUARD.replace("needed >", "needed >=")),
        "refused_without_need",
        "yet OutOfPages",
    ),
    Wrong(
        "the copy is not counted",
        one(GUARD, GUARD.replace("needed > ", "needed - shared > ")),
        "exception",
        "step 4",
    ),
    Wrong("never refuses", one(GUARD, ""), "exception", "step 4"),
    Wrong(
        "leaves the copied page before the check",
        ((LEAVE, ""), (GUARD, "        if shared:\n            self.holders[pages[-1]] -= 1\n" + GUARD)),
        "changed_after_refusal",
        "holders",
    ),
    # slots
    Wrong(
        "slots from the page's start",
        one(SLOTS, SLOTS.replace("t % self.page_size", "(t - start) % self.page_size")),
        "wrong_slot",
        "new token 0",
    ),
    Wrong(
        "slots of the sequence's pages",
        one(SLOTS, SLOTS.replace("pages[t // self.page_size]", "t // self.page_size")),
        "wrong_slot",
        "whose pages are",
    ),
    Wrong(
        "slots before the copy",
        (
            (LENGTH, ""),
            (SLOTS, "self.num_tokens[name] = end"),
            (
                "        copies = []\n",
                EARLY_SLOTS,
            ),
        ),
        "wrong_slot",
        "",
    ),
    Wrong("length not kept", one(LENGTH, ""), "num_tokens", "num_tokens says"),
]

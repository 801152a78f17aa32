"""Right answers to 10.6 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

BY_TOKEN = """\
room = -(-(start + count) // self.page_size) - len(pages)
        shared = start % self.page_size > 0 and self.holders[pages[-1]] > 1
        if room + shared > len(self.free_pages):
            raise OutOfPages
        slots, copies = [], []
        for token in range(start, end):
            if token % self.page_size == 0:
                pages.append(self.free_pages.pop(0))
                self.holders[pages[-1]] += 1
            elif self.holders[pages[-1]] > 1:
                page = self.free_pages.pop(0)
                copies.append((pages[-1], page))
                self.holders[pages[-1]], self.holders[page] = self.holders[pages[-1]] - 1, 1
                pages[-1] = page
            slots.append(pages[-1] * self.page_size + token % self.page_size)
        self.num_tokens[name] = end
"""

WHOLE = """\
        shared = start % self.page_size > 0 and self.holders[pages[-1]] > 1
        needed = -(-end // self.page_size) - len(pages) + shared
        if needed > len(self.free_pages):
            raise OutOfPages(f"{needed} pages are needed, {len(self.free_pages)} are free")
        fresh = [self.free_pages.pop() for _ in range(needed)]
        for page in fresh:
            self.holders[page] = 1
        copies = []
        if shared:
            copies.append((pages[-1], fresh[0]))
            self.holders[pages[-1]] -= 1
            pages[-1] = fresh.pop(0)
        pages += fresh
        self.num_tokens[name] = end
        slots = [pages[t // self.page_size] * self.page_size + t % self.page_size for t in range(start, end)]
"""

ANSWERS = [
    Right("token by token", ((WHOLE, "        " + BY_TOKEN),)),
    Right(
        "the first free page",
        (
            (
                "fresh = [self.free_pages.pop() for _ in range(needed)]",
                "fresh, self.free_pages = self.free_pages[:needed], self.free_pages[needed:]",
            ),
        ),
    ),
    Right(
        "the lowest page, and the copy takes the last of them",
        (
            (
                "fresh = [self.free_pages.pop() for _ in range(needed)]",
                "self.free_pages.sort(reverse=True)\n        fresh = [self.free_pages.pop() for _ in range(needed)]",
            ),
            ("copies.append((pages[-1], fresh[0]))", "copies.append((pages[-1], fresh[-1]))"),
            ("pages[-1] = fresh.pop(0)", "pages[-1] = fresh.pop()"),
        ),
    ),
    Right(
        "slice off",
        (
            (
                "        fresh = [self.free_pages.pop() for _ in range(needed)]",
                (
                    "        fresh = self.free_pages[len(self.free_pages) - needed:]\n"
                    "        del self.free_pages[len(self.free_pages) - needed:]"
                ),
            ),
        ),
    ),
    Right(
        "holders recounted",
        (
            (
                (
                    "            self.holders[page] -= 1\n"
                    "            if self.holders[page] == 0:\n"
                    "                self.free_pages.append(page)"
                ),
                (
                    "            self.holders[page] = sum(page in pages for pages in self.pages.values())\n"
                    "            if self.holders[page] == 0:\n"
                    "                self.free_pages.insert(0, page)"
                ),
            ),
        ),
    ),
    Right(
        "copies of lists",
        (
            (
                ("        if shared:\n            copies.append((pages[-1], fresh[0]))"),
                ("        if shared:\n            copies.append([pages[-1], fresh[0]])"),
            ),
        ),
    ),
]

"""What the evictions of 14.5 leave, and each usual mistake as an eviction of its own.

May import: subjects.plain_data.
"""

from itertools import takewhile

from course_lib.grading.subjects.plain_data import same

KEY, PARENT, PAGES, LOCKS, USED = range(5)


class Tree:
    """Rows of a table by number, with the numbers of their children."""

    def __init__(self, table):
        self.rows = {number: list(row) for number, row in enumerate(table)}
        self.below = {number: {} for number in self.rows}
        for number, row in list(self.rows.items())[1:]:
            self.below[row[PARENT]][row[KEY]] = number

    def reached(self, number=0):
        return [number, *(n for child in self.below[number].values() for n in self.reached(child))]

    def remove(self, number, which):
        """Remove "one", the node from its parent, "all" children of the parent, or "none"."""
        key, parent = self.rows[number][:PAGES]
        if which == "all":
            self.below[parent].clear()
        elif which == "one":
            self.below[parent].pop(key, None)

    def told(self):
        return [(n, *self._row(n)) for n in sorted(self.reached())]

    def _row(self, number):
        _, parent, pages, locks, used = self.rows[number]
        return parent if number else None, list(pages), locks, used


def _oldest(tree, number):
    return tree.rows[number][USED]


def evicted(
    table, amounts, *, order=_oldest, unlocked=lambda locks: locks == 0, inner=False,
    enough=lambda freed, n, pages: freed >= n, parents="leaves", cut=False, removed="one", counts=len,
):  # fmt: skip
    """[(freed, rows that remain), …] after each eviction; each option is one mistake.

    `order`: what the next leaf has least of; `unlocked`: which locks allow it; `inner`: nodes with children go too;
    `enough`: (freed, num_pages, pages of the next node) -> the end; `parents`: "leaves", "never", "at once" (others
    are left), "later" (when all first leaves are gone) or "locked" (locked ones too); `cut`: a node loses only what
    is lacking; `removed`: "one", "none" or "all" children of its parent; `counts`: what counts as freed
    """
    tree, found = Tree(table), []
    for amount in amounts:
        possible = tree.reached()[1:]
        leaves = [n for n in possible if unlocked(tree.rows[n][LOCKS]) and (inner or not tree.below[n])]
        freed, taken, later = [], [], []
        while leaves or later:
            leaves, later = (leaves, later) if leaves else (later, [])
            number = min(leaves, key=lambda n: (order(tree, n), n))
            _, parent, pages, _, _ = tree.rows[number]
            if enough(counts(freed) if counts is len else len(taken), amount, len(pages)):
                break
            leaves.remove(number)
            taken.append(number)
            lacks = amount - len(freed)
            if cut and len(pages) > lacks:
                freed += pages[len(pages) - lacks :]
                tree.rows[number][PAGES] = pages[: len(pages) - lacks]
                break
            freed += pages
            tree.remove(number, removed)
            if inner:
                leaves = [n for n in leaves if n in tree.reached()]
            may = parents == "locked" or unlocked(tree.rows[parent][LOCKS])
            ready = parent not in leaves + taken if parents == "at once" else not tree.below[parent]
            if parent and may and ready and parents != "never":
                (later if parents == "later" else leaves).append(parent)
        found.append((freed, tree.told()))
    return found


# (code, words, what `evicted` does otherwise); each sentence goes on from "It is what comes when"
MISTAKES = (
    ("most_recent", "the leaf that was used last goes first. It is the one that is most likely asked for again",
     {"order": lambda tree, n: -tree.rows[n][USED]}),
    ("by_age_of_node", "the leaf that was made first goes first, however recently it was used",
     {"order": lambda tree, n: n}),
    ("largest_first", "the leaf with the most pages goes first", {"order": lambda tree, n: -len(tree.rows[n][PAGES])}),
    ("smallest_first", "the leaf with the fewest pages goes first",
     {"order": lambda tree, n: len(tree.rows[n][PAGES])}),
    ("locked_evicted", "locks are ignored. A running request reads these pages in its next step",
     {"unlocked": lambda locks: True}),
    ("one_lock_evicted", "a node with one lock counts as free. That one request still reads it",
     {"unlocked": lambda locks: locks <= 1}),
    ("inner_evicted", "nodes with children are evicted too. Their children are then out of reach: no request finds "
     "their pages, and no eviction frees them", {"inner": True}),
    ("parents_never", "a parent whose last child was evicted never becomes a leaf. Its pages can be freed too",
     {"parents": "never"}),
    ("parents_at_once", "a parent is evicted while it has other children", {"parents": "at once"}),
    ("parents_later", "parents that became leaves wait until all first leaves are gone. They compete from then on, by "
     "last_used like the others", {"parents": "later"}),
    ("parents_locked", "a parent that became a leaf is evicted although it is locked", {"parents": "locked"}),
    ("one_too_many", "one more node goes when num_pages pages are free already",
     {"enough": lambda freed, n, pages: freed > n}),
    ("at_most", "the eviction ends before it would free more than num_pages. Fewer pages do not help who asked",
     {"enough": lambda freed, n, pages: freed + pages > n}),
    ("nodes_counted", "num_pages nodes are evicted. A node has several pages", {"counts": None}),
    ("node_cut", "only the pages that are lacking are taken from the last node. Whole nodes are evicted here",
     {"cut": True}),
    ("stays_in_tree", "evicted nodes stay in the tree. The next request with their prefix gets pages that belong to "
     "another one", {"removed": "none", "parents": "never"}),
    ("siblings_lost", "all children of the parent are removed. The others keep their pages, and no request finds them",
     {"removed": "all"}),
    ("all_leaves", "everything that may be evicted is, whatever num_pages says",
     {"enough": lambda freed, n, pages: False}),
    ("one_node", "one node is evicted, whatever num_pages says",
     {"enough": lambda freed, n, pages: freed > 0 or n == 0}),
)  # fmt: skip


def say(call, got, right):
    """The facts of the first eviction that is wrong."""
    table, amounts = call
    at = next(i for i, (a, b) in enumerate(zip(got, right, strict=True)) if not same(a, b))
    nodes = ", ".join(
        f"{number} (below {row[PARENT]}, pages {list(row[PAGES])}, locks {row[LOCKS]}, used {row[USED]})"
        for number, row in list(enumerate(table))[1:8]
    )
    begin = f"Nodes {nodes or 'none'}{', …' * (len(table) > 8)}; eviction {at + 1}, of {amounts[at]} pages,"
    (freed, rows), (wanted, remain) = got[at], right[at]
    if list(freed) != list(wanted):
        equal = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(freed, wanted, strict=False)))
        start = equal if equal > 8 else 0
        where = f" from place {start} on" * (start > 0)
        return f"{begin} freed {_short(freed[start:])}{where} and should free {_short(wanted[start:])}."
    numbers = [[row[0] for row in one] for one in (rows, remain)]
    if numbers[0] != numbers[1]:
        return f"{begin} leaves the nodes {_short(numbers[0])}; they should be {_short(numbers[1])}."
    row, want = next((a, b) for a, b in zip(rows, remain, strict=True) if not same(a, b))
    return f"{begin} leaves node {row[0]} with parent, pages, locks, last_used {row[1:]}; they should be {want[1:]}."


def _short(numbers):
    return f"[{', '.join(map(str, numbers[:12]))}{', …' * (len(numbers) > 12)}]"

"""What the operations of 14.4 give, and each usual mistake as a tree of its own.

May import: subjects.plain_data.
"""

from os.path import commonprefix

from course_lib.grading.subjects.plain_data import same


class Node:
    """As in the answer."""

    def __init__(self, key, pages, parent):
        self.key, self.pages, self.parent = key, pages, parent
        self.children, self.locks = {}, 0


def _equal(mine, theirs):
    return mine == theirs


def _short_of_one(tokens, size):
    return tokens[: (len(tokens) - 1) // size * size]


class Tree:
    """Roots by salt; each option is one mistake.

    `last`: (tokens, page_size) -> what may be matched; `equal`: whether two pages are the same; `partial`: "split",
    "whole" (a node matched in part is used in whole) or "none" (it is not used); `salted`: a root for each salt;
    `kept`: roots stay; `deep`: nodes below the first one are matched; `early`: one page of a node at most; `split`: the
    function that divides a node; `step`: tokens that are compared at once
    """

    def __init__(
        self, page_size, *, last=_short_of_one, equal=_equal, partial="split", salted=True, kept=True, deep=True,
        split=None, early=False, step=None,
    ):  # fmt: skip
        self.page_size, self.last, self.equal, self.partial, self.salted = page_size, last, equal, partial, salted
        self.kept, self.deep, self.split, self.early = kept, deep, split or _split, early
        self.step, self.roots = step or page_size, {}

    def match(self, salt, tokens):
        size, salt = self.page_size, salt if self.salted else ""
        if not self.kept:
            self.roots[salt] = Node((), (), None)
        node = self.roots.setdefault(salt, Node((), (), None))
        rest = self.last(tokens, size)
        while rest and rest[:size] in node.children:
            child, same = node.children[rest[:size]], size
            most = size if self.early else min(len(rest), len(child.key))
            while same < most and self.equal(rest[same : same + self.step], child.key[same : same + self.step]):
                same += self.step
            if same < len(child.key) and self.partial != "whole":
                if self.partial == "none":
                    break
                child = self.split(child, same, size)
            node, rest = child, rest[same:] if self.deep else ()
        return node

    def insert(self, salt, tokens, pages):
        size = self.page_size
        known = self.match(salt, (*tokens, -1))
        num_known = sum(len(node.pages) for node in path(known))
        rest = tokens[num_known * size : len(tokens) // size * size]
        if rest:
            known.children[rest[:size]] = Node(rest, pages[num_known : len(tokens) // size], known)


def path(node):
    return [node, *path(node.parent)] if node else []


def _split(node, num_tokens, size, *, locks=lambda node: node.locks, upper_pages=None, lower_pages=None, linked=True,
           up=True, moved=False):  # fmt: skip
    """The upper part of a node as a new one; each option is one mistake."""
    num_pages = num_tokens // size
    upper = Node(
        node.key[:num_tokens], node.pages[:num_pages] if upper_pages is None else upper_pages(node), node.parent
    )
    upper.locks = locks(node)
    upper.children[node.key[num_tokens : num_tokens + size]] = node
    if linked:
        node.parent.children[node.key[:size]] = upper
    node.pages = node.pages[num_pages:] if lower_pages is None else lower_pages(node)
    node.key, node.parent = node.key[num_tokens:], upper if up else node.parent
    if moved:
        node.locks = 0
    return upper


def _lower_is_new(node, num_tokens, size, locks=True):
    """The lower part of a node as a new one."""
    lower = Node(node.key[num_tokens:], node.pages[num_tokens // size :], node)
    lower.locks, lower.children = node.locks if locks else 0, node.children
    for child in lower.children.values():
        child.parent = lower
    node.children = {lower.key[:size]: lower}
    node.key, node.pages = node.key[:num_tokens], node.pages[: num_tokens // size]
    return node


def _splitting(**options):
    return {"split": lambda node, num_tokens, size: _split(node, num_tokens, size, **options)}


def played(operations, page_size, **options):
    """[(pages matched, [(salt, tree), …]), …] after each operation."""
    tree, held, found = Tree(page_size, **options), {}, []
    for name, number, salt, tokens, pages in operations:
        matched, nodes = [], []
        if name == "insert":
            tree.insert(salt, tuple(tokens), tuple(pages))
        elif name == "match":
            held[number] = tree.match(salt, tuple(tokens))
            matched = [page for node in path(held[number])[::-1] for page in node.pages]
        nodes = path(held[number]) if name != "insert" else []
        for node in nodes:
            node.locks += 1 if name == "match" else -1
        found.append((matched, [(salt, _told(tree.roots[salt])) for salt in sorted(tree.roots)]))
    return found


def _told(node):
    below = sorted((key, _told(child), child.parent is node) for key, child in node.children.items())
    return [list(node.key), list(node.pages), node.locks, below]


# (code, words, what the tree does otherwise); each sentence goes on from "It is what comes when"
MISTAKES = (
    ("all_matched", "the last token may be matched too. Then a prompt of whole pages that is sent twice has nothing "
     "left to compute, and no logits to sample from",
     {"last": lambda tokens, size: tokens[: len(tokens) // size * size]}),
    ("one_page_short", "the last whole page is never matched. Where a token follows it, it may be: (len(tokens) - 1) "
     "// page_size pages", {"last": lambda tokens, size: tokens[: max(len(tokens) // size - 1, 0) * size]}),
    ("page_by_first_token", "pages after the first one of a node count as equal when they begin with the same token",
     {"equal": lambda mine, theirs: mine[:1] == theirs[:1]}),
    ("page_by_contents", "pages count as equal when they hold the same tokens in any order",
     {"equal": lambda mine, theirs: sorted(mine) == sorted(theirs)}),
    ("rest_not_compared", "only the first page of a node is compared. The pages after it may hold other tokens",
     {"equal": lambda mine, theirs: True}),
    ("part_of_a_page", "tokens are compared one by one, and a node is divided inside a page. A page belongs to one "
     "node; compare and divide by whole pages", {"step": 1}),
    ("whole_node", "a node that matches in part is used as a whole. Its later pages hold the keys of other tokens",
     {"partial": "whole"}),
    ("part_not_used", "a node that matches in part is not used. Its first pages are what most requests share: split it "
     "there", {"partial": "none"}),
    ("one_page_a_node", "only the first page of a node is matched, and the node is split after it", {"early": True}),
    ("one_node", "the search ends after one node. It goes on in the children as long as pages match", {"deep": False}),
    ("salt_ignored", "all salts share one tree. A user then learns from the time of the first token what others have "
     "asked", {"salted": False}),
    ("never_kept", "every match begins with an empty tree", {"kept": False}),
    ("locks_not_copied", "the upper node of a split begins with 0 locks. Every request that locks the lower one uses "
     "the upper one too, and unlocks both: its count falls below 0", _splitting(locks=lambda node: 0)),
    ("locks_of_one", "the upper node of a split begins with 1 lock, whatever the node had",
     _splitting(locks=lambda node: 1)),
    ("locks_of_one", "the upper node of a split begins with 1 lock where the node had more",
     _splitting(locks=lambda node: min(node.locks, 1))),
    ("locks_of_children", "the upper node of a split begins with the locks of the children below it. Requests that end "
     "at the node use it, too",
     _splitting(locks=lambda node: max((child.locks for child in node.children.values()), default=node.locks))),
    ("locks_moved", "the locks move to the upper node, and the lower one has 0. The requests that hold it use both",
     _splitting(moved=True)),
    ("held_node_is_upper", "the existing object becomes the upper part of a split. Requests hold that object, and "
     "unlock from it upwards: the lower part, a new one, stays locked for ever", {"split": _lower_is_new}),
    ("held_node_is_upper", "the existing object becomes the upper part of a split, and the new lower part has no "
     "locks. Requests that use all pages hold the object: the lower part must be that one",
     {"split": lambda node, n, size: _lower_is_new(node, n, size, locks=False)}),
    ("upper_has_all_pages", "the upper node keeps all pages of the node",
     _splitting(upper_pages=lambda node: node.pages)),
    ("lower_has_all_pages", "the lower node keeps all pages. Those of the upper one are in two nodes and freed twice",
     _splitting(lower_pages=lambda node: node.pages)),
    ("not_linked", "the parent still leads to the lower node. The upper one is found by no later request",
     _splitting(linked=False)),
    ("parent_not_changed", "the lower node still has its old parent. A request that unlocks goes up from there and "
     "leaves the upper node locked", _splitting(up=False)),
)  # fmt: skip


def say(call, got, right):
    """The facts of the first operation after which something is wrong."""
    operations, page_size = call
    at = next(i for i, (a, b) in enumerate(zip(got, right, strict=True)) if not same(a, b))
    name, number, salt, tokens, _ = operations[at]
    what = f"release of request {number}" if name == "release" else f"{name} of {_short(tokens)}, salt {salt!r},"
    before = f"After {at} operation{'s' * (at != 1)}, pages of {page_size}: {what} "
    if not same(got[at][0], right[at][0]):
        return f"{before}finds the pages {_short(got[at][0])} and should find {_short(right[at][0])}."
    mine, want = (_trees(one[at][1], page_size) for one in (got, right))
    equal = len(commonprefix((mine, want)))
    start = equal - 80 if equal > 200 else 0
    return f"{before}leaves the trees {_cut(mine, start)}; they should be {_cut(want, start)}."


def _cut(said, start):
    """300 characters of a tree, from `start` on."""
    return "… " * (start > 0) + said[start : start + 300] + " …" * (len(said) > start + 300)


def _short(numbers):
    return f"[{', '.join(map(str, numbers[:12]))}{', …' * (len(numbers) > 12)}]"


def _trees(trees, page_size):
    return ", ".join(f"{salt!r}: {_tree(tree, page_size)}" for salt, tree in trees)


def _tree(tree, page_size):
    """ "tokens [1, 2], pages [7], 1 lock (children)"."""
    key, pages, locks, below = tree
    children = ", ".join(_child(*one, page_size) for one in below)
    return f"tokens {_short(key)}, pages {_short(pages)}, locks {locks}" + f" ({children})" * bool(below)


def _child(first, tree, known, page_size):
    """As _tree; what the child is found under, where that is not its first page."""
    under = "" if list(first) == list(tree[0])[:page_size] else f"under {_short(first)}: "
    return under + _tree(tree, page_size) + " (its parent is another node)" * (not known)

"""The prefix cache as a radix tree: an edge holds the pages of a stretch of tokens, a path from the root a prefix.

A node is locked once by each table that holds its pages. A table always holds whole nodes, because a node is split
where a match or an insertion leaves it, and a locked node has locked ancestors. Evicted are the leaves without a lock.

Source: L. Zheng et al., "SGLang: Efficient Execution of Structured Language Model Programs", 2024, section 3,
https://arxiv.org/abs/2312.07104

May import: errors, kv, prefix.
"""

from bisect import bisect_left, insort

from ..errors import ServingError
from .prefix import PrefixCache


class Node:
    """Pages behind those of `parent`; keys[i] is the tuple of tokens of pages[i], and the first key is its name there.

    last_used : int, time of the last lock or unlock, different for every node; locks : int, tables that hold it
    """

    __slots__ = ("parent", "keys", "pages", "children", "locks", "last_used")

    def __init__(self, parent, keys, pages, locks=0, last_used=0):
        self.parent, self.keys, self.pages, self.children = parent, keys, pages, {}
        self.locks, self.last_used = locks, last_used


class RadixPrefixCache(PrefixCache):
    """A page is found by walking down the tokens before it."""

    def __init__(self, allocator, page_size):
        super().__init__(allocator, page_size)
        self._root = Node(None, [], [], locks=1)  # never evicted
        self._node_of = {}  # page -> Node
        self._leaves = []  # nodes with neither children nor locks, least recently used first
        self._num_evictable = self._clock = 0

    @property
    def num_evictable(self):
        return self._num_evictable

    def cached_pages(self):
        return self._node_of.keys()

    def match(self, tokens, salt=""):
        path = self._walk(self._root, self._keys(tokens, salt, 0, (len(tokens) - 1) // self.page_size))
        self._lock(path)
        return [page for node in path for page in node.pages]

    def insert(self, tokens, pages, salt=""):
        known = self._num_known(pages, self._node_of)
        node = self._node_of[pages[known - 1]] if known else self._root
        keys = self._keys(tokens, salt, known, len(pages))
        path = self._walk(node, keys)
        self._lock(path)
        found = [page for node in path for page in node.pages]
        self.release(pages[known : known + len(found)])  # the caller's pages of the same content
        rest = pages[known + len(found) :]
        if rest:
            self._append(path[-1] if path else node, keys[len(found) :], rest)
        return [*pages[:known], *found, *rest]

    def release(self, pages):
        self.allocator.release(pages)
        for node in dict.fromkeys(self._node_of[page] for page in pages if page in self._node_of):
            node.locks -= 1
            self._touch(node)
            if node.locks == 0:
                self._num_evictable += len(node.pages)
                self._add_leaf(node)

    def evict(self, count):
        while count > 0 and self._leaves:
            node = self._leaves[0]
            name, gone = node.keys[0], node.pages[-count:]  # the last pages first: the others stay a prefix
            del node.keys[-count:], node.pages[-count:]
            for page in gone:
                del self._node_of[page]
            self.allocator.release(gone)
            count, self._num_evictable = count - len(gone), self._num_evictable - len(gone)
            if not node.pages:
                self._leaves.pop(0)
                del node.parent.children[name]
                self._add_leaf(node.parent)

    def _keys(self, tokens, salt, start, stop):
        """Tokens of the pages start .. stop, as a tuple each; that of page 0 begins with the salt."""
        size = self.page_size
        keys = [tuple(tokens[index * size : (index + 1) * size]) for index in range(start, stop)]
        return [(salt, *keys[0]), *keys[1:]] if keys and start == 0 else keys

    def _walk(self, node, keys):
        """The nodes below `node` that hold the longest prefix of `keys`; the last is split where the keys leave it."""
        path, start = [], 0
        while start < len(keys) and keys[start] in node.children:
            node = node.children[keys[start]]
            pairs = zip(node.keys, keys[start:], strict=False)
            length = next((i for i, (ours, theirs) in enumerate(pairs) if ours != theirs), None)
            length = min(len(node.keys), len(keys) - start) if length is None else length
            if length < len(node.keys):
                node = self._split(node, length)
            path.append(node)
            start += length
        return path

    def _split(self, node, length):
        """Put a new node with the first `length` pages above `node`, held by the same tables. -> the new node"""
        upper = Node(node.parent, node.keys[:length], node.pages[:length], node.locks)
        self._touch(upper)
        node.parent.children[upper.keys[0]] = upper
        node.parent, node.keys, node.pages = upper, node.keys[length:], node.pages[length:]
        upper.children[node.keys[0]] = node
        self._node_of.update(dict.fromkeys(upper.pages, upper))
        return upper

    def _append(self, node, keys, pages):
        """Hang the pages of a table below `node`, which it holds; a leaf that no other table holds is made longer."""
        self.allocator.share(pages)
        if node.children or node.locks > 1 or node is self._root:
            node.children[keys[0]] = node = Node(node, [], [], locks=1)
            self._touch(node)
        node.keys += keys
        node.pages += pages
        self._node_of.update(dict.fromkeys(pages, node))

    def _lock(self, path):
        for node in path:
            if node.locks == 0:
                self._num_evictable -= len(node.pages)
                if not node.children:
                    del self._leaves[bisect_left(self._leaves, node.last_used, key=_last_used)]
            self.allocator.share(node.pages)
            node.locks += 1
            self._touch(node)

    def _touch(self, node):
        self._clock += 1
        node.last_used = self._clock

    def _add_leaf(self, node):
        if not node.children and node.locks == 0:
            insort(self._leaves, node, key=_last_used)

    def audit(self):
        nodes = list(self._nodes())
        for node in nodes:
            if not node.pages or len(node.pages) != len(node.keys) or node.parent.children[node.keys[0]] is not node:
                raise ServingError(f"The node of pages {node.pages} has {len(node.keys)} keys or another name.")
            if any(self.allocator.references(page) != node.locks + 1 for page in node.pages):
                raise ServingError(f"The node of pages {node.pages} has {node.locks} locks; its tables are others.")
            if sum(child.locks for child in node.children.values()) > node.locks:
                raise ServingError(f"The node of pages {node.pages} has fewer locks than its children: one was lost.")
        if self._node_of != {page: node for node in nodes for page in node.pages}:
            raise ServingError("The pages of the tree are not those that it can find.")
        leaves = sorted((node for node in nodes if not node.children and not node.locks), key=_last_used)
        evictable = sum(len(node.pages) for node in nodes if not node.locks)
        if self._leaves != leaves or self._num_evictable != evictable:
            raise ServingError(
                f"{len(leaves)} leaves and {evictable} pages have no lock; {len(self._leaves)} and "
                f"{self._num_evictable} were counted."
            )

    def _nodes(self):
        remaining = [*self._root.children.values()]
        while remaining:
            yield (node := remaining.pop())
            remaining += node.children.values()


def _last_used(node):
    return node.last_used

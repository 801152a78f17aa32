import heapq

import torch


class CacheNode:
    """A node of a radix tree. `children`: key of a child -> the child; the root has no parent and no pages."""

    def __init__(self, number, key, parent, pages, locks, last_used):
        self.number, self.key, self.parent, self.children = number, key, parent, {}
        self.pages, self.locks, self.last_used = pages, locks, last_used


def walk(node):
    """The node and all nodes below it. Given."""
    return [node, *(below for child in node.children.values() for below in walk(child))]


def evict(root, num_pages):
    """List of the pages that were freed: num_pages or more, or all that may be freed."""

    ### BEGIN SOLUTION
    def is_free(node):
        return node.parent is not None and not node.children and node.locks == 0

    leaves = [(node.last_used, node.number, node) for node in walk(root) if is_free(node)]
    heapq.heapify(leaves)
    freed = []
    while leaves and len(freed) < num_pages:
        *_, node = heapq.heappop(leaves)
        freed += node.pages
        del node.parent.children[node.key]
        if is_free(node.parent):
            heapq.heappush(leaves, (node.parent.last_used, node.parent.number, node.parent))
    return freed
    ### END SOLUTION


def evicted(calls):
    """What is freed and what remains after each eviction, as text. Given: the judge reads it."""
    results = []
    for table, amounts in calls:
        nodes = []
        for number, (key, parent, pages, locks, last_used) in enumerate(table):
            nodes.append(CacheNode(number, key, nodes[parent] if number else None, tuple(pages), locks, last_used))
            if number:
                nodes[parent].children[key] = nodes[number]
        results.append([(evict(nodes[0], amount), rows_of(nodes[0])) for amount in amounts])
    return torch.tensor(list(repr(results).encode()), dtype=torch.uint8)


def rows_of(root):
    """A tree as rows, one a node. Given."""
    return sorted(
        (node.number, node.parent.number if node.parent else None, list(node.pages), node.locks, node.last_used)
        for node in walk(root)
    )

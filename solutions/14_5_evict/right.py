"""Right answers to 14.5 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

HEAP = """    def is_free(node):
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
"""
SEARCH = """    freed = []
    while len(freed) < num_pages:
        leaves = [node for node in walk(root)[1:] if not (node.children or node.locks)]
        if not leaves:
            break
        oldest = min(leaves, key=lambda node: node.last_used)
        oldest.parent.children.pop(oldest.key)
        freed.extend(oldest.pages)
    return freed
"""
SORTED = """    freed, order = [], sorted(walk(root)[1:], key=lambda node: node.last_used)
    while num_pages > len(freed):
        node = next((one for one in order if not one.children and not one.locks), None)
        if node is None:
            return tuple(freed)
        order.remove(node)
        freed = [*freed, *node.pages]
        node.parent.children = {key: child for key, child in node.parent.children.items() if child is not node}
    return tuple(freed)
"""

ANSWERS = [
    Right("search again each time", ((HEAP, SEARCH),)),
    Right("sorted once, a new dict of children", ((HEAP, SORTED),)),
]

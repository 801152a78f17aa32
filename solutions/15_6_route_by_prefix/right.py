"""Right answers to 15.6 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

INIT = """        self.max_extra = max_extra
        self.sent = [set() for _ in range(num_workers)]  # of each worker: every prefix of every prompt, as tuples
"""
ROUTE = """        prefixes = [pages[:count] for count in range(1, len(pages) + 1)]
        limit = min(loads) + self.max_extra
        allowed = [worker for worker in range(len(loads)) if loads[worker] <= limit]
        known = {worker: sum(prefix in self.sent[worker] for prefix in prefixes) for worker in allowed}
        best = min(allowed, key=lambda worker: (-known[worker], loads[worker], worker))
        self.sent[best].update(prefixes)
        return best
"""

TREE_INIT = """        self.max_extra, self.root = max_extra, {}
"""
TREE = """        node, known = self.root, [0] * len(loads)
        path = []
        for page in pages:
            node = node.setdefault(page, {"workers": set()})
            path.append(node)
        for depth, node in enumerate(path, 1):
            for worker in node["workers"]:
                known[worker] = depth
        best = None
        for worker, load in enumerate(loads):
            if load - min(loads) > self.max_extra:
                continue
            if best is None or (known[worker], -load) > (known[best], -loads[best]):
                best = worker
        for node in path:
            node["workers"].add(best)
        return best
"""

CHAIN_INIT = """        self.max_extra, self.sent = max_extra, {}
"""
CHAIN = """        keys, key = [], 0
        for page in pages:
            key = hash((key, page))
            keys.append(key)
        order = sorted(range(len(loads)), key=lambda worker: (loads[worker], worker))
        order = [worker for worker in order if loads[worker] <= loads[order[0]] + self.max_extra]
        for count in range(len(keys), 0, -1):
            there = [worker for worker in order if worker in self.sent.get(keys[count - 1], ())]
            if there:
                order = there
                break
        for key in keys:
            self.sent.setdefault(key, set()).add(order[0])
        return order[0]
"""

ANSWERS = [
    Right("a tree of pages", ((INIT, TREE_INIT), (ROUTE, TREE))),
    Right("chained hashes of the pages, the longest first", ((INIT, CHAIN_INIT), (ROUTE, CHAIN))),
]

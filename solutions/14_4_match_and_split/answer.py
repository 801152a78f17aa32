import torch


class Node:
    """Whole pages of tokens. `children`: the first page_size tokens of a child's key -> the child."""

    def __init__(self, key, pages, parent):
        self.key, self.pages, self.parent = key, pages, parent  # tuple of tokens, tuple of pages, Node or None
        self.children, self.locks = {}, 0


def match(roots, salt, tokens, page_size):
    """The Node at the end of the longest known prefix of tokens, a tuple, one token short at least."""
    ### BEGIN SOLUTION
    node = roots.setdefault(salt, Node((), (), None))
    rest = tokens[: (len(tokens) - 1) // page_size * page_size]
    while rest and rest[:page_size] in node.children:
        node, same = node.children[rest[:page_size]], page_size
        most = min(len(rest), len(node.key))
        while same < most and rest[same : same + page_size] == node.key[same : same + page_size]:
            same += page_size
        if same < len(node.key):
            node = split(node, same, page_size)
        rest = rest[same:]
    return node
    ### END SOLUTION


def split(node, num_tokens, page_size):
    """A new Node above `node` with its first num_tokens tokens; `node` itself keeps the others. Returns the new one."""
    ### BEGIN SOLUTION
    upper = Node(node.key[:num_tokens], node.pages[: num_tokens // page_size], node.parent)
    upper.locks = node.locks
    upper.children[node.key[num_tokens : num_tokens + page_size]] = node
    node.parent.children[node.key[:page_size]] = upper
    node.key, node.pages, node.parent = node.key[num_tokens:], node.pages[num_tokens // page_size :], upper
    return upper
    ### END SOLUTION


def path(node):
    """The nodes from `node` up to its root. Given."""
    return [node, *path(node.parent)] if node else []


def insert(roots, salt, tokens, pages, page_size):
    """Puts the whole pages of tokens into the tree. Given: one token more lets match find all of them."""
    known = match(roots, salt, (*tokens, -1), page_size)
    num_known = sum(len(node.pages) for node in path(known))
    rest = tokens[num_known * page_size : len(tokens) // page_size * page_size]
    if rest:
        known.children[rest[:page_size]] = Node(rest, pages[num_known : len(tokens) // page_size], known)


def played(calls):
    """What is matched and what the trees hold after each operation, as text. Given: the judge reads it."""
    results = []
    for operations, page_size in calls:
        roots, held, found = {}, {}, []
        for name, number, salt, tokens, pages in operations:
            matched = []
            if name == "insert":
                insert(roots, salt, tuple(tokens), tuple(pages), page_size)
            elif name == "match":  # the request locks what it uses
                held[number] = match(roots, salt, tuple(tokens), page_size)
                matched = [page for node in path(held[number])[::-1] for page in node.pages]
            for node in path(held[number]) if name != "insert" else []:
                node.locks += 1 if name == "match" else -1
            found.append((matched, [(salt, tree_as_data(roots[salt])) for salt in sorted(roots)]))
        results.append(found)
    return torch.tensor(list(repr(results).encode()), dtype=torch.uint8)


def tree_as_data(node):
    """A tree as plain data. Given."""
    below = sorted((key, tree_as_data(child), child.parent is node) for key, child in node.children.items())
    return [list(node.key), list(node.pages), node.locks, below]

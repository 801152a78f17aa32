"""Right answers to 14.4 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

MATCH = """    node = roots.setdefault(salt, Node((), (), None))
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
"""
DESCEND = """    if salt not in roots:
        roots[salt] = Node((), (), None)

    def paged(numbers):
        return [numbers[i : i + page_size] for i in range(0, len(numbers) - page_size + 1, page_size)]

    def descend(node, pages):
        child = node.children.get(pages[0]) if pages else None
        if child is None:
            return node
        theirs, same = paged(child.key), 0
        for mine, other in zip(pages, theirs):
            if mine != other:
                break
            same += 1
        if same == len(theirs):
            return descend(child, pages[same:])
        return split(child, same * page_size, page_size)

    return descend(roots[salt], paged(tokens[:-1]))
"""

ANSWERS = [
    Right(
        "all but the last token, parts of a page equal no page",
        (("    rest = tokens[: (len(tokens) - 1) // page_size * page_size]\n", "    rest = tokens[:-1]\n"),),
    ),
    Right("recursive, page by page", ((MATCH, DESCEND),)),
    Right(
        "a dict literal, lists for pages",
        (
            (
                "    upper.children[node.key[num_tokens : num_tokens + page_size]] = node\n",
                "    upper.pages = list(upper.pages)\n    upper.children = {node.key[num_tokens:][:page_size]: node}\n",
            ),
            (
                "    node.parent.children[node.key[:page_size]] = upper\n",
                "    node.parent.children.update({upper.key[:page_size]: upper})\n",
            ),
        ),
    ),
]

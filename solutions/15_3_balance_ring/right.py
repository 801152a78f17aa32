"""Right answers to 15.3 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

BODY = """    cuts = [chunk * num_tokens // (2 * num_ranks) for chunk in range(2 * num_ranks + 1)]
    chunks = [list(range(start, end)) for start, end in pairwise(cuts)]
    return [chunks[rank] + chunks[-1 - rank] for rank in range(num_ranks)]
"""

STRIPED = """    return [range(rank, num_tokens, num_ranks) for rank in range(num_ranks)]
"""

SNAKE = """    order = list(range(num_ranks)) + list(range(num_ranks))[::-1]
    ranks = [[] for _ in range(num_ranks)]
    for token in range(num_tokens):
        ranks[order[token % (2 * num_ranks)]].append(token)
    return ranks
"""

TENSORS = """    chunks = torch.arange(num_tokens).tensor_split(2 * num_ranks)
    return [torch.cat((chunks[rank], chunks[2 * num_ranks - 1 - rank])).tolist() for rank in range(num_ranks)]
"""

ANSWERS = [
    Right("striped: every n-th token", ((BODY, STRIPED),)),
    Right("token by token, there and back", ((BODY, SNAKE),)),
    Right("tensor_split", ((BODY, TENSORS),)),
    Right("the later chunk first", (("chunks[rank] + chunks[-1 - rank]", "chunks[-1 - rank] + chunks[rank]"),)),
]

"""Right answers to 12.7 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

COUNT = """\
    chosen = pairs[:, None] == torch.arange(num_experts, device=pairs.device)  # (pair, expert)
    so_far = chosen.cumsum(0)  # pairs of each expert up to this one
    counts = so_far[-1]
"""

SCATTER = """\
    counts = torch.zeros(num_experts, dtype=torch.int64, device=pairs.device)
    counts = counts.scatter_add_(0, pairs, torch.ones_like(pairs))
    before = (pairs[None, :] == pairs[:, None]) & (numbers[None, :] < numbers[:, None])
"""

RANK = "    rank = so_far.gather(1, pairs[:, None])[:, 0] - 1  # among the pairs of its expert\n"

TILES = """\
    expert = (tile[:, None] >= last_tiles).sum(1)
"""

ANSWERS = [
    Right(
        "counts by scatter_add, rank by comparing pairs",
        ((COUNT, SCATTER), (RANK, "    rank = before.sum(1)\n")),
    ),
    Right(
        "one_hot by a scatter, exclusive sums",
        (
            (
                "    chosen = pairs[:, None] == torch.arange(num_experts, device=pairs.device)  # (pair, expert)\n",
                "    chosen = torch.zeros(len(pairs), num_experts, dtype=torch.int64, device=pairs.device)\n"
                "    chosen[numbers, pairs] = 1\n",
            ),
            (RANK, "    rank = (so_far - chosen)[numbers, pairs]\n"),
        ),
    ),
    Right("searchsorted", ((TILES, "    expert = torch.searchsorted(last_tiles, tile, right=True)\n"),)),
    Right(
        "order by an index, offsets in place",
        (
            (
                "    order = torch.empty_like(places).scatter_(0, places, numbers)\n",
                "    order = torch.zeros_like(places)\n    order[places] = numbers\n",
            ),
            (
                "    offsets = torch.cat((torch.zeros_like(ends[:1]), ends))\n",
                "    offsets = ends.new_zeros(num_experts + 1)\n    offsets[1:] = ends\n",
            ),
        ),
    ),
]

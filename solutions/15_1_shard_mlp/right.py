"""Right answers to 15.1 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

SLICES = """    width = len(up_bias) // num_ranks
    mine = slice(rank * width, (rank + 1) * width)
    return up[:, mine], up_bias[mine], down[mine]
"""

CHUNKS = """    parts = up.chunk(num_ranks, dim=1), up_bias.chunk(num_ranks), down.chunk(num_ranks)
    return tuple(part[rank].contiguous() for part in parts)
"""

SUM = "    return world.all_reduce(inside @ down_part) + down_bias\n"

ANSWERS = [
    Right("chunk, copies", ((SLICES, CHUNKS),)),
    Right(
        "the bias on rank 0 before the sum",
        ((SUM, "    bias = down_bias if world.rank == 0 else 0.0\n"
          "    return world.all_reduce(inside @ down_part + bias)\n"),),
    ),
    Right(
        "the bias shared out before the sum",
        ((SUM, "    return world.all_reduce(inside @ down_part + down_bias / world.num_ranks)\n"),),
    ),
    Right("in place", (("x @ up_part + up_bias_part", "(x @ up_part).add_(up_bias_part)"),)),
    Right("the sum in place", ((SUM, "    out = inside @ down_part\n    world.all_reduce(out)\n"
                                "    return out.add_(down_bias)\n"),)),
]  # fmt: skip

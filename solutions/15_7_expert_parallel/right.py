"""Right answers to 15.7 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

SORTED = "    order = pairs.argsort(stable=True)  # by expert, and so by rank\n"
RETURN = "    return torch.zeros_like(x).index_add_(0, order // top_k, back * gates.flatten()[order][:, None])\n"
LOOP = """    for number in range(each):
        mine = numbers == number
        made[mine] = apply_expert(there[mine], weights[number])
"""
ARRIVED = """    arrived = world.all_to_all(sizes)
"""

ANSWERS = [
    Right("by rank alone, not by expert", ((SORTED, "    order = (pairs // each).argsort(stable=True)\n"),)),
    Right("back into place, then a weighted sum", (
        (RETURN, "    rows = torch.empty_like(back)\n    rows[order] = back\n"
                 "    return (rows.view(len(x), top_k, -1) * gates[..., None]).sum(1)\n"),
    )),
    Right("row by row", (
        (LOOP, "    for row, number in enumerate(numbers.tolist()):\n"
               "        made[row] = apply_expert(there[row : row + 1], weights[number])[0]\n"),
    )),
    Right("sizes found out by the collective, and counted from the numbers", (
        (ARRIVED, ""),
        ("    there = world.all_to_all(x[order // top_k], sizes, arrived)\n",
         "    there = world.all_to_all(x[order // top_k], sizes)\n"
         "    home = world.all_to_all(torch.full_like(pairs, world.rank), sizes)\n"),
        ("% each, sizes, arrived)", "% each, sizes)"),
        ("world.all_to_all(made, arrived, sizes)",
         "world.all_to_all(made, torch.bincount(home, minlength=world.num_ranks), sizes)"),
    )),
]  # fmt: skip

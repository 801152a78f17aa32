"""Right answers to 15.5 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

WARM = """            warm = micro < num_stages - stage  # no backward has come yet
            begin = (stage + micro) * forward if warm else stage * forward + micro * both
"""

BODY_START = "    stages, both = [], forward + backward\n"
BODY = (
    BODY_START
    + """    for stage in range(num_stages):
        entries = []
        for micro in range(num_micro):
"""
    + WARM
    + """            last = num_stages * forward + (num_stages - 1 - stage) * backward  # where backward 0 begins
            entries += [("F", micro, begin), ("B", micro, last + micro * both)]
        stages.append(entries)
    return stages
"""
)

BY_ORDER = """    orders = []
    for stage in range(num_stages):
        warm = min(num_stages - 1 - stage, num_micro)
        order = [("F", micro) for micro in range(warm)]
        for micro in range(num_micro - warm):
            order += [("F", warm + micro), ("B", micro)]
        orders.append(order + [("B", micro) for micro in range(num_micro - warm, num_micro)])
    stages, free, ends = [[] for _ in orders], [0] * num_stages, {}
    while any(orders):
        for stage, order in enumerate(orders):
            while order:
                kind, micro = order[0]
                step = -1 if kind == "F" else 1
                outside = not 0 <= stage + step < num_stages
                ready = 0 if outside else ends.get((kind, stage + step, micro))
                if ready is None:
                    break
                begin = max(free[stage], ready)
                stages[stage].append((*order.pop(0), begin))
                free[stage] = ends[kind, stage, micro] = begin + (forward if kind == "F" else backward)
    return stages
"""

LATE = "            begin = stage * forward + micro * both\n"

ANSWERS = [
    Right("the order of each stage, begun as soon as it can be", ((BODY, BY_ORDER),)),
    Right("every forward as late as a backward's rhythm", ((WARM, LATE),)),
    Right("backwards first, as lists", (
        ('entries += [("F", micro, begin), ("B", micro, last + micro * both)]',
         'entries = [["B", micro, last + micro * both], *entries, ["F", micro, begin]]'),
    )),
]  # fmt: skip

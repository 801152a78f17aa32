"""Right answers to 14.1 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

TWO_PARTS = (
    (
        "    step, budget, seats = [], limits.budget, limits.max_seqs - len(running)\n",
        "    def part(request, budget):\n"
        "        return min(request.num_tokens - request.num_computed, limits.chunk, budget)\n\n"
        "    budget, seats = limits.budget, limits.max_seqs - len(running)\n"
        "    tokens = {request.id: 0 for request in running}\n",
    ),
    (
        "        num_new = min(request.num_tokens - request.num_computed, limits.chunk, budget)\n"
        "        if num_new > 0:\n"
        "            step.append((request.id, num_new))\n"
        "            budget -= num_new\n"
        "    if preempted:\n"
        "        return step\n"
        "    for request in waiting:\n",
        "        tokens[request.id] = part(request, budget)\n"
        "        budget -= tokens[request.id]\n"
        "    for request in () if preempted else waiting:\n",
    ),
    (
        "        num_new = min(request.num_tokens - request.num_computed, limits.chunk, budget)\n"
        "        step.append((request.id, num_new))\n"
        "        budget, seats, free_pages = budget - num_new, seats - 1, free_pages - pages\n"
        "    return step\n",
        "        tokens[request.id] = part(request, budget)\n"
        "        budget, seats, free_pages = budget - tokens[request.id], seats - 1, free_pages - pages\n"
        "    return tuple(pair for pair in tokens.items() if pair[1])\n",
    ),
)

ANSWERS = [
    Right("a dict of tokens, a tuple returned", TWO_PARTS),
    Right(
        "a queue of its own, with popleft, and lists as pairs",
        (
            ("import torch\n", "import torch\nfrom collections import deque\n"),
            (
                "    for request in waiting:\n",
                "    queue = deque(waiting)\n    while queue:\n        request = queue.popleft()\n",
            ),
            (
                "        step.append((request.id, num_new))\n        budget, seats",
                "        step.append([request.id, num_new])\n        budget, seats",
            ),
        ),
    ),
    Right(
        "math.ceil, conditions turned round",
        (
            ("import torch\n", "import math\n\nimport torch\n"),
            (
                "-(-request.num_tokens // limits.page_size) - request.num_computed // limits.page_size",
                "math.ceil((request.num_tokens - request.num_computed) / limits.page_size)",
            ),
            (
                "        if budget == 0 or seats == 0 or free_pages - pages < limits.watermark:\n            break\n",
                "        if not (budget >= 1 <= seats and free_pages >= pages + limits.watermark):\n"
                "            return step\n",
            ),
        ),
    ),
]

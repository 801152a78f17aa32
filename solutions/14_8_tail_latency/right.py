"""Right answers to 14.8 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

BY_COUNTING = """import math
from collections import Counter
from typing import NamedTuple

import torch


class TimedRequest(NamedTuple):
    due: int
    sent: int
    tokens: tuple


def percentile(values, percent):
    at_or_below = 0
    for value, count in sorted(Counter(values).items()):
        at_or_below += count
        if 100 * at_or_below >= percent * len(values):
            return value if value < math.inf else None
    return None


def report(requests, warm_up, percents, first_limit, gap_limit):
    firsts, pooled, good, num_tokens, last = [], [], 0, 0, None
    for due, _, tokens in requests:
        if due < warm_up:
            continue
        if not tokens:
            firsts.append(math.inf)
            continue
        own = [tokens[i] - tokens[i - 1] for i in range(1, len(tokens))]
        firsts.append(tokens[0] - due)
        pooled.extend(own)
        good += firsts[-1] <= first_limit and all(gap <= gap_limit for gap in own)
        num_tokens += len(tokens)
        last = tokens[-1] if last is None or tokens[-1] > last else last
    rate = math.floor(num_tokens * 10**6 / (last - warm_up)) if num_tokens else None
    return [percentile(firsts, p) for p in percents], [percentile(pooled, p) for p in percents], rate, int(good)


def reports(calls):
    found = []
    for requests, warm_up, percents, first_limit, gap_limit in calls:
        requests = tuple(TimedRequest(due, sent, tuple(tokens)) for due, sent, tokens in requests)
        found.append(report(requests, warm_up, tuple(percents), first_limit, gap_limit))
    return torch.tensor(list(repr(found).encode()), dtype=torch.uint8)
"""

ANSWERS = [
    Right("request by request, percentiles by counting", text=BY_COUNTING),
    Right(
        "math.ceil, failed requests at the end",
        (
            ("import torch\n", "import math\n\nimport torch\n"),
            ("values[-(-percent * len(values) // 100) - 1]", "values[math.ceil(percent * len(values) / 100) - 1]"),
            ("sum(gaps, [])", "(gap for own in gaps for gap in own)"),
        ),
    ),
]

"""The report of 14.8, and each usual mistake as a report of its own.

May import: subjects.plain_data.
"""

from itertools import pairwise
from math import floor

from course_lib.grading.subjects.plain_data import same

LATE = float("inf")
NAMES = ("the times to the first token", "the gaps", "tokens a second", "requests within the limits")


def _nearest_rank(values, percent):
    return sorted(values)[-(-percent * len(values) // 100) - 1]


def _gaps(_due, _sent, tokens):
    return [after - before for before, after in pairwise(tokens)]


def _duration(counted, warm_up, _requests):
    return max(tokens[-1] for _, _, tokens in counted if tokens) - warm_up


def _within(first, gaps, first_limit, gap_limit):
    return first <= first_limit and max(gaps, default=0) <= gap_limit


def report(
    requests, warm_up, percents, first_limit, gap_limit, *, start=lambda due, sent: due, failed="late",
    kept=lambda one, warm_up: one[0] >= warm_up, gaps=_gaps, rank=_nearest_rank, duration=_duration, within=_within,
    first=0, per_request=None, tokens_of="counted", num=len, whole=True, order=list,
):  # fmt: skip
    """(first tokens, gaps, tokens a second, requests within the limits); each option is one mistake.

    `start`: where the time to the first token begins; `kept`: which requests count; `failed`: "late", "dropped" or "0";
    `rank`: a percentile; `duration`: of the run; `within`: whether a request keeps the limits; `first`: which token is
    the first; `per_request`: what the gaps of one request become; `tokens_of`: "counted" or "all"; `num`: what of its
    tokens a request adds to the rate; `whole`: the rate is rounded down; `order`: what becomes of the percents
    """
    counted = [one for one in requests if kept(one, warm_up)]
    if failed == "dropped":
        counted = [one for one in counted if one[2]]
    never = LATE if failed == "late" else 0
    firsts = [tokens[first] - start(due, sent) if tokens else never for due, sent, tokens in counted]
    own = [gaps(due, sent, tokens) for due, sent, tokens in counted]
    pooled = [gap for one in own for gap in ([per_request(one)] if per_request and one else one)]
    good = sum(within(late, gap, first_limit, gap_limit) for late, gap in zip(firsts, own, strict=True))
    rate = None
    if any(tokens for _, _, tokens in counted):
        chosen = counted if tokens_of == "counted" else requests
        rate = sum(num(tokens) for _, _, tokens in chosen) * 1_000_000 / duration(counted, warm_up, requests)
        rate = floor(rate) if whole else rate
    return _ranked(firsts, order(percents), rank), _ranked(pooled, order(percents), rank), rate, good


def _ranked(values, percents, rank):
    found = [rank(values, percent) if values else None for percent in percents]
    return [None if value == LATE else value for value in found]


def _interpolated(values, percent):
    ranked, place = sorted(values), (len(values) - 1) * percent / 100
    low = int(place)
    high = ranked[min(low + 1, len(ranked) - 1)]
    return ranked[low] if low == place or high == ranked[low] else ranked[low] + (high - ranked[low]) * (place - low)


def _rate_since(begin):
    def duration(counted, warm_up, requests):
        return max(max(t[-1] for _, _, t in counted if t) - begin(counted, warm_up, requests), 1)

    return duration


def _mean(numbers):
    return sum(numbers) / len(numbers)


def _whole_mean(numbers):
    return sum(numbers) // len(numbers)


# (code, words, what `report` does otherwise); each sentence goes on from "It is what comes when"
MISTAKES = (
    ("from_sent", "the time to the first token begins when the request was sent. A load generator that is held up "
     "sends late, and the wait disappears from the report: this is coordinated omission. It begins when it was due",
     {"start": lambda due, sent: sent}),
    ("from_zero", "the time to the first token begins with the run", {"start": lambda due, sent: 0}),
    ("whole_answer", "the time runs up to the last token of a request", {"first": -1}),
    ("warm_up_counted", "requests of the warm-up count too", {"kept": lambda one, warm_up: True}),
    ("warm_up_by_sent", "requests count when they were sent after the warm-up. Those that were due in it and sent late "
     "are not of the measured load", {"kept": lambda one, warm_up: one[1] >= warm_up}),
    ("warm_up_border", "a request that is due exactly at the end of the warm-up is left out",
     {"kept": lambda one, warm_up: one[0] > warm_up}),
    ("failed_dropped", "failed requests are left out. The worse a server is, the better its p99 would look",
     {"failed": "dropped"}),
    ("failed_at_once", "failed requests count as answered in no time", {"failed": "0"}),
    ("first_in_gaps", "the time to the first token is among the gaps. It belongs to queue and prefill",
     {"gaps": lambda due, sent, tokens: [b - a for a, b in pairwise((due, *tokens))]}),
    ("first_in_gaps", "the time from sending to the first token is among the gaps. It belongs to queue and prefill",
     {"gaps": lambda due, sent, tokens: [b - a for a, b in pairwise((sent, *tokens))]}),
    ("mean_gaps", "the gaps of each request are averaged first, and rounded down. A pause of a second in an answer of "
     "100 tokens becomes 10 ms a token, and no percentile shows it", {"per_request": _whole_mean}),
    ("mean_gaps", "the gaps of each request are averaged first. A pause of a second in an answer of 100 tokens becomes "
     "10 ms a token, and no percentile shows it", {"per_request": _mean}),
    ("largest_gaps", "only the largest gap of each request counts", {"per_request": max}),
    ("interpolated", "percentiles are interpolated between two values. The report takes a value that occurred: the one "
     "of rank ceil(percent * n / 100)", {"rank": _interpolated}),
    ("rank_too_high", "the rank is percent * n // 100, counted from 0. Counted from 1 it is the ceiling of that",
     {"rank": lambda values, percent: sorted(values)[min(percent * len(values) // 100, len(values) - 1)]}),
    ("rank_rounded_down", "the rank is rounded down. Fewer than percent of the values are at or below that one",
     {"rank": lambda values, percent: sorted(values)[max(percent * len(values) // 100 - 1, 0)]}),
    ("not_sorted", "the values are not sorted",
     {"rank": lambda values, percent: values[-(-percent * len(values) // 100) - 1]}),
    ("from_the_top", "the percentiles are counted from the largest value down",
     {"rank": lambda values, percent: sorted(values, reverse=True)[-(-percent * len(values) // 100) - 1]}),
    ("percents_sorted", "the percentiles are sorted, or each is given once. A value for each is wanted, in their order",
     {"order": lambda percents: sorted(set(percents))}),
    ("percents_sorted", "the percentiles are sorted. A value for each is wanted, in their order", {"order": sorted}),
    ("rate_from_zero", "the duration begins with the run. The warm-up's tokens do not count, so its time must not",
     {"duration": _rate_since(lambda counted, warm_up, requests: 0)}),
    ("rate_from_first_token", "the duration begins with the first token. The wait for it is part of the run",
     {"duration": _rate_since(lambda counted, warm_up, requests: min(t[0] for _, _, t in counted if t))}),
    ("rate_of_arrivals", "the duration ends when the last request is due. Its tokens come later",
     {"duration": lambda counted, warm_up, requests: max(max(due for due, _, _ in counted) - warm_up, 1)}),
    ("rate_to_warm_up", "the duration ends with the last token of all requests, those of the warm-up too",
     {"duration": lambda counted, warm_up, requests: max(t[-1] for _, _, t in requests if t) - warm_up}),
    ("rate_of_all", "the tokens of the warm-up's requests are in the rate", {"tokens_of": "all"}),
    ("rate_of_requests", "the rate counts requests", {"num": lambda tokens: int(bool(tokens))}),
    ("rate_not_whole", "the rate is not rounded down to a whole number", {"whole": False}),
    ("first_limit_alone", "a request is within the limits by its first token alone",
     {"within": lambda first, gaps, a, b: first <= a}),
    ("gap_limit_alone", "a request is within the limits by its gaps alone",
     {"within": lambda first, gaps, a, b: first < LATE and max(gaps, default=0) <= b}),
    ("mean_within", "a request is within the limits by the mean of its gaps. One pause is what the reader notices",
     {"within": lambda first, gaps, a, b: first <= a and sum(gaps) <= b * len(gaps)}),
    ("either_limit", "a request is within the limits when it keeps one of them",
     {"within": lambda first, gaps, a, b: first <= a or max(gaps, default=0) <= b}),
    ("limits_excluded", "a time that equals its limit is beyond it",
     {"within": lambda first, gaps, a, b: first < a and max(gaps, default=0) < b}),
)  # fmt: skip


def say(call, got, right):
    """The facts of the first number that is wrong."""
    requests, warm_up, percents, first_limit, gap_limit = call
    name, mine, want = next((n, a, b) for n, a, b in zip(NAMES, got, right, strict=True) if not same(a, b))
    said = ", ".join(f"due {due}, sent {sent}, tokens at {_short(tokens)}" for due, sent, tokens in requests[:3])
    where = f" at the percentiles {_short(percents)}" if isinstance(want, list) else ""
    limits = f", limits {first_limit} and {gap_limit}" if name == NAMES[3] else ""
    return (
        f"{len(requests)} requests ({said}{', …' * (len(requests) > 3)}), warm-up {warm_up}{limits}: {name}{where} are "
        f"{_shown(mine)} and should be {_shown(want)}."
    )


def _short(numbers):
    return f"[{', '.join(map(str, numbers[:6]))}{', …' * (len(numbers) > 6)}]"


def _shown(value):
    return _short(value) if isinstance(value, list | tuple) else value

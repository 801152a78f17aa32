"""Diagnoses of keys dealt out to blocks: the first promise that is broken, and where.

May import: verdict, subjects.triples.
"""

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.triples import lists_of_triples


def first_mistake(name, seq_lens, num_blocks, step, numbers):
    """Diagnosis of the first promise that the items break, or None."""
    blocks = lists_of_triples(numbers)  # the items of each block
    start = f"Case {name!r}, {len(seq_lens)} requests, {sum(seq_lens)} keys, {num_blocks} blocks, step {step}"
    if len(blocks) != num_blocks:
        return Diagnosis(
            "wrong_number_of_blocks",
            f"{start}: {len(blocks)} lists came back. Each of the {num_blocks} blocks has one, an empty one if it has "
            "nothing to do.",
        )
    items = [item for block in blocks for item in block]
    found = _by_item(items, seq_lens, step) or _by_keys(items, seq_lens)
    found = found or _by_balance(blocks, seq_lens, step) or _by_count(items, seq_lens, num_blocks)
    return found and Diagnosis(found[0], f"{start}: {found[1]}.")


def _by_item(items, seq_lens, step):
    """(code, words) of an item that is none by itself, or None."""
    for item in items:
        request, first, end = item
        if not 0 <= request < len(seq_lens):
            return "no_such_request", f"the item {item} is of a request that does not exist"
        if first >= end:
            return "empty_item", f"the item {item} has no key; a request without keys has no item"
        if first < 0 or end > seq_lens[request]:
            return "keys_past_end", (
                f"the item {item} goes beyond the {seq_lens[request]} keys of its request. Keys are numbered within "
                "their request"
            )
    inside = next((item for item in items if item[1] % step), None)
    return inside and (
        "not_on_a_page",
        f"the item {inside} begins inside a page; {inside[1]} is no multiple of {step}",
    )


def _by_keys(items, seq_lens):
    """(code, words) of the first key that is in no item or in two, or None."""
    ranges = [[] for _ in seq_lens]
    for request, first, end in items:
        ranges[request].append((first, end))
    for request, seq_len in enumerate(seq_lens):
        reached = 0
        for first, end in sorted(ranges[request]):
            if first > reached:
                return "key_lost", f"key {reached} of request {request} is in no item"
            if first < reached:
                return "key_twice", f"key {first} of request {request} is in two items"
            reached = end
        if reached < seq_len:
            return "key_lost", f"key {reached} of request {request} is in no item; it has {seq_len} keys"
    return None


def _by_balance(blocks, seq_lens, step):
    """(code, words) of a block with too many keys, or None."""
    keys = [sum(end - first for _, first, end in block) for block in blocks]
    most, total, num_blocks = max(keys), sum(seq_lens), len(blocks)
    if 10 * num_blocks * most <= 11 * total or num_blocks * (most - step) <= total:
        return None
    mean, busiest = total / num_blocks, keys.index(most)
    limit = max(1.1 * mean, mean + step)
    start = (
        f"block {busiest} has {most} keys, the mean is {mean:.5g} and the limit {limit:.5g}, and the least busy block "
        f"has {min(keys)}"
    )
    uncut = sum(map(len, blocks)) == sum(seq_len > 0 for seq_len in seq_lens)
    if uncut and max(seq_lens) > limit:
        return "never_cut", f"{start}. No request was cut; one that is longer than the limit must be"
    if busiest == num_blocks - 1 and all(num_blocks * (n - step) <= total for n in keys[:-1]):
        return "rest_to_the_last", f"{start}. What the others left over went to the last block"
    if uncut:
        return "never_cut", f"{start}. No request was cut, and whole requests are not even enough here"
    return "uneven", start


def _by_count(items, seq_lens, num_blocks):
    """(code, words) of too many items, or None."""
    with_keys = sum(seq_len > 0 for seq_len in seq_lens)
    most = with_keys + num_blocks - 1
    if len(items) <= most:
        return None
    return "too_many_items", (
        f"the keys are shared out evenly, into {len(items)} items; {with_keys} requests have keys, so {most} are "
        "enough. Every item more is a part that is written, read and merged"
    )

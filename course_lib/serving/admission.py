"""When a request may start: three answers to the question how full the pool may be made.

May import: config, request.
"""

from math import ceil


def may_start(config, sequence, running, *, first, whole, available):
    """Whether `sequence` may join those who run.

    Parameters
    ----------
    config : ServingConfig
    running : list of Sequence
    first, whole : int, pages that it needs for its first piece and for all of its tokens, beyond those that it has
        from the prefix cache
    available : int, pages that can be allocated

    Returns
    -------
    bool
    """
    if first > available or config.admission == "optimistic" or not running:
        return first <= available  # alone it always fits: what does not was refused
    if config.admission == "reserve":
        promised = sum(config.pages_for(each.request.max_computed) for each in (*running, sequence))
        return promised <= config.num_pages
    owed = sum(max(0, config.pages_for(each.num_tokens) - len(each.pages)) for each in running)
    return whole + owed + ceil(config.watermark * config.num_pages) <= available

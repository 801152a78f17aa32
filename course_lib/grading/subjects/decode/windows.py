"""Which keys belong to which split, and what known mistakes make of that.

A window is a half-open range of keys, (first key, end).

May import: nothing of the course.
"""


def by_length(seq_len, split_len, num_splits):
    """Splits of `split_len` keys, the last one as far as the keys go; a split past the end is (seq_len, seq_len)."""
    starts = [min(s * split_len, seq_len) for s in range(num_splits)]
    return [(start, min(start + split_len, seq_len)) for start in starts]


def shared_length(seq_len, num_splits, tile):
    """Keys of a split when a sequence is shared out evenly, in whole tiles: none of them is read by two."""
    keys = -(-seq_len // num_splits)
    return -(-keys // tile) * tile


def shared_out(seq_len, num_splits, tile):
    """Splits of `shared_length` keys."""
    return by_length(seq_len, shared_length(seq_len, num_splits, tile), num_splits)


def _each(windows, change):
    """`change(start, end, seq_len, split number)` of every split that has keys."""
    changed = []
    for row in windows:
        n = max(end for _, end in row)
        changed.append([change(s, e, n, i) if e > s else (s, e) for i, (s, e) in enumerate(row)])
    return changed


def usual_rules(windows, tile=None):
    """[(code, words, windows)]: mistakes that are the same for every way to share out the keys.

    tile : keys of a tile, where slots past the end of the sequence can be counted
    """
    twice = "the key at the border of two splits was counted in both. A split ends before the next one's first key"
    never = "the key at the border of two splits was counted in neither"
    rules = [
        ("split_ignored", "every split walked over the whole sequence", _each(windows, lambda s, e, n, i: (0, n))),
        ("start_forgotten", "every split began at key 0", _each(windows, lambda s, e, n, i: (0, e))),
        ("end_forgotten", "every split went on to the last key", _each(windows, lambda s, e, n, i: (s, n))),
        ("first_split_only", "every split took the keys of the first", [[row[0]] * len(row) for row in windows]),
        ("boundary_twice", twice, _each(windows, lambda s, e, n, i: (s, min(e + 1, n)))),
        ("boundary_twice", twice, _each(windows, lambda s, e, n, i: (max(s - 1, 0), e))),
        ("boundary_never", never, _each(windows, lambda s, e, n, i: (s, e - (e < n)))),
        ("boundary_never", never, _each(windows, lambda s, e, n, i: (s, e - 1))),
        ("boundary_never", never, _each(windows, lambda s, e, n, i: (s + (s > 0), e))),
        ("tail_dropped", "a split that is not full was left out",
         _each(windows, lambda s, e, n, i: _full(s, e, windows))),
        ("old_state_lost", "the last key alone: what came before was thrown away, or m was never kept",
         _each(windows, lambda s, e, n, i: (e - 1, e))),
    ]  # fmt: skip
    if tile:
        rules.append(
            ("tail_counted", "slots past the end of the sequence were counted as keys",
             _each(windows, lambda s, e, n, i: (s, s + -(-(e - s) // tile) * tile)))
        )  # fmt: skip
        rules.append(
            ("tail_dropped", "a tile that is not full was left out",
             _each(windows, lambda s, e, n, i: (s, s + (e - s) // tile * tile)))
        )  # fmt: skip
    return rules


def _full(start, end, windows):
    """The split, or an empty one when it is shorter than the first of its sequence."""
    longest = max(e - s for row in windows for s, e in row)
    return (start, end) if end - start == longest else (start, start)


def moved(windows, num_heads):
    """Windows read as (split, batch entry, head) when they were written as (batch entry, head, split).

    Returns
    -------
    for the first and for the last head: windows like `windows`
    """
    num_splits, num_rows = len(windows[0]), len(windows) * num_heads

    def window_of(s, row):
        written = s * num_rows + row
        return windows[written // num_splits // num_heads][written % num_splits]

    heads = (0, num_heads - 1)
    return [[[window_of(s, b * num_heads + h) for s in range(num_splits)] for b in range(len(windows))] for h in heads]

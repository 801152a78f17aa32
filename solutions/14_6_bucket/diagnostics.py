"""Keys and buffers of 14.6 after each step, and each usual mistake as steps of its own.

May import: subjects.plain_data.
"""

from course_lib.grading.subjects.plain_data import same

NAMES = ("token_ids", "positions", "slots", "seq_lens", "block_tables")


def _at_least(number, buckets):
    return next((size for size in buckets if size >= number), None)


def _longest(step):
    return max(computed for _, computed, _ in step) + 1


def _key(step, batch_buckets, len_buckets):
    """The right key, or None."""
    key = _at_least(len(step), batch_buckets), _at_least(_longest(step), len_buckets)
    return None if None in key else key


def _right_slot(computed, pages, page_size):
    return pages[computed // page_size] * page_size + computed % page_size


def _steps(
    steps, page_size, batch_buckets, len_buckets, max_pages, before, *, batch=_at_least, length=_at_least,
    longest=_longest, key=lambda batch, length: (batch, length), padding=(0, 0, -1, 0, 0), tails="cleared",
    repeats=None, slot=_right_slot, seq_len=lambda computed: computed + 1, position=lambda computed: computed,
    in_place=True, refused="none",
):  # fmt: skip
    """[(key, buffers), …], whole buffers; each option is one mistake.

    `padding`: what padding rows of each buffer get, None for what they hold; `tails`: what a table holds after the
    pages; `repeats`: a request whose row every padding row repeats; `refused`: what a step that fits nowhere does
    """
    rows = batch_buckets[-1]
    buffers = [[before] * rows for _ in NAMES[:-1]] + [[[before] * max_pages for _ in range(rows)]]
    found = []
    for step in steps:
        chosen = batch(len(step), batch_buckets), length(longest(step), len_buckets)
        fits = None not in chosen
        if not fits and refused == "largest":
            chosen = chosen[0] or batch_buckets[-1], chosen[1] or len_buckets[-1]
        if fits or refused != "none":
            size = min(chosen[0] or rows, rows)
            shown = step[:size]
            if in_place:
                _write(buffers, shown, size, page_size, padding, tails, repeats, slot, seq_len, position)
        found.append((key(*chosen) if fits or refused == "largest" else None, _copy(buffers)))
    return found


def _write(buffers, step, size, page_size, padding, tails, repeats, slot, seq_len, position):
    rows = [
        (token, position(computed), slot(computed, pages, page_size), seq_len(computed), pages)
        for token, computed, pages in step
    ]
    real = len(rows)
    rows += [rows[repeats]] * (size - real) if repeats is not None else []
    for row in range(size):
        for buffer, number, empty in zip(
            buffers[:-1], rows[row] if row < len(rows) else [None] * 5, padding, strict=False
        ):
            if row < len(rows):
                buffer[row] = number
            elif empty is not None:
                buffer[row] = empty
        table = buffers[-1][row]
        if row < len(rows):
            pages = list(rows[row][-1])
            table[: len(pages)] = pages
            if tails == "cleared":
                table[len(pages) :] = [0] * (len(table) - len(pages))
        elif padding[-1] is not None:
            table[:] = [padding[-1]] * len(table)


def _copy(buffers):
    return [list(buffer) for buffer in buffers[:-1]] + [[list(row) for row in buffers[-1]]]


def compared(call, got):
    """Each step as it is compared: the rows of the right bucket; or whether all is as it was, if no bucket fits."""
    steps, _, batch_buckets, len_buckets, max_pages, before = call
    rows, found = batch_buckets[-1], []
    last = [[before] * rows for _ in NAMES[:-1]] + [[[before] * max_pages for _ in range(rows)]]
    for step, (key, buffers) in zip(steps, got, strict=True):
        right = _key(step, batch_buckets, len_buckets)
        cut = [buffer[: right[0]] for buffer in buffers] if right else same(buffers, last)
        found.append((key, cut))
        last = buffers
    return found


def filled(*call, **options):
    """[(key, rows of the right bucket, or whether nothing changed), …] after each step."""
    return compared(call, _steps(*call, **options))


def _power(number, buckets):
    size = 1 << (number - 1).bit_length()
    return size if size <= buckets[-1] else None


# (code, words, what `filled` does otherwise); each sentence goes on from "It is what comes when"
MISTAKES = (
    ("padding_slot_0", "padding rows have slot 0. Each of them writes keys and values over the first token of page 0: "
     "slot -1 writes nowhere", {"padding": (0, 0, 0, 0, 0)}),
    ("padding_slot_stale", "padding rows keep the slot of an earlier step. They write over a token of a request that "
     "has moved on", {"padding": (0, 0, None, 0, 0)}),
    ("stale_rows", "padding rows keep all that an earlier step left. It is replayed: the same launch reads every row "
     "of the bucket", {"padding": (None,) * 5}),
    ("stale_lengths", "padding rows keep the length of an earlier step. The attention reads as many keys for them",
     {"padding": (0, 0, -1, None, 0)}),
    ("padding_length_1", "padding rows have length 1. They have no key: length 0 reads none",
     {"padding": (0, 0, -1, 1, 0)}),
    ("stale_tables", "padding rows keep the pages of an earlier step", {"padding": (0, 0, -1, 0, None)}),
    ("stale_tokens", "padding rows keep token and position of an earlier step", {"padding": (None, None, -1, 0, 0)}),
    ("padding_minus_1", "all buffers of padding rows hold -1. Only slots know a number that means none: token -1 is "
     "read from the embedding, and page -1 from the pool", {"padding": (-1,) * 5}),
    ("table_tail", "a row's table keeps pages of an earlier request after its own", {"tails": "kept"}),
    ("repeats_the_last", "padding rows repeat the last request. Its keys are written several times at once",
     {"repeats": -1}),
    ("repeats_the_first", "padding rows repeat the first request. Its keys are written several times at once",
     {"repeats": 0}),
    ("next_bucket", "a batch that fills a bucket exactly gets the next one",
     {"batch": lambda number, buckets: _at_least(number + 1, buckets)}),
    ("bucket_below", "the largest bucket that is not larger than the batch is taken. The last requests are in no row",
     {"batch": lambda number, buckets: max((size for size in buckets if size <= number), default=buckets[0])}),
    ("largest_bucket", "every step takes the largest bucket. Small batches then wait for padding",
     {"batch": lambda number, buckets: buckets[-1] if number <= buckets[-1] else None}),
    ("power_of_two", "the batch is rounded up to a power of two. Launches are recorded for `batch_buckets` alone",
     {"batch": _power}),
    ("no_bucket", "the key holds the number of requests. No launch was recorded for it",
     {"batch": lambda number, buckets: number if number <= buckets[-1] else None}),
    ("length_not_in_key", "the longest length bucket is always taken. A launch for it splits short requests in vain",
     {"length": lambda number, buckets: buckets[-1] if number <= buckets[-1] else None}),
    ("first_length", "the smallest length bucket is always taken. A recorded launch keeps the length that it was "
     "recorded with: keys beyond it are not read, without an error",
     {"length": lambda number, buckets: buckets[0] if number <= buckets[-1] else None}),
    ("exact_length", "the key holds the longest length itself. No launch was recorded for it",
     {"length": lambda number, buckets: number if number <= buckets[-1] else None}),
    ("length_one_short", "the length bucket leaves out the new token. It is in the cache when the attention reads it",
     {"longest": lambda step: _longest(step) - 1}),
    ("length_of_first", "the length bucket is that of the first request", {"longest": lambda step: step[0][1] + 1}),
    ("length_of_last", "the length bucket is that of the last request", {"longest": lambda step: step[-1][1] + 1}),
    ("length_of_shortest", "the length bucket is that of the shortest request",
     {"longest": lambda step: min(computed for _, computed, _ in step) + 1}),
    ("key_swapped", "the key holds the length bucket first", {"key": lambda batch, length: (length, batch)}),
    ("not_in_place", "the buffers are new tensors. A recorded launch reads from the addresses that it was recorded "
     "with: write into the tensors that are there", {"in_place": False}),
    ("largest_for_all", "a step that is too large takes the largest bucket. Its last requests, or their last keys, are "
     "left out: it has to run without a record", {"refused": "largest"}),
    ("written_and_refused", "the buffers are changed by a step that fits no bucket", {"refused": "written"}),
    ("seq_len_before", "seq_lens holds the tokens before the new one", {"seq_len": lambda computed: computed}),
    ("position_late", "the position is one too large: the first token of a sequence has position 0",
     {"position": lambda computed: computed + 1}),
    ("slot_late", "the slot is that of the token after the new one", {
        "slot": lambda computed, pages, size: pages[min((computed + 1) // size, len(pages) - 1)] * size
        + (computed + 1) % size}),
    ("slot_in_page", "the slot is the place in the page alone",
     {"slot": lambda computed, pages, size: computed % size}),
)  # fmt: skip


def say(call, got, right):
    """The facts of the first step that is wrong."""
    got = compared(call, got)
    steps, page_size, batch_buckets, len_buckets, _, _ = call
    at = next(i for i, (a, b) in enumerate(zip(got, right, strict=True)) if not same(a, b))
    lengths = [computed + 1 for _, computed, _ in steps[at]]
    begin = (
        f"Step {at + 1}, {len(lengths)} requests with lengths {_short(lengths)}, batch buckets "
        f"{_short(batch_buckets)}, length buckets {_short(len_buckets)}:"
    )
    (key, mine), (want_key, want) = got[at], right[at]
    if not same(key, want_key):
        return f"{begin} the key is {key} and should be {want_key}."
    if isinstance(want, bool):
        return f"{begin} no bucket holds it, and the buffers were changed all the same."
    name, a, b = next((n, a, b) for n, a, b in zip(NAMES, mine, want, strict=True) if not same(a, b))
    row = next(i for i, (one, other) in enumerate(zip(a, b, strict=True)) if not same(one, other))
    kind = "a padding row" if row >= len(lengths) else f"length {lengths[row]}, pages {_short(steps[at][row][2])}"
    return f"{begin} {name}[{row}] ({kind}) is {_shown(a[row])} and should be {_shown(b[row])}."


def _short(numbers):
    return f"[{', '.join(map(str, numbers[:12]))}{', …' * (len(numbers) > 12)}]"


def _shown(value):
    return _short(value) if isinstance(value, list | tuple) else value

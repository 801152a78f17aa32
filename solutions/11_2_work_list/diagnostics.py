"""Diagnoses of a work list: the first promise that is broken, and in which item.

May import: verdict.
"""

from dataclasses import dataclass

from course_lib.grading.report.verdict import Diagnosis


@dataclass(frozen=True)
class Batch:
    """Lengths of a case, and what its tiles and chunks are."""

    starts: list
    seq_lens: list
    group: int
    block_rows: int
    chunk_keys: int

    def request_of(self, token):
        """The request that brings this token of the batch."""
        return next(r for r, end in enumerate(self.starts[1:]) if token < end)

    def seen(self, token):
        """How many keys a token sees."""
        request = self.request_of(token)
        return self.seq_lens[request] - (self.starts[request + 1] - 1 - token)

    def last_of_tile(self, token):
        """The last token of the tile that holds a token."""
        request = self.request_of(token)
        tile, start = self.block_rows // self.group, self.starts[request]
        return min(start + ((token - start) // tile + 1) * tile, self.starts[request + 1]) - 1


def first_mistake(name, batch, items, token_parts):
    """Diagnosis of the first promise that the list breaks, or None."""
    looks = (_by_rows, _by_pairs, _by_tiles, _by_chunks)
    found = next((said for look in looks if (said := look(batch, items)) is not None), None)
    found = found or _by_token_parts(batch, token_parts)
    tokens = [end - start for start, end in zip(batch.starts, batch.starts[1:], strict=False)]
    start = (
        f"Case {name!r} (tokens {_short(tokens)}, keys {_short(batch.seq_lens)}, group {batch.group}, block_rows "
        f"{batch.block_rows}, chunk_keys {batch.chunk_keys})"
    )
    return found and Diagnosis(found[0], f"{start}: {found[1]}.")


def _short(numbers):
    return str(numbers) if len(numbers) <= 8 else f"[{', '.join(map(str, numbers[:8]))}, …]"


def _by_rows(batch, items):
    """(code, words) of an item whose rows are not whole tokens of its request, or None."""
    for item in items:
        request, first, rows = item[:3]
        said = f"the item {item} (request, first token, rows, first key, end key, part)"
        if not 0 <= request < len(batch.seq_lens):
            return "no_such_request", f"{said} is of a request that does not exist"
        if rows < 1 or item[3] >= item[4]:
            return "empty_item", f"{said} has no row or no key"
        start, end = batch.starts[request : request + 2]
        if first < start or first >= end:
            return (
                "other_request",
                f"{said} begins at token {first}; request {request} has the tokens {start} to {end - 1}",
            )
        if rows > batch.block_rows:
            return "too_many_rows", f"{said} has more than {batch.block_rows} rows"
        if rows % batch.group:
            return "token_divided", f"{said} has {rows} rows, and every token is {batch.group}: tokens are not divided"
        if first + rows // batch.group > end:
            return "two_requests", f"{said} goes beyond token {end - 1}, the last of request {request}"
    return None


def _by_pairs(batch, items):
    """(code, words) of a visible pair of token and key that is in no item, or in two, or None."""
    ranges = {token: [] for token in range(batch.starts[-1])}
    for _, first, rows, first_key, end_key, _ in items:
        for token in range(first, first + rows // batch.group):
            ranges[token].append((first_key, end_key))
    for token, keys in ranges.items():
        reached, seen = 0, batch.seen(token)
        for first_key, end_key in sorted(keys):
            if first_key < min(reached, seen):
                return "pair_twice", f"token {token} meets key {first_key} in two items"
            if first_key > reached:
                break
            reached = end_key
        if reached < seen:
            return "pair_lost", f"token {token} sees the keys 0 to {seen - 1}; key {reached} is in none of its items"
    return None


def _by_tiles(batch, items):
    """(code, words) of an item whose tile has other tokens, or keys that none of them sees, or None."""
    for item in items:
        request, first, rows, _, end_key, _ = item
        last = batch.last_of_tile(first)
        if first + rows // batch.group - 1 != last or (first and batch.last_of_tile(first - 1) == last):
            return "wrong_tile", (
                f"the item {item} has the tokens {first} to {first + rows // batch.group - 1}. A tile has "
                f"{batch.block_rows // batch.group} tokens of its request, the first tile from token "
                f"{batch.starts[request]} on, and the last one what is left"
            )
        if end_key > batch.seen(last):
            return "keys_not_seen", (
                f"the item {item} ends with key {end_key - 1}, and its last token sees the keys up to "
                f"{batch.seen(last) - 1}: what no row sees is not read"
            )
    return None


def _by_chunks(batch, items):
    """(code, words) of an item whose keys or part are not those of a chunk, or None."""
    for item in items:
        first_key, end_key, part = item[3:]
        right = min(first_key + batch.chunk_keys, batch.seen(batch.last_of_tile(item[1])))
        if first_key % batch.chunk_keys or end_key != right:
            return "wrong_chunk", (
                f"the item {item} has the keys {first_key} to {end_key - 1}; chunks begin at multiples of "
                f"{batch.chunk_keys} and have {batch.chunk_keys} keys, the last one what is left"
            )
        if part != first_key // batch.chunk_keys:
            return "wrong_part", (
                f"the item {item} says part {part}; its keys are chunk {first_key // batch.chunk_keys} of its tile"
            )
    return None


def _by_token_parts(batch, token_parts):
    """(code, words) of a wrong number of parts, or None."""
    num_tokens = batch.starts[-1]
    if len(token_parts) != num_tokens + 1:
        return "wrong_length", f"token_parts has {len(token_parts)} numbers; {num_tokens} tokens need {num_tokens + 1}"
    before = 0
    for token in range(num_tokens):
        chunks = -(-batch.seen(batch.last_of_tile(token)) // batch.chunk_keys)
        right, got = chunks if chunks > 1 else 0, token_parts[token + 1] - token_parts[token]
        if token_parts[token] != before or got != right:
            single = chunks == 1 and got == 1
            why = "a token of a single item has no part in the scratch" if single else f"its tile has {chunks} items"
            return "single_part" if single else "wrong_count", (
                f"token {token} has {got} parts in the scratch, expected {right}: {why}"
            )
        before += right
    return None

"""Drive a pool: sequences that grow together, and random moves that look for broken bookkeeping.

May import: errors, pool.
"""

import random

from ..errors import OutOfPages


def grow(pool, lengths):
    """Add sequences that grow one token at a time, in turn, so that each takes a page when it needs one.

    Parameters
    ----------
    pool : PagePool
    lengths : dict, name -> tokens at the end
    """
    for name in lengths:
        pool.add(name)
    for token in range(max(lengths.values(), default=0)):
        for name, length in lengths.items():
            if token < length:
                pool.append(name)


def random_moves(pool, num_moves, seed=0):
    """Yield the words of each of `num_moves` random moves after it was made.

    A move adds, appends to, forks or frees a sequence; an append whose slots are in a shared page raises.
    """
    chance = random.Random(seed)
    for step in range(num_moves):
        try:
            yield _move(pool, chance, step)
        except OutOfPages:
            yield "out of pages"


def _move(pool, chance, step):
    act, name = chance.choice(["new", "fork", "free", "free"] + 5 * ["append"]), chance.choice(pool.names or ("none",))
    if act == "new" or name == "none":
        pool.add(step)
    elif act == "fork":
        pool.fork(name, step)
    elif act == "free":
        pool.free(name)
    else:
        placed = pool.append(name, chance.randint(1, 9))
        shared = [slot for slot in placed.slots if pool.allocator.references(slot // pool.page_size) != 1]
        if shared:
            raise AssertionError(f"slots {shared} of {name!r} are in pages that another sequence holds too")
        return "append with a copy" if placed.copies else act
    return act

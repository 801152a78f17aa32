"""The collectives that each rank of an answer called, as counts and words.

A call is {"op", "peer", "shape", "bytes"}; "peer" is -1 in a collective, and "bytes" what the rank handed over.

May import: nothing of the course.
"""


def sent_bytes(calls):
    """Bytes that a rank handed over in messages to other ranks; those of collectives do not count."""
    return sum(call["bytes"] for call in calls if call["peer"] >= 0)


def in_words(calls, most=4):
    """ "2 times all_reduce (5, 8), send (3,) to rank 1", or "no collective"."""
    counts = {}
    for call in calls:
        peer = f" to rank {call['peer']}" if call["peer"] >= 0 else ""
        name = f"{call['op']} ({', '.join(map(str, call['shape']))}){peer}" if call["shape"] else call["op"]
        counts[name] = counts.get(name, 0) + 1
    said = [name if count == 1 else f"{count} times {name}" for name, count in counts.items()]
    more = f" and {len(said) - most} more kinds" if len(said) > most else ""
    return ", ".join(said[:most]) + more if said else "no collective"

"""What a contract says of memory, judged by the ledger: the most numbers that an answer in torch holds at one time.

May import: verdict.
"""

from ...report.verdict import Diagnosis


def too_much_held(ledger, limit, say, *, python_bytes):
    """Diagnosis or None: no more numbers alive at one time than the contract allows, in tensors, arrays and lists.

    Parameters
    ----------
    ledger : dict with "tensor_bytes", "object_bytes" and "held_bytes", of both together
    limit : int, numbers of 4 bytes
    say : callable, (held) -> the sentence of the Diagnosis; held : int, the numbers alive at one time
    python_bytes : int, bytes that the frames, views and names of a right answer may take
    """
    of_python = max(ledger["object_bytes"], ledger["held_bytes"]) - python_bytes
    held = max(ledger["tensor_bytes"], of_python) // 4
    return Diagnosis("too_much_held", say(held)) if held > limit else None

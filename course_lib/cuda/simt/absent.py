"""Shuffles from lanes that are not there: allowed as long as nobody uses what they give.

``if (lane + d < n) v += w;`` in a block of 48 threads takes `w` from lanes that do not exist and throws it away there,
which CUDA allows: the value is undefined, reading it is not. Registers cannot be watched, but the launch can be run
again with other values in their place. When it ends in the same bytes each time, nothing depends on them.

May import: simt.report.
"""

from .report import KINDS

USUAL_BYTE = 0xFF  # each byte of such a value: NaN, or -1
OTHER_BYTES = (0x77, 0xF7)  # a large number and its negative in every floating type, and in integers


def drop_discarded(answer, printed, memory, before, run, set_byte):
    """Takes the findings about absent lanes out of `answer` when their values change nothing.

    Parameters
    ----------
    answer : dict, of a launch that ended by itself; its findings are changed in place
    printed : str, what the kernel printed
    memory : memory.Memory of the launch; left as the launch left it
    before : list of bytes, ``memory.copy()`` from before the launch
    run : callable -> (answer, printed), the same launch once more
    set_byte : callable, sets the byte that absent values are made of
    """
    kept = [raw for raw in answer["findings"] if not is_absent(raw)]
    if len(kept) == len(answer["findings"]):
        return
    after, wanted, same = memory.copy(), _told(answer, printed), True
    try:
        for byte in OTHER_BYTES:
            memory.restore(before)
            set_byte(byte)
            again, text = run()
            same = same and memory.copy() == after and _told(again, text) == wanted
    finally:
        set_byte(USUAL_BYTE)
        memory.restore(after)
    if same:
        answer["findings"] = kept


def is_absent(raw):
    """Whether a raw finding is about a value from a lane that is not there."""
    return KINDS[raw["kind"]] == "bad_shuffle" and raw["detail"].startswith("absent|")


def _told(answer, printed):
    """What else must not depend on such a value: how it ended, other findings, traffic, text."""
    findings = [(raw["kind"], raw["code"], raw["other_code"], raw["count"]) for raw in answer["findings"]]
    return answer["stop"], sorted(findings), answer["counters"], printed

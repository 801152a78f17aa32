"""Shuffles that read an inactive lane: allowed as long as the value is not used.

``if (lane + d < n) v += w;`` in a block of 48 threads shuffles `w` from lanes that do not exist and discards it there.
CUDA allows that: the value is undefined, discarding it is not an error. Registers cannot be watched, but the launch can
be repeated with other values in their place. When memory, traffic and findings are the same each time, nothing depends
on them.

May import: simt.report.
"""

from .report import KINDS

USUAL_BYTE = 0xFF  # every byte of such a value: NaN, or -1
OTHER_BYTES = (0x77, 0xF7)  # a large number and its negative in every floating type, and in integers


def drop_discarded(result, printed, memory, before, run, set_byte):
    """Remove the findings about inactive lanes from `result` when their values change nothing.

    Parameters
    ----------
    result : dict, of a launch that ended by itself; its findings are changed in place
    printed : str, what the kernel printed
    memory : memory.Memory of the launch; its contents are the same before and after the call
    before : list of bytes, ``memory.copy()`` from before the launch
    run : callable -> (result, printed), the same launch once more
    set_byte : callable, sets the byte that values from inactive lanes are made of
    """
    kept = [raw for raw in result["findings"] if not is_inactive_source(raw)]
    if len(kept) == len(result["findings"]):
        return
    after, expected, same = memory.copy(), _observed(result, printed), True
    try:
        for byte in OTHER_BYTES:
            memory.restore(before)
            set_byte(byte)
            repeated, text = run()
            same = same and memory.copy() == after and _observed(repeated, text) == expected
    finally:
        set_byte(USUAL_BYTE)
        memory.restore(after)
    if same:
        result["findings"] = kept


def is_inactive_source(raw):
    """Return whether a raw finding is about a shuffle from an inactive lane."""
    return KINDS[raw["kind"]] == "bad_shuffle" and raw["detail"].startswith("inactive|")


def _observed(result, printed):
    """Everything besides memory that must not depend on such a value: stop, findings, traffic, printed text."""
    findings = [(raw["kind"], raw["code"], raw["other_code"], raw["count"]) for raw in result["findings"]]
    return result["stop"], sorted(findings), result["counters"], printed

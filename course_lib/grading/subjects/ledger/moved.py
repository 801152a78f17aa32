"""What a contract says of global memory, judged by the ledger: bytes read, bytes written.

    ledger_rule=lambda case, ledger: moved(case, ledger, read=4 * floats_read(case), written=4 * floats_written(case))

May import: verdict.
"""

from ...report.verdict import Diagnosis

_KINDS = {"read": ("global_load", "load"), "written": ("global_store", "store")}


def moved(case, ledger, *, read=None, written=None, why="", slack=1.0):
    """Diagnosis or None: no more bytes read from and written to global memory than the contract allows.

    Parameters
    ----------
    case : Case
    ledger : dict of a CUDA or Triton run
    read, written : int or None, the most bytes; None: not judged. Elements that several lanes touch count each time
    why : str, the promise in words, "each score is read twice", put into the sentence
    slack : float, over `read` alone; each element is written once, so `written` has none

    Returns
    -------
    Diagnosis "extra_reads" or "extra_writes", or None
    """
    said = f" ({why})" if why else ""
    start = f"Every value is right (case {case.name!r})"
    for verb, limit in (("read", read and slack * read), ("written", written)):
        if limit is None:
            continue
        kind, short = _KINDS[verb]
        count = ledger.get(kind, {}).get("bytes", 0)
        if count > limit:
            line = _worst_line(ledger, kind, short)
            words = f"{start}, but {count:,} bytes are {verb} where the contract allows {limit:,.0f}{said}"
            most = f"; line {line} has most of them" if line else ""
            return Diagnosis(f"extra_{'reads' if verb == 'read' else 'writes'}", f"{words}{most}.", line)
    return None


def _worst_line(ledger, kind, short):
    """The source line that moves most of these bytes, or None."""
    lines = ledger.get("lines", [])
    if isinstance(lines, dict):  # of the SIMT machine
        counts = {line: row[kind]["bytes"] for line, row in lines.items() if kind in row and str(line).isdigit()}
    else:
        counts = {row["line"]: row["bytes"] for row in lines if row["kind"] == short}
    return int(max(counts, key=counts.get)) if counts else None

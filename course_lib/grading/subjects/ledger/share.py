"""What a contract says of who does the work, judged by the ledger: the most bytes that one thread, or program, moves.

    ledger_rule=lambda case, ledger: share(case, ledger, stored=4 * per_thread, why="a thread writes 8 numbers at most")

May import: verdict.
"""

from ...report.verdict import Diagnosis

_KINDS = {
    "loaded": ("global_load", "reads {:,} bytes"),
    "stored": ("global_store", "writes {:,} bytes"),
    "shared": ("shared_load", "reads {:,} bytes of shared memory"),
}


def share(case, ledger, *, loaded=None, stored=None, shared=None, why="", unit="thread"):
    """Diagnosis or None: no thread moves more than its share.

    Parameters
    ----------
    case : Case
    ledger : dict of a CUDA or Triton run
    loaded, stored : int or None, the most bytes of global memory that one thread (CUDA) or program (Triton) reads and
        writes; None: not judged
    shared : the same for reads of shared memory, CUDA alone
    why : str, the promise in words, put into the sentence
    unit : "thread" or "program"
    """
    most, said = ledger["largest_share"], f" ({why})" if why else ""
    for name, limit in (("loaded", loaded), ("stored", stored), ("shared", shared)):
        kind, does = _KINDS[name]
        if limit is not None and most[kind] > limit:
            return Diagnosis(
                "work_not_shared",
                f"Every value is right, but one {unit} {does.format(most[kind])}, and its share of the case "
                f"{case.name!r} is {limit:,}{said}. Let each {unit} take its own part of the work.",
            )
    return None

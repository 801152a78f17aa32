"""Whether threads share the work of a kernel, judged by the ledger of a CUDA run: lanes that take part in a request.

May import: verdict.
"""

from ...report.verdict import Diagnosis

FEWEST_LANES = 4.0  # of 32, on average over all reads of global memory


def lanes_share(case, ledger, what):
    """Diagnosis "few_lanes" or None: reads of global memory are made by several lanes of a warp at a time.

    Parameters
    ----------
    case : Case, large enough to give every lane something to read
    ledger : dict of a CUDA run
    what : str, what the threads share: "the keys and the columns"
    """
    counts = ledger["global_load"]
    lanes = counts["bytes"] / 4 / max(counts["requests"], 1)
    if not counts["requests"] or lanes >= FEWEST_LANES:
        return None
    return Diagnosis(
        "few_lanes",
        f"Every value is right (case {case.name!r}), but the threads do not share the work: {counts['requests']:,} "
        f"requests read {counts['bytes'] // 4:,} numbers, {lanes:.2g} of 32 lanes at a time. The threads of a block "
        f"share {what}.",
    )

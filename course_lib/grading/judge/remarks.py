"""Right, but worth a word: what the ledger of a passing answer says about its traffic.

May import: nothing of the course.
"""

UNCOALESCED = 2.0  # sectors fetched over the fewest that the same requests could need
EXTRA_BYTES = 1.25  # bytes moved over what the exercise's solution moves


def from_ledger(exercise, case, ledger, fewest_bytes):
    """Remarks for a right answer.

    Parameters
    ----------
    exercise : Exercise
    case : Case whose launch was counted
    ledger : dict, Report.ledger() of that launch
    fewest_bytes : int, the lower bound of the exercise

    Returns
    -------
    list of str, often empty
    """
    said = []
    for direction, verb in (("global_load", "reads"), ("global_store", "writes")):
        counts = ledger.get(direction) or {}
        sectors, ideal = counts.get("sectors", 0), counts.get("ideal_sectors", 0)
        if ideal and sectors >= UNCOALESCED * ideal:
            said.append(
                f"Right, but its {verb} touch {sectors:,} sectors of 32 bytes where {ideal:,} would hold the same "
                "bytes: "
                "let neighbouring lanes take neighbouring addresses."
            )
    moved = sum((ledger.get(direction) or {}).get("bytes", 0) for direction in ("global_load", "global_store"))
    usual = exercise.usual_bytes(case) if exercise.usual_bytes else 0
    if usual and moved >= EXTRA_BYTES * usual:
        said.append(
            f"Right, but it moves {moved:,} bytes; the solution moves {usual:,}, and no kernel can do with less than "
            f"{fewest_bytes:,}. {exercise.question}"
        )
    shared = [ledger.get(direction) or {} for direction in ("shared_load", "shared_store")]
    requests, conflicts = (sum(counts.get(key, 0) for counts in shared) for key in ("requests", "conflicts"))
    if requests and conflicts > requests:
        said.append(f"Right, but its {requests:,} accesses to shared memory have {conflicts:,} bank conflicts.")
    return said

"""What the ledger says about a matrix product that is right: numbers read again and again, lanes that wait for a bank.

May import: verdict, cases, subjects.ledger.
"""

from ...report.verdict import Diagnosis
from ..ledger.moved import moved
from ..ledger.share import share
from .cases import tiled_bytes

AGAIN = 1.5  # times the bytes that tiles of this shape need: from here on numbers are read again and again


def reuse(case, ledger, tile, in_bytes=4, *, exact=True):
    """Diagnosis or None: every block reads the numbers of a and b that its tile needs, each once, and no others.

    Parameters
    ----------
    tile : (rows, columns) of out that a block has
    in_bytes : bytes of a number of a and b
    exact : whether a few bytes too many are refused as well
    """
    size_m, size_n, size_k = case.sizes.values()
    needed, loaded = tiled_bytes(case, tile, in_bytes, 0), ledger["global_load"]["bytes"]
    if loaded <= (needed if exact else AGAIN * needed):
        return None
    start = f"The values are right, but {loaded:,} bytes are read from global memory"
    line = _worst_line(ledger, "global_load", "bytes")
    if loaded > AGAIN * needed:
        times = loaded / (in_bytes * (size_m * size_k + size_k * size_n))
        return Diagnosis(
            "no_reuse",
            f"{start}, each number {times:.3g} times on average. Blocks that have a tile of {tile[0]} x {tile[1]} and "
            f"read what it needs once read {needed:,}. (Case: {case.name}.)",
            line,
        )
    return Diagnosis(
        "extra_reads",
        f"{start}, and blocks that have a tile of {tile[0]} x {tile[1]} and read what it needs once read {needed:,}. "
        f"Is a part of a tile read twice, or something past the end of a row, a column or k? (Case: {case.name}.)",
        line,
    )


def shared_out(case, ledger, *, stored, loaded, out_bytes=4, why):
    """Diagnosis or None: out is written once, each thread stores its own numbers and loads no more than its share.

    Parameters
    ----------
    stored, loaded : int, the most bytes of one thread
    out_bytes : bytes of a number of out
    why : str, what a thread takes, in words
    """
    once = out_bytes * case.sizes["size_m"] * case.sizes["size_n"]
    written = moved(case, ledger, written=once, why="each number of out is written once")
    return written or share(case, ledger, stored=stored, loaded=loaded, why=why)


def conflicts(case, ledger):
    """Diagnosis or None: no access to shared memory takes more wavefronts than its bytes need."""
    for name, words in (("shared_load", "reads from"), ("shared_store", "writes to")):
        counts = ledger[name]
        if not counts["conflicts"]:
            continue
        ideal = counts["wavefronts"] - counts["conflicts"]
        line = _worst_line(ledger, name, "conflicts")
        here = ledger["lines"].get(str(line), {}).get(name, counts)
        each, fewest = (
            here["wavefronts"] / here["requests"],
            (here["wavefronts"] - here["conflicts"]) / here["requests"],
        )
        return Diagnosis(
            "bank_conflicts",
            f"The values are right, but the {words} shared memory have {counts['conflicts']:,} bank conflicts: "
            f"{counts['wavefronts']:,} wavefronts where {ideal:,} would do. In the worst line a request takes "
            f"{each:.3g} wavefronts and needs {fewest:.3g}. (Case: {case.name}.)",
            line,
        )
    return None


def wavefronts(case, ledger, most, why):
    """Diagnosis or None: no conflict, and yet more wavefronts than the numbers need."""
    counted = ledger["shared_load"]["wavefronts"]
    if counted <= most:
        return None
    return Diagnosis(
        "extra_wavefronts",
        f"The values are right and no bank has a conflict, but the reads from shared memory take {counted:,} "
        f"wavefronts; at most {most:,} are accepted ({why}). Is a request split into smaller ones, or does every lane "
        f"read what only one of them needs? (Case: {case.name}.)",
        _worst_line(ledger, "shared_load", "wavefronts"),
    )


def _worst_line(ledger, name, key):
    """The source line with most of `key`, or None."""
    lines = {line: counts[name][key] for line, counts in ledger["lines"].items() if name in counts}
    worst = max(lines, key=lines.get, default="")
    return int(worst) if worst.isdigit() else None

"""What the ledger says about a matrix product that is right: numbers read again and again, lanes that wait for a bank.

May import: verdict, cases.
"""

from ...report.verdict import Diagnosis
from .cases import tiled_bytes

SLACK = 1.3  # over the bytes that tiles of this shape need


def reuse(case, ledger, tile):
    """Diagnosis or None: on whole tiles, global loads as if every block read its rows and columns once."""
    size_m, size_n, size_k = case.sizes.values()
    if size_m % tile[0] or size_n % tile[1] or size_m == 1:
        return None
    needed, loaded = tiled_bytes(case, tile) - 4 * size_m * size_n, ledger["global_load"]["bytes"]
    if loaded <= SLACK * needed:
        return None
    times = loaded / (4 * (size_m * size_k + size_k * size_n))
    return Diagnosis(
        "no_reuse",
        f"The values are right, but {loaded:,} bytes are read from global memory, each number {times:.3g} times on "
        f"average. Blocks that keep a tile of {tile[0]} x {tile[1]} in shared memory read {needed:,}. "
        f"(Case: {case.name}.)",
        _worst_line(ledger, "global_load", "bytes"),
    )


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


def _worst_line(ledger, name, key):
    """The source line with most of `key`, or None."""
    lines = {line: counts[name][key] for line, counts in ledger["lines"].items() if name in counts}
    worst = max(lines, key=lines.get, default="")
    return int(worst) if worst.isdigit() else None

"""Kernels that move numbers: traffic of a right one that is slow, and the origin of the numbers of a wrong one."""

from dataclasses import replace

import torch

from ...report.verdict import Diagnosis
from ..ledger.share import share
from . import special

SECTOR_BYTES = 32
WARP_SIZE = 32
TILE = 32
SLACK = 1.3  # a start that is not aligned costs 5 sectors in place of 4; anything beyond is a pattern
_WORDS = {"global_load": ("load", "read"), "global_store": ("store", "written")}


def places(count, gen):
    """`count` different floats in random order, of both signs and with fractions: each tells its place, exactly."""
    return torch.randperm(count, generator=gen).float() - 0.5 * count + 0.25


def copy_traffic(case, ledger, most):
    """Diagnosis or None: a copy of `n` floats in at most SLACK times the fewest sectors, each number once.

    No thread copies more than `most` numbers.
    """
    fewest = _sectors(case.sizes["n"])
    limits = dict.fromkeys(_WORDS, max(SLACK * fewest, fewest + 2))
    found = _in_case(case, _global_traffic(case.sizes["n"], ledger, limits))
    return found or share(case, ledger, stored=4 * most, why=f"{most} numbers at most")


def transpose_traffic(case, ledger, most):
    """Diagnosis or None: no bank conflict, and no more sectors than a request for each row of each tile touches.

    No thread stores more than `most` numbers.
    """
    num_rows, num_cols = case.sizes.values()
    limits = {"global_load": _row_sectors(num_rows, num_cols), "global_store": _row_sectors(num_cols, num_rows)}
    found = _in_case(case, _conflicts(ledger) or _global_traffic(num_rows * num_cols, ledger, limits))
    return found or share(case, ledger, stored=4 * most, why=f"{most} numbers at most")


def _sectors(count):
    """The fewest sectors that hold `count` floats."""
    return -(-4 * count // SECTOR_BYTES)


def _row_sectors(num_rows, num_cols):
    """The most sectors that tiles' rows touch, a request each, wherever in a sector they begin."""
    widths = [min(TILE, num_cols - first) for first in range(0, num_cols, TILE)]
    return num_rows * sum((SECTOR_BYTES - 4 + 4 * width - 1) // SECTOR_BYTES + 1 for width in widths)


def _in_case(case, found):
    """The diagnosis with the name of the case that was counted."""
    return found and replace(found, sentence=f"{found.sentence} (Case: {case.name}.)")


def _global_traffic(count, ledger, limits):
    """What the global loads and stores of `count` floats say: too many bytes, too few lanes, too many sectors.

    limits : dict, "global_load" and "global_store" -> the most sectors
    """
    fewest = _sectors(count)
    for direction, (_, verb) in _WORDS.items():
        moved = ledger[direction]["bytes"]
        if moved > 4 * count:
            return Diagnosis(
                "extra_traffic",
                f"The values are right, but {moved:,} bytes are {verb} for {count:,} numbers of 4 bytes: "
                f"{_times(moved / (4 * count), verb)}.",
                _worst_line(ledger, direction, "bytes"),
            )
    wasteful = [name for name in _WORDS if ledger[name]["sectors"] > limits[name]]
    if not wasteful:
        return None
    line = _worst_line(ledger, wasteful[0], "sectors")
    counts = ledger[wasteful[0]]
    if counts["bytes"] / counts["requests"] <= 32:  # 8 lanes or fewer
        return Diagnosis("few_lanes", _say_few_lanes(wasteful, counts, fewest), line)
    code = "uncoalesced" if len(wasteful) == 2 else f"uncoalesced_{_WORDS[wasteful[0]][0]}"
    return Diagnosis(code, _say_uncoalesced(wasteful, ledger, fewest), line)


def _times(times, verb):
    """ "each is read 2 times"; for a few extra numbers what they are."""
    return f"each is {verb} {times:.3g} times" if times >= 1.2 else f"some are {verb} more than once"


def _say_few_lanes(wasteful, counts, fewest):
    lanes = counts["bytes"] / 4 / counts["requests"]
    return (
        f"The values are right, but a {_WORDS[wasteful[0]][0]} has only {lanes:.2g} of 32 lanes at work: "
        f"{counts['requests']:,} requests fetch {counts['sectors']:,} sectors, where {fewest:,} hold all numbers. "
        "Let all lanes of a warp take part, each with a number of its own."
    )


def _say_uncoalesced(wasteful, ledger, fewest):
    counts = ledger[wasteful[0]]
    each, lanes = counts["sectors"] / counts["requests"], counts["bytes"] / 4 / counts["requests"]
    names = " and ".join(f"{_WORDS[name][0]}s" for name in wasteful)
    other = next((_WORDS[name][0] for name in _WORDS if name not in wasteful), "")
    text = (
        f"The values are right, but the {names} touch {counts['sectors']:,} sectors where {fewest:,} hold all numbers: "
        f"{each:.3g} sectors for one request of {lanes:.3g} numbers."
    )
    text += f" (The {other}s are in order.)" if other else ""
    if each > WARP_SIZE - 4:
        return text + " Every lane of a warp has a sector to itself: neighbouring lanes are 32 bytes or more apart."
    return text + f" Of each sector of {SECTOR_BYTES} bytes, {counts['bytes'] / counts['sectors']:.3g} are used."


def _conflicts(ledger):
    """The shared access with the most conflicts, in words; None when there is none."""
    for name in ("shared_load", "shared_store"):
        counts = ledger[name]
        if not counts["conflicts"]:
            continue
        ways = counts["wavefronts"] / counts["requests"]
        what = "reads from" if name == "shared_load" else "writes to"
        meet = f"{ways:.0f}" if ways == int(ways) else f"on average {ways:.2g}"
        return Diagnosis(
            "bank_conflicts",
            f"The values are right, but the {what} shared memory have {counts['conflicts']:,} bank conflicts: "
            f"{counts['requests']:,} requests take {counts['wavefronts']:,} wavefronts, {ways:.3g} each. In a request "
            f"{meet} lanes want different words of the same bank, and a bank serves one word at a time.",
            _worst_line(ledger, name, "conflicts"),
        )
    return None


def _worst_line(ledger, name, key):
    """The source line with most of `key`, or None."""
    lines = {line: counts[name][key] for line, counts in ledger["lines"].items() if name in counts}
    worst = max(lines, key=lines.get, default="")
    return int(worst) if worst.isdigit() else None


def diagnose_places(evidence):
    """Every input value is another one, so a wrong output says which number it is: Diagnosis or None."""
    found = special.by_special(evidence)
    if found is not None:
        return found
    for case in sorted(evidence.failing(), key=lambda case: "special" in case.case.options):
        comparison = case.comparisons.get("out")
        if comparison is None or comparison.passed or comparison.kind != "values":
            continue
        x, out, ref = case.inputs["x"], case.first.outputs["out"], case.ref["out"]
        if out.dim() == 2 and torch.equal(out.flatten(), x.flatten()):
            return Diagnosis(
                "not_transposed",
                f"out holds the numbers of x in their old order (case {case.case.name!r}"
                f", {tuple(x.shape)}): nothing was turned round.",
            )
        at, got = comparison.index, comparison.got
        source = torch.nonzero(x == got)
        if source.numel() == 0:
            return None
        right = torch.nonzero(x == ref[at].item())[0].tolist()
        count = int(comparison.wrong.sum())
        return Diagnosis(
            "wrong_place",
            f"out{_subscript(at)} holds x{_subscript(source[0].tolist())}; it should hold x{_subscript(right)}. "
            f"{count:,} of {out.numel():,} numbers are in a wrong place (case {case.case.name!r}).",
        )
    return None


def _subscript(index):
    return "".join(f"[{number}]" for number in index)

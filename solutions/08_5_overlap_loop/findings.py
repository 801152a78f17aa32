"""The machine's findings in the words of this kernel: names of barriers, causes before what follows."""

import re

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.hopper.findings import POLLS

# kinds of findings, what the sentence holds, code, advice
_ROWS = (
    (("bad_copy",), "v_full", "v_never_read", "V of a tile was loaded, and its weights were never multiplied by it."),
    (("bad_copy",), "k_full", "k_never_read",
     "K of a tile was loaded, and no scores were made of it: does the loop end before tile 0?"),
    (("race",), "bulk load of .* writes", "never_waited_for",
     "A stage was filled again though nobody had waited for the load before: of which ring are the stage and the "
     "parity that the consumers wait for?"),
    (("bad_barrier",), "_empty.* have come already", "too_many_arrivals",
     "One thread of each consumer arrives at an empty barrier, once."),
    (("deadlock",), "_empty", "never_released",
     "The producer waits for a stage to be released: each consumer arrives once for every tile that it has read."),
    (("deadlock",), "_full", "never_filled",
     "Either no tile comes in that phase, or the producer cannot go on: check the stage, the parity, and that each "
     "consumer releases each tile once."),
)  # fmt: skip
_ASKED = POLLS[0].pattern
_OVERWRITTEN = r"bulk load started by .* writes .*which the wgmma of"
_UNLANDED = r"reads .*which the bulk load of .* writes"


def explain(fault, found, _evidence):
    """The Diagnosis of a finding.

    Parameters
    ----------
    fault : Fault, the finding chosen
    found : CaseEvidence, its case; a race in it may be the cause of a deadlock or of an arrival too many
    """
    message = _named(fault.message, found)
    asked = _race(found, _ASKED)
    if asked is not None:
        return _said(POLLS[0].code, asked, found, POLLS[0].advice)
    early = _race(found, _OVERWRITTEN)
    if early is not None and fault.kind in ("deadlock", "race"):
        advice = "A stage is released once by each consumer, when the product that reads it is done."
        return _said("released_early", early, found, advice)
    unlanded = _race(found, _UNLANDED)
    if unlanded is not None and fault.kind in ("bad_barrier", "deadlock", "race") and "_empty" not in message:
        advice = "Wait for the stage's full barrier, with the ring's parity, before the product is issued."
        return _said("read_before_landing", unlanded, found, advice)
    for kinds, pattern, code, advice in _ROWS:
        if fault.kind in kinds and re.search(pattern, message):
            return _said(code, fault, found, advice)
    return Diagnosis(fault.kind, f"{message} (Case: {found.case.name}.)", fault.line)


def _race(found, pattern):
    """The first race of the case whose sentence has the pattern, or None."""
    return next((one for one in found.faults if one.kind == "race" and re.search(pattern, one.message)), None)


def _said(code, fault, found, advice):
    return Diagnosis(code, f"{_named(fault.message, found)} {advice} (Case: {found.case.name}.)", fault.line)


def _named(message, found):
    """The sentence with "barriers[5]" as a member of the struct Barriers."""
    stages = found.case.options["stages"]

    def name(match):
        number = int(match[1])
        if number == 0:
            return "barriers.q_full"
        which, stage = divmod(number - 1, stages)
        return f"barriers.{('k_full', 'k_empty', 'v_full', 'v_empty')[which]}[{stage}]"

    return re.sub(r"\bbarriers\[(\d+)\]", name, message.strip())

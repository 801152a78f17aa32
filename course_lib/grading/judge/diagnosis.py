"""From what was seen to one sentence: what the pattern says, in numbers that the learner can check by hand.

The order matters: an answer that did not run, a finding of the machine (which knows the line), elements never written,
outputs that are not the answer's work at all, then the exercise's own reading of its probes, then the plain facts.

May import: exercise.inputs, unwritten, report.verdict, notation, torch.
"""

import math

import torch

from ...notation import UNIT_ROUNDOFF
from ..exercise import inputs
from ..report.verdict import Diagnosis
from .unwritten import runs_of, sentence, unwritten

# Findings: the first kind in this list is the one to repair first; those below it are often its consequence.
FINDING_ORDER = (
    "out_of_bounds",
    "misaligned",
    "input_modified",
    "bad_shuffle",
    "bad_registers",
    "bad_wgmma",
    "bad_barrier",
    "deadlock",
    "divergent_barrier",
    "in_flight",
    "race",
    "missing_fence",
    "uninitialised_read",
    "bad_copy",
    "timeout",
)
_FAR = 16  # times below what half precision leaves: no result was rounded to half
_ONE_SIDED = 12  # wrong numbers that all err one way: of as many rounded ones, one in 2,000 times


def diagnose(evidence, task_fault=None, probe=None):
    """The diagnosis of a failed grading.

    Parameters
    ----------
    evidence : Evidence
    task_fault : Fault or None; set when the task as a whole gave no result
    probe : callable or None; puts the readings of the probes into the evidence, called when nothing else explains it

    Returns
    -------
    Diagnosis
    """
    for look in (_findings, _faults):
        found = look(evidence)
        if found is not None:
            return found
    if task_fault is not None:
        return Diagnosis(task_fault.kind, task_fault.message, task_fault.line)
    modified = _modified(evidence)
    if modified is not None:
        return modified
    if evidence.exercise.accept is not None:
        own = evidence.exercise.diagnose(evidence) if evidence.exercise.diagnose is not None else None
        return own or next(case.refusal for case in evidence.failing() if case.refusal is not None)
    for look in (_structure, unwritten, _refused, _trivial, _own_reading(probe), _unstable, _not_a_number):
        found = look(evidence)
        if found is not None:
            return found
    return _plain(evidence)


def _own_reading(probe):
    """The exercise's own diagnosis, once its probes have been run."""

    def look(evidence):
        own = evidence.exercise.diagnose
        if own is not None and probe is not None:
            probe()
        return own(evidence) if own is not None else None

    return look


def case_note(case):
    """One sentence on a failed case for another reason than values; empty when the values say it."""
    if case.faults:
        return case.faults[0].message
    if case.refusal is not None:
        return case.refusal.sentence
    if case.inputs_changed:
        return f"The answer changed its input {case.inputs_changed[0].name}."
    if case.differing:
        return f"Right at first, wrong in the {_where(case.differing)}."
    return next((c.note for c in case.comparisons.values() if not c.passed and c.note), "")


def _where(differing):
    return differing if differing == "second run" else f"{differing!r} order of threads"


def _findings(evidence):
    found = [(fault, case) for case in evidence.cases for fault in case.faults if fault.kind in FINDING_ORDER]
    if not found:
        return None
    explain = evidence.exercise.explain
    fault, case = min(found, key=lambda pair: (FINDING_ORDER.index(pair[0].kind), pair[1].elements))
    own = explain(fault, case, evidence) if explain is not None else None
    return own or Diagnosis(fault.kind, f"{sentence(fault.message)} (Case: {case.case.name}.)", fault.line)


def _faults(evidence):
    for case in evidence.failing():
        fault = case.first.fault
        if fault is not None:
            where = f" (Case: {case.case.name}.)" if fault.kind == "exception" else ""
            return Diagnosis(fault.kind, sentence(fault.message) + where if where else fault.message, fault.line)
    return None


def _modified(evidence):
    for case in evidence.failing():
        for change in case.inputs_changed:
            text = f"The answer writes into its input {change.name}"
            if change.index is None:
                return Diagnosis("input_modified", f"{text}, which has another shape or dtype after the run.")
            first, many = f"{change.name}{_index(change.index)}", f", the first of {change.count} such elements"
            before, after = _number(change.before), _number(change.after)
            other = " with other bits" if before == after else ""
            return Diagnosis(
                "input_modified",
                f"{text}: {first} was {before} before the run and is {after}{other} after it"
                f"{many if change.count > 1 else ''}. Write only to the outputs.",
            )
    return None


def _structure(evidence):
    for case in evidence.failing():
        for name, comparison in case.comparisons.items():
            if comparison.kind in ("shape", "dtype", "missing"):
                return Diagnosis("wrong_return", f"Output {name}: {comparison.note}")
    return None


def _refused(evidence):
    """Every value is right, and the way is not the one that the exercise asks for."""
    failing = evidence.failing()
    return failing[-1].refusal if failing and all(case.refusal is not None for case in failing) else None


def _trivial(evidence):
    """Outputs that no computation made: all zeros, an input handed back."""
    ran = [case for case in evidence.cases if case.ran and case.comparisons]
    if not ran or evidence.passing() and all(case.elements > 4 for case in evidence.passing()):
        return None
    for name in ran[0].comparisons:
        outputs = [case.first.outputs[name] for case in ran]
        others_right = all(each.passed for c in ran for other, each in c.comparisons.items() if other != name)
        if len(ran[0].comparisons) > 1 and evidence.exercise.rules.get(name) == "exact" and others_right:
            continue  # a count beside right results: the exercise says more
        if all(bool((out == 0).all()) for out in outputs):
            return Diagnosis(
                "all_zeros",
                f"Every element of {name} is 0 in every case: nothing was computed, "
                "or a guard against NaN or an empty row turned every result into 0.",
            )
        for key in ran[0].inputs:
            if all(_is_copy(case.ref[name], case.inputs.get(key)) for case in ran):
                continue  # a copy is right
            if all(_is_copy(out, case.inputs.get(key)) for out, case in zip(outputs, ran, strict=True)):
                return Diagnosis("copy_of_input", f"{name} is a copy of the input {key} in every case.")
    return None


def _is_copy(out, tensor):
    if not isinstance(tensor, torch.Tensor) or tensor.shape != out.shape:
        return False
    return bool(torch.equal(out.double().nan_to_num(7.0), tensor.double().nan_to_num(7.0)))


def _unstable(evidence):
    for case in evidence.failing():
        if case.differing == "second run":
            return Diagnosis(
                "reads_its_output",
                f"The case {case.case.name!r} is right when the output held NaN before and wrong when it held "
                "-2048: the result depends on what the output held. Write it before reading it.",
            )
        if case.differing:
            return Diagnosis(
                "depends_on_order",
                f"The case {case.case.name!r} is right when threads run in order and wrong in the "
                f"{_where(case.differing)}: "
                "something is read before it is surely written.",
            )
    return None


def _not_a_number(evidence):
    for case in evidence.failing():
        for name, comparison in case.comparisons.items():
            if comparison.kind == "not_finite":
                wrong = comparison.wrong & ~torch.isfinite(case.first.outputs[name])
                return Diagnosis(
                    "not_finite",
                    f"{name}{_index(comparison.index)} is {_number(comparison.got)} instead of "
                    f"{_number(comparison.expected)}, and so are "
                    f"{int(wrong.sum())} of {wrong.numel()} elements, in the case {case.case.name!r}"
                    f"{_said(case.case)}.{_undefined_loads(case.first.ledger)}",
                )
    return None


def _said(case):
    """ " (scores near -100)": the values of a case in words, empty when its name says as much."""
    words = inputs.WORDS.get(case.values, case.values)
    return "" if words == case.name else f" ({words})"


def _undefined_loads(ledger):
    """A sentence on the first tl.load that hid elements without saying what they hold; empty when there is none."""
    for line, count in (ledger or {}).get("undefined_loads", ())[:1]:
        return (
            f" In line {line} the mask of a load hides {count:,} element{'s' * (count > 1)}, and the load has no "
            "`other`: what a hidden element holds is then undefined, here NaN, and a sum or maximum takes it in."
        )
    return ""


def _plain(evidence):
    """The facts without an interpretation, when no pattern is known."""
    failing, passing = evidence.failing(), evidence.passing()
    rounded = low_precision(failing)
    if rounded is not None:
        return rounded
    case = failing[0]
    name, comparison = case.first_wrong
    if comparison.kind == "mean":
        return Diagnosis("mean_error", f"{comparison.note} (Case: {case.case.name}.)")
    wrong = comparison.wrong
    text = (
        f"{name}{_index(comparison.index)} is {_number(comparison.got)}, expected {_number(comparison.expected)}; "
        f"{int(wrong.sum())} of {wrong.numel()} elements are off in the case {case.case.name!r}"
    )
    text += f"{_wrong_rows(case.case, name, comparison)}."
    if passing:
        text += f" Right: {', '.join(c.case.name for c in passing[:3])}."
    return Diagnosis("wrong_values", text)


def _wrong_rows(case, name, comparison):
    """Which rows of a result are wrong, in words; where every rank gives one: which ranks, and the first one's rows."""
    wrong, on_ranks = comparison.wrong, ""
    if wrong.dim() < 2:
        return ""
    if wrong.dim() > 2 and case.sizes.get("world", 1) == len(wrong) > 1:
        ranks, first = wrong.flatten(1).any(dim=1).nonzero().flatten().tolist(), comparison.index[:-2]
        on_ranks = f" on rank{'s' * (len(ranks) > 1)} {runs_of(ranks)}, of {name}{_index(first)}"
        wrong = wrong[first]
    rows = wrong.reshape(-1, wrong.shape[-1]).any(dim=1).nonzero().flatten().tolist()
    return f",{on_ranks} in row{'s' * (len(rows) > 1)} {runs_of(rows)}"


def low_precision(failing):
    """Every error of the failing cases small, as rounding to half precision or bfloat16 leaves it; or None."""
    worst, errors, values = 0.0, [], []
    for case in failing:
        for name, comparison in case.comparisons.items():
            if comparison.passed:
                continue
            ref, wrong = case.ref[name], comparison.wrong
            finite = ref[torch.isfinite(ref)]
            scale = finite.abs().max().item() if finite.numel() else 0.0
            if not comparison.max_error <= 8.0 * UNIT_ROUNDOFF["bfloat16"] * max(scale, 1e-30):
                return None
            worst = max(worst, comparison.max_error / max(scale, 1e-30))
            errors.append((case.first.outputs[name].double() - ref)[wrong])
            values.append(ref[wrong])
    if worst == 0.0:
        return None
    start = f"Nearly right everywhere: the largest error is {worst:.1e} of the largest value"
    half = UNIT_ROUNDOFF["float16"]
    said = (
        f"{start}, far less than rounding a result to half leaves ({half:.1e}): a small constant that was added (an "
        "epsilon), a constant with few digits, terms below a threshold that were left out, or numbers rounded inside a "
        "long sum, where errors cancel: compute in float."
        if worst < half / _FAR
        else f"{start}. Rounding to half on the way leaves {half:.1e}, to bfloat16 {UNIT_ROUNDOFF['bfloat16']:.1e}: "
        "compute in float. A threshold below which terms are left out does the same."
    )
    return _one_sided(start, torch.cat(errors), torch.cat(values)) or Diagnosis("low_precision", said)


def _one_sided(start, errors, values):
    """Diagnosis when all wrong numbers, or their magnitudes, err the same way, as no rounding does; or None.

    Equal numbers are rounded the same way, so they count once.
    """
    if len(values.float().unique()) < _ONE_SIDED:
        return None
    for signs, what in ((errors.sign(), ""), ((errors * values).sign(), " in magnitude")):
        if abs(signs.sum()) == len(errors):
            way = "large" if signs[0] > 0 else "small"
            return Diagnosis(
                "one_sided_error",
                f"{start}, and all {len(errors):,} wrong numbers are too {way}{what}. Rounding errs both ways; a small "
                "constant that was added (an epsilon), terms that were left out, or a constant with few digits err one "
                "way.",
            )
    return None


def worst_element(case):
    """(got, expected) where the first wrong output of a case is furthest from its reference."""
    name, comparison = case.first_wrong
    flat = int(comparison.ratio.flatten().argmax())
    return case.first.outputs[name].flatten()[flat].item(), case.ref[name].flatten()[flat].item()


def _index(index):
    return f"[{', '.join(str(i) for i in index)}]" if index else ""


def _number(value):
    return str(value) if not math.isfinite(value) else f"{value:.6g}"

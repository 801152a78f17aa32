"""From what was seen to one sentence: what the pattern says, in numbers that the learner can check by hand.

The order matters: an answer that did not run, a finding of the machine (which knows the line), elements never written,
outputs that are not the answer's work at all, then the exercise's own reading of its probes, then the plain facts.

May import: verdict, evidence (as data), inputs, notation, torch.
"""

import math

import torch

from ...notation import UNIT_ROUNDOFF
from ..exercise import inputs
from ..report.verdict import Diagnosis

# Findings: the first kind in this list is the one to repair first; those below it are often its consequence.
FINDING_ORDER = (
    "out_of_bounds",
    "misaligned",
    "bad_shuffle",
    "deadlock",
    "divergent_barrier",
    "race",
    "uninitialised_read",
    "timeout",
)


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
    if evidence.exercise.accept is not None:
        return next(case.refusal for case in evidence.failing() if case.refusal is not None)
    for look in (_modified, _structure, _unwritten, _refused, _trivial, _own_reading(probe), _unstable, _not_a_number):
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
    if case.first.inputs_modified:
        return f"The answer changed its input {case.first.inputs_modified[0]}."
    if case.differing:
        return f"Right at first, wrong in the {_where(case.differing)}."
    return next((c.note for c in case.comparisons.values() if not c.passed and c.note), "")


def _where(differing):
    return differing if differing == "second run" else f"{differing!r} order of threads"


def _findings(evidence):
    found = [(fault, case) for case in evidence.cases for fault in case.faults if fault.kind in FINDING_ORDER]
    if not found:
        return None
    fault, case = min(found, key=lambda pair: (FINDING_ORDER.index(pair[0].kind), pair[1].elements))
    return Diagnosis(fault.kind, f"{_sentence(fault.message)} (Case: {case.case.name}.)", fault.line)


def _faults(evidence):
    for case in evidence.failing():
        if case.first.fault is not None:
            return Diagnosis(case.first.fault.kind, case.first.fault.message, case.first.fault.line)
    return None


def _sentence(text):
    text = text.strip()
    return text if text.endswith((".", "?")) else text + "."


def _modified(evidence):
    for case in evidence.failing():
        if case.first.inputs_modified:
            names = ", ".join(case.first.inputs_modified)
            return Diagnosis("input_modified", f"The answer writes into its input {names}; write only to the outputs.")
    return None


def _structure(evidence):
    for case in evidence.failing():
        for name, comparison in case.comparisons.items():
            if comparison.kind in ("shape", "dtype", "missing"):
                return Diagnosis("wrong_return", f"Output {name}: {comparison.note}")
    return None


def _unwritten(evidence):
    """Elements in which both poisons still stand."""
    for case in evidence.failing():
        for name in case.comparisons:
            left = case.unwritten(name)
            if left is not None and left.any():
                return _say_unwritten(case, name, left)
    return None


def _say_unwritten(case, name, left):
    count, total = int(left.sum()), left.numel()
    where = f"{name}, {' x '.join(str(size) for size in left.shape)}, case {case.case.name!r}"
    if count == total:
        return Diagnosis("unwritten", f"Nothing was written to the output {where}: did the kernel reach its stores?")
    rows = left.reshape(-1, left.shape[-1]) if left.dim() > 1 else left.reshape(-1, 1)
    whole_rows, whole_columns = rows.all(dim=1), rows.all(dim=0)
    if left.dim() == 1 or bool((rows == whole_rows[:, None]).all()):
        word = "element" if left.dim() == 1 and "num_rows" not in case.case.sizes else "row"
        what = f"{_named(word, whole_rows)} never written"
        why = f"is the grid rounded down, or does every block take the same {word}s?"
    elif bool((rows == whole_columns[None, :]).all()):
        what = f"in every row, {_named('column', whole_columns)} never written"
        why = "do the strides of the loop, or the tiles of the grid, go on to the end of the row?"
    else:
        row = int(rows.any(dim=1).nonzero()[0])
        columns = runs_of(rows[row].nonzero().flatten().tolist())
        what = f"{count} of {total} elements were never written, first in row {row}, columns {columns}"
        why = "which elements does no thread own?"
    if bool((case.ref[name][left] == 0).all()):
        why = "each of them should be 0, and a 0 has to be written as well"
    return Diagnosis("unwritten", f"In the output {where}, {what}: {_sentence(why)}")


def _named(word, mask):
    """ "row 3 was", "rows 3 to 5 were"."""
    numbers = mask.nonzero().flatten().tolist()
    return f"{word} {numbers[0]} was" if len(numbers) == 1 else f"{word}s {runs_of(numbers)} were"


def runs_of(numbers, limit=3):
    """[4, 5, 6, 9] -> "4 to 6, 9"; at most `limit` runs, then "and more"."""
    runs = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    words = [str(a) if a == b else f"{a} to {b}" for a, b in runs[:limit]]
    return ", ".join(words) + (" and more" if len(runs) > limit else "")


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
        if all(bool((out == 0).all()) for out in outputs):
            return Diagnosis(
                "all_zeros",
                f"Every element of {name} is 0 in every case: nothing was computed, "
                "or a guard against NaN or an empty row turned every result into 0.",
            )
        for key in ran[0].inputs:
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
                "-2048: the result depends on what stood in the output. Write it before reading it.",
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
                    f"{int(wrong.sum())} of {wrong.numel()} elements, in the case {case.case.name!r} "
                    f"({inputs.WORDS.get(case.case.values, case.case.values)}).",
                )
    return None


def _plain(evidence):
    """The facts without an interpretation, when no pattern is known."""
    failing, passing = evidence.failing(), evidence.passing()
    rounded = _low_precision(failing)
    if rounded is not None:
        return rounded
    case = failing[0]
    name, comparison = next((n, c) for n, c in case.comparisons.items() if not c.passed)
    if comparison.kind == "mean":
        return Diagnosis("mean_error", f"{comparison.note} (Case: {case.case.name}.)")
    wrong = comparison.wrong
    text = (
        f"{name}{_index(comparison.index)} is {_number(comparison.got)}, expected {_number(comparison.expected)}; "
        f"{int(wrong.sum())} of {wrong.numel()} elements are off in the case {case.case.name!r}"
    )
    if wrong.dim() > 1:
        rows = wrong.reshape(-1, wrong.shape[-1]).any(dim=1).nonzero().flatten().tolist()
        text += f", in rows {runs_of(rows)}"
    text += "."
    if passing:
        text += f" Right: {', '.join(c.case.name for c in passing[:3])}."
    return Diagnosis("wrong_values", text)


def _low_precision(failing):
    """Every error small, as rounding to half precision or bfloat16 leaves it, though the task computes in float."""
    worst = 0.0
    for case in failing:
        for name, comparison in case.comparisons.items():
            if comparison.passed:
                continue
            finite = case.ref[name][torch.isfinite(case.ref[name])]
            scale = finite.abs().max().item() if finite.numel() else 0.0
            if not comparison.max_error <= 8.0 * UNIT_ROUNDOFF["bfloat16"] * max(scale, 1e-30):
                return None
            worst = max(worst, comparison.max_error / max(scale, 1e-30))
    if worst == 0.0:
        return None
    return Diagnosis(
        "low_precision",
        f"Nearly right everywhere: the largest error is {worst:.1e} of the largest value. Rounding to half on the way "
        f"leaves {UNIT_ROUNDOFF['float16']:.1e}, to bfloat16 {UNIT_ROUNDOFF['bfloat16']:.1e}; compute in float.",
    )


def worst_element(case):
    """(got, expected) where the first wrong output of a case is furthest from its reference."""
    name, comparison = next((n, c) for n, c in case.comparisons.items() if not c.passed)
    flat = int(comparison.ratio.flatten().argmax())
    return case.first.outputs[name].flatten()[flat].item(), case.ref[name].flatten()[flat].item()


def _index(index):
    return f"[{', '.join(str(i) for i in index)}]" if index else ""


def _number(value):
    return str(value) if not math.isfinite(value) else f"{value:.6g}"

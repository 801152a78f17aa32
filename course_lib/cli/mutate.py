"""`course mutate`: which barrier, fence, wait or index of a kernel does no test need?

    course mutate kernels_cu/softmax/02_online.cu      a step, on its examples
    course mutate answer.cu --exercise 03.2            an answer, on the cases of its exercise

Each mutant is the file with one small mistake (cuda/mutations.py). It runs on the SIMT machine in its four schedules.

May import: everything; what loads torch inside functions: all commands import this file.
"""

from collections import Counter
from pathlib import Path

from ..errors import CourseError

HELP = (
    "make one small mistake after the other in a kernel (a deleted barrier, fence, wait, commit or __syncwarp, a "
    "barrier that thread 0 skips, an atomic or an __ldcg made plain, an index of shared memory one too large) and say "
    "what finds it: a finding of the SIMT machine, wrong values, or nothing"
)


def add_arguments(parser):
    """Declare the command's arguments."""
    from ..cuda import mutations

    parser.add_argument("file", type=Path, help="a step, kernels_cu/FAMILY/NN_idea.cu, or an answer")
    parser.add_argument("--exercise", metavar="NN.k", help="the file is an answer to this exercise, and passes")
    parser.add_argument("--kind", action="append", choices=mutations.KINDS, help="only these mistakes; repeatable")
    parser.add_argument("--line", action="append", type=int, help="only mistakes on this line; repeatable")
    parser.add_argument("--headers", action="store_true", help="mistakes in the headers of kernels_cu/common too")


def run(options, say=print):
    """Print a row for each mutant, then the sum; returns the exit status."""
    from ..cuda import mutations
    from . import mutant_runs

    subject = subject_of(options.file, options.exercise)
    kinds = options.kind or mutations.KINDS
    rows = []
    say(f"{'line':>4}  {'mistake':<64}  found by")
    for row in mutant_runs.rows(subject, kinds=kinds, lines=set(options.line or ()), headers=options.headers):
        rows.append(row)
        say(line_of(row))
    say(summary(rows))
    return 0


def subject_of(path, exercise_id=None):
    """What runs the mutants of a file.

    Raises
    ------
    CourseError  no such file, or one that nothing runs; the message says what to name
    """
    from ..cuda import source
    from . import mutant_runs

    path = path if path.is_file() else source.KERNELS_ROOT / path
    if not path.is_file():
        raise CourseError(f"there is no file {path.name}; name a step, kernels_cu/FAMILY/NN_idea.cu, or an answer")
    if exercise_id:
        from ..grading.answer.text import from_file

        return mutant_runs.Cases(exercise_id, from_file(path))
    path = path.resolve()
    if path.suffix != ".cu" or not path.is_relative_to(source.KERNELS_ROOT):
        raise CourseError(f"{path.name} is no step of kernels_cu; for an answer name its exercise: --exercise NN.k")
    text, filename = source.read(path)
    return mutant_runs.Examples(str(path.relative_to(source.KERNELS_ROOT).with_suffix("")), text, filename)


def line_of(row):
    """One row of the printed table."""
    where = f"{row.line:>4}" + (f" of {row.file}" if row.file else "")
    found_by = f"{row.found_by} ({row.detail})" if row.detail else row.found_by
    return f"{where}  {row.mutation:<64}  {found_by}"


def summary(rows):
    """How many were found, and what the others mean."""
    if not rows:
        return "There is nothing to mutate: no barrier, fence, wait, atomic or shared index of the kinds asked for."
    count = Counter(row.found_by for row in rows)
    text = f"{len(rows)} mutant{'s' if len(rows) > 1 else ''}: {count['finding']} found by a finding, "
    text += f"{count['values']} by wrong values, {count['nothing']} by nothing."
    if count["nothing"]:
        text += " No run needs what those change: take it out, say why it stays, or add a case that needs it."
    if count["not run"]:
        text += f" {count['not run']} are in code that no run reaches."
    if count["does not compile"]:
        text += f" {count['does not compile']} do not compile."
    return text

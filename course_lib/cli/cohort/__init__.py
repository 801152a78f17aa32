"""`course cohort SUBMISSIONS/ --out grades.csv`: grades a class, in the sandbox of `course grade-all`, many at once.

    command    the whole run
    collect    who handed in what, in three layouts
    jobs       one answer to be judged, its key and its seed
    journal    what is graded already
    pool       threads on this machine, or a Dask cluster
    gradebook  CSV and JSON
    pages      HTML for each learner and for the teacher

May import: everything.
"""

import os
from pathlib import Path

HELP = "grade a class: a folder of many learners' answers"


def add_arguments(command):
    """The options of `course cohort`."""
    command.add_argument(
        "folder", type=Path, help="a folder a learner, notebooks NAME_03_exercises.ipynb, or nbgrader's"
    )
    command.add_argument(
        "--out", type=Path, required=True, help="the gradebook, a CSV; OUT.journal keeps what is graded"
    )
    command.add_argument("--json", type=Path, help="every verdict, for programs")
    command.add_argument("--html", type=Path, metavar="DIR", help="a page for each learner, and DIR/index.html for you")
    command.add_argument(
        "--assigned",
        nargs="+",
        metavar="NN[.k]",
        help="chapters or exercises of the assignment; default: all handed in",
    )
    command.add_argument(
        "--points", nargs="+", default=[], metavar="NN.k=N", help="points of a pass; default: 1 for each exercise"
    )
    command.add_argument("--jobs", type=int, default=os.cpu_count(), help="answers judged at once; default: all cores")
    command.add_argument("--scheduler", metavar="tcp://HOST:PORT", help="judge on this Dask cluster instead")
    command.add_argument("--seconds", type=float, default=300.0, help="for one verdict, until its judge is ended")
    command.add_argument("--seed", type=int, default=0, help="a number that learners do not know; part of every input")
    command.add_argument("--trust", action="store_true", help="without a sandbox: the answers run as you")


def run(options):
    """Entry point; the exit status."""
    from .command import grade_class

    return grade_class(options)

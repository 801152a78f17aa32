"""What an exercise is, for the judge: contract, cases, oracle, probes, hints.

May import: document, processes.protocol. Never ops, triton_kernels or the course's own kernels: the judge gets every
answer, the solution too, as text.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..processes.protocol import Run
from . import document

ALL_SCHEDULES = ("forward", "reverse", "random", "resident")  # of the SIMT machine


@dataclass(frozen=True)
class Case:
    """One input of a check: sizes, the distribution of the values, and what else is special about it."""

    name: str  # shown to the learner: "one above a tile"
    sizes: dict[str, int]  # {"num_rows": 37, "num_cols": 53}
    values: str = "normal"  # a distribution of grading/exercise/inputs.py
    dtype: str = "float32"
    options: dict[str, Any] = field(default_factory=dict)
    schedules: tuple[str, ...] = ()  # small cases name SIMT schedules; the others run in order, once
    late: bool = False  # dear to run, and few mistakes show in it alone: run when every other case is right


def late(case):
    """The case, run only when every other one is right; see Case."""
    return replace(case, late=True)


@dataclass(frozen=True)
class Probe:
    """After a failure: one more run whose right answer is a number that the learner can read."""

    name: str
    case: Case
    read: Callable[..., Any]  # (inputs, outputs) -> a reading (number, list, string) for `diagnose`


@dataclass(frozen=True)
class Exercise:
    id: str  # "03.2"
    title: str
    language: str  # "cuda" | "triton" | "python"
    entry: str  # name of the kernel or function that the learner writes
    contract: str  # Markdown: shapes, dtypes, what is guaranteed
    size_lines: int
    minutes: int
    solution: str  # where the reference answer is: "kernels_cu/….cu", or one function of a file, "….py#name"
    cases: tuple[Case, ...]
    make_inputs: Callable[..., dict[str, Any]]  # (case, generator) -> inputs
    make_run: Callable[..., Run]  # (case, inputs) -> Run
    oracle: Callable[..., dict[str, Any]]  # (case, inputs) -> float64 outputs
    baseline: Callable[..., dict[str, Any]]  # (case, inputs) -> outputs, each intermediate rounded to the dtype
    rules: dict[str, str]  # output -> "forward" | "weights" | "lse" | "backward" | "exact" | "bits"
    hints: tuple[str, str, str]
    explanation: str
    probes: tuple[Probe, ...] = ()
    diagnose: Callable[..., Any] | None = None  # (Evidence) -> Diagnosis or None; shared ones are in grading/subjects
    explain: Callable[..., Any] | None = None  # (Fault, CaseEvidence, Evidence) -> Diagnosis or None: for findings
    explain_unwritten: Callable[..., Any] | None = None  # (CaseEvidence, output) -> Diagnosis or None: never written
    bound_bytes: Callable[..., tuple[int, str]] | None = None  # (case) -> (fewest bytes, why)
    usual_bytes: Callable[..., int] | None = None  # (case) -> bytes that the solution moves; much more earns a remark
    question: str = "Which pass over the row can go?"  # asked in that remark
    tile: Callable[..., tuple[int, int]] | None = None  # (case) -> tile borders of the error map
    min_launches: int = 1  # for cuda and triton
    forbidden: tuple[str, ...] = ()  # off while the answer runs (processes/forbidden.py): "aten.*softmax*"
    meta: bool = False  # python: answers get tensors on the meta device
    ledger_rule: Callable[..., Any] | None = None  # (case, ledger) -> Diagnosis or None: judges the way
    accept: Callable[..., Any] | None = None  # (case, inputs, outputs) -> Diagnosis or None: judges a property
    unread: Callable[..., dict[str, Any]] | None = None  # (case, inputs) -> output: bool, where it may hold anything
    largest_score: Callable[..., float] | None = None  # (case, inputs) -> largest |score| that the oracle reads
    terms: Callable[..., dict[str, Any]] | None = None  # for "backward": output -> sum of |terms|


def exercise(task_file, **judged):
    """The Exercise of a folder: what its task.md says, and `judged`, what its task.py adds for the judge.

    Parameters
    ----------
    task_file : str, ``__file__`` of the task.py that calls
    judged : the fields of Exercise from `cases` on, without `hints` and `explanation`; with `accept` also without
        `oracle`, `baseline` and `rules` where no output has one right value
    """
    said = document.read(Path(task_file).parent)
    own = {name: getattr(said, name) for name in ("id", "title", "language", "entry", "size_lines", "minutes")}
    texts = {"contract": said.contract, "hints": said.hints, "explanation": said.explanation}
    return Exercise(**own, **texts, solution=said.solution, **(_no_values(judged) | judged))


def _no_values(judged):
    """What an exercise that judges a property alone says of values."""
    nothing = {"oracle": lambda case, tensors: {}, "baseline": lambda case, tensors: {}, "rules": {}}
    return nothing if "accept" in judged else {}

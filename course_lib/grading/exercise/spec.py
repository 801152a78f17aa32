"""What an exercise is, for the judge: contract, cases, oracle, probes, hints. One module a chapter in exercises/.

May import: protocol, verdict, torch. Never ops, triton_kernels or the course's own kernels: the judge gets every
answer, the solution too, as text.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..processes.protocol import Run


@dataclass(frozen=True)
class Case:
    """One input of a check: sizes, the distribution of the values, and what else is special about it."""

    name: str  # shown to the learner: "one above a tile"
    sizes: dict[str, int]  # {"num_rows": 37, "num_cols": 53}
    values: str = "normal"  # a distribution of grading/exercise/inputs.py
    dtype: str = "float32"
    options: dict[str, Any] = field(default_factory=dict)
    schedules: tuple[str, ...] = ()  # small cases name SIMT schedules; the others run in order, once


@dataclass(frozen=True)
class Probe:
    """After a failure: one more run whose right answer is a number that the learner can read (grading.md, Probes)."""

    name: str
    case: Case
    read: Callable[..., Any]  # (inputs, outputs) -> a reading (number, list, string) for `diagnose`


@dataclass(frozen=True)
class Exercise:
    id: str  # "03.2"
    title: str
    language: str  # "cuda" | "triton" | "python"
    entry: str  # name of the kernel or function that the learner writes
    signature: str  # as shown when it is missing or wrong
    contract: str  # shapes, dtypes, what is guaranteed
    size_lines: int
    minutes: int
    solution: str  # where its text stands: "kernels_cu/….cu" or one function, "course_lib/triton_kernels/….py#name"
    cases: tuple[Case, ...]
    make_inputs: Callable[..., dict[str, Any]]  # (case, generator) -> inputs
    make_run: Callable[..., Run]  # (case, inputs) -> Run
    oracle: Callable[..., dict[str, Any]]  # (case, inputs) -> float64 outputs
    baseline: Callable[..., dict[str, Any]]  # (case, inputs) -> outputs, each intermediate rounded to the dtype
    rules: dict[str, str]  # output -> "forward" | "weights" | "lse" | "backward" | "exact"
    hints: tuple[str, str, str]
    explanation: str
    probes: tuple[Probe, ...] = ()
    diagnose: Callable[..., Any] | None = None  # (Evidence) -> Diagnosis or None; shared readings are in diagnosis.py
    bound_bytes: Callable[..., tuple[int, str]] | None = None  # (case) -> (fewest bytes, why)
    usual_bytes: Callable[..., int] | None = None  # (case) -> bytes that the solution moves; much more earns a remark
    question: str = "Which pass over the row can go?"  # asked in that remark
    tile: Callable[..., tuple[int, int]] | None = None  # (case) -> tile borders of the error map
    min_launches: int = 1  # for cuda and triton
    forbidden: tuple[str, ...] = ()  # callables that are off while the answer runs: "torch.softmax"
    ledger_rule: Callable[..., Any] | None = None  # (case, ledger) -> Diagnosis or None: judges the way
    accept: Callable[..., Any] | None = None  # (case, inputs, outputs) -> Diagnosis or None: judges a property
    unread: Callable[..., dict[str, Any]] | None = None  # (case, inputs) -> output: bool, where it may hold anything
    restored: Callable[..., dict[str, Any]] | None = None  # (case, inputs) -> what bytes and scales stand for: float

"""The verdict as data, with its text, card and JSON.

May import: html, states, text.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

from . import html, text
from .states import PASS


@dataclass(frozen=True)
class CaseOutcome:
    name: str
    shape: str  # as written for the learner: "37 x 53, float32"
    passed: bool
    max_error: float | None = None
    tolerance: float | None = None
    note: str = ""  # one sentence when it failed for another reason than values


@dataclass(frozen=True)
class FirstWrong:
    case: str
    output: str
    index: tuple[int, ...]
    got: float
    expected: float
    tolerance: float


@dataclass(frozen=True)
class Diagnosis:
    code: str  # stable key, e.g. "o_not_rescaled"; an exercise's wrong.md names it
    sentence: str  # what the pattern says, in numbers: "row 18 saw 36 keys, it may see 35"
    line: int | None = None


@dataclass
class Verdict:
    exercise: str
    state: str
    diagnosis: Diagnosis | None = None
    cases: list[CaseOutcome] = field(default_factory=list)
    first_wrong: FirstWrong | None = None
    error_map: dict[str, Any] | None = None  # {"case", "output", "ratio": error/tolerance, 2-D, "tile", "first"}
    missing: str = ""  # for NOT VERIFIED HERE: what this machine lacks
    remarks: list[str] = field(default_factory=list)  # right but worth a word: slow access pattern, printed output cut
    hint: str = ""
    ledger: dict[str, Any] | None = None
    bound: dict[str, Any] | None = None  # {"bytes": int, "why": str}: the fewest bytes that any kernel must move
    explanation: str = ""  # shown after a pass
    difference: str = ""  # unified diff to the reference answer, after a pass
    printed: str = ""
    seconds: float = 0.0
    engine: str = "cpu"
    title: str = ""  # of the exercise
    excerpt: str = ""  # the learner's lines around the diagnosis, its own line marked

    @property
    def passed(self):
        return self.state == PASS

    def to_dict(self):
        """The keys of `course grade --json`: exercise, verdict, diagnosis, cases, ledger, seconds, …"""
        data = asdict(self)
        data["verdict"] = data.pop("state")
        return data

    def __str__(self):
        return text.render(self)

    __repr__ = __str__

    def _repr_html_(self):
        return html.render(self)

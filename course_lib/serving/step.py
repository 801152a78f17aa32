"""What goes from the scheduler to the runner and from the engine to its clients.

May import: errors, request.
"""

from dataclasses import dataclass, field

from ..errors import ServingError
from .request import Sequence, State


@dataclass(frozen=True)
class Piece:
    """Tokens start .. start + num_tokens of a sequence are computed in a step.

    Attributes
    ----------
    sequence : Sequence
    start, num_tokens : int
    samples : bool; the last of them is the sequence's last token, so that a token is chosen after it
    num_drafts : int; this many of num_tokens, the last, are not known: a draft proposes them in the step
    """

    sequence: Sequence
    start: int
    num_tokens: int
    samples: bool
    num_drafts: int = 0

    @property
    def stop(self):
        return self.start + self.num_tokens


@dataclass(frozen=True)
class Step:
    """One step of the model.

    Attributes
    ----------
    number : int, counted from 0
    pieces : tuple of Piece, one a sequence
    preempted : tuple of Sequence that went back to the queue
    swaps_out, swaps_in : tuple of (page, host page), copied before the model runs, swaps_out first
    """

    number: int
    pieces: tuple
    preempted: tuple = ()
    swaps_out: tuple = ()
    swaps_in: tuple = ()

    @property
    def num_tokens(self):
        return sum(piece.num_tokens for piece in self.pieces)

    @property
    def is_decode(self):
        """Whether every piece is one token: the shape that CUDA graphs are recorded for."""
        return all(piece.num_tokens == 1 for piece in self.pieces)

    def chosen(self, tokens):
        """`tokens` by sequence and as lists, for those that have not ended; ServingError for a wrong number of them."""
        result = {}
        for piece in self.pieces:
            if piece.samples and piece.sequence.state is not State.FINISHED:
                given = tokens.get(piece.sequence.name, ())
                result[piece.sequence] = given = [given] if isinstance(given, int) else list(given)
                if not 1 <= len(given) <= piece.num_drafts + 1:
                    raise ServingError(
                        f"Step {self.number} has {len(given)} tokens for {piece.sequence.name!r}; with "
                        f"{piece.num_drafts} drafts it must be 1 to {piece.num_drafts + 1}."
                    )
        return result


@dataclass(frozen=True)
class Output:
    """What a step made for one request.

    Attributes
    ----------
    name : str
    tokens : tuple of int, new in this step
    finish_reason : None, "stop", "length" or "abort"
    num_prompt_tokens, num_cached_tokens : int; cached ones were found in the prefix cache
    """

    name: str
    tokens: tuple
    finish_reason: str | None
    num_prompt_tokens: int
    num_cached_tokens: int

    @classmethod
    def of(cls, sequence, tokens=()):
        num_prompt_tokens = len(sequence.request.prompt)
        return cls(sequence.name, tuple(tokens), sequence.finish_reason, num_prompt_tokens, sequence.num_cached)


@dataclass
class Plan:
    """A step while it is made up."""

    budget: int
    pieces: list = field(default_factory=list)
    preempted: list = field(default_factory=list)
    swaps_out: list = field(default_factory=list)
    swaps_in: list = field(default_factory=list)


@dataclass
class Counters:
    """Totals since the start of a scheduler; swapped ones are among the preempted."""

    num_steps: int = 0
    num_tokens: int = 0
    num_admitted: int = 0
    num_preempted: int = 0
    num_swapped: int = 0
    num_finished: int = 0
    num_aborted: int = 0
    num_drafts: int = 0
    num_accepted: int = 0

    def note(self, step):
        """Count a step that was scheduled."""
        self.num_steps += 1
        self.num_tokens += step.num_tokens
        self.num_preempted += len(step.preempted)
        self.num_swapped += sum(each.state is State.SWAPPED for each in step.preempted)

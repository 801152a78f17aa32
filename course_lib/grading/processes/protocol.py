"""What travels between the judge and the child that runs an answer: plain data, no behaviour.

The judge turns an exercise and an answer into one ChildTask; isolation.py runs it in a child process of its own session
and returns one ChildResult. The child never says "pass".

May import: nothing of the course.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Ref:
    """The tensor `name` (an input or an output of the run) as an argument of the run.

    With `before` it is the end of a larger one, `before` elements of which come first and do not exist: the answer's
    index `before` is the tensor's first element. Such a run is left out on a GPU.
    """

    name: str
    before: int = 0


@dataclass(frozen=True)
class MapRef:
    """A tensor map of the tensor `name`, as ``cuda.tensor_map(tensor, box, swizzle)`` makes it, as an argument."""

    name: str
    box: tuple[int, ...]
    swizzle: str | None = None


@dataclass(frozen=True)
class Run:
    """One call of the answer.

    language "cuda":   ``kernel(grid, block, *arguments, shared_bytes=…)``, compiled with `constants` as -D
    language "triton": ``kernel[grid](*arguments, **constants)`` (num_warps and num_stages may be among them)
    language "python": ``function(*arguments, **constants)``; what it returns are the outputs, in order of `outputs`
    With `world` every rank calls ``function(world, *arguments, **constants)`` in a thread of its own (ranks.py); an
    output has what the ranks returned one after the other, (world, …).
    """

    name: str
    inputs: dict[str, Any]  # name -> CPU tensor; copied for the answer, compared afterwards
    outputs: dict[str, tuple[tuple[int, ...], str]]  # name -> (shape, dtype name); the child fills them with `poison`
    arguments: tuple[Any, ...]  # Ref | MapRef | int | float | bool, in the order of the parameters
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)
    shared_bytes: int = 0
    constants: dict[str, Any] = field(default_factory=dict)
    poison: float = float("nan")
    schedules: tuple[str, ...] = ()  # orders of threads (Triton: of programs) to run it in on the CPU; else in order
    contents: dict[str, Any] = field(default_factory=dict)  # output -> tensor it holds before, in place of poison
    timeline: bool = False  # cuda, CPU: ledger["timeline"] holds report.timeline in rows (subjects/hopper/findings.py)
    repeats: str = ""  # name of the run that this one repeats with other poison; not run where it can say nothing new
    world: int = 0  # python: number of ranks; ledger["calls"] holds the collectives of each
    gloo: bool = False  # the ranks are processes (gloo.py), and nothing is counted


@dataclass(frozen=True)
class ChildTask:
    language: str  # "cuda" | "triton" | "python"
    source: str  # the answer's text
    entry: str  # kernel or function name
    runs: tuple[Run, ...]
    filename: str = "answer"
    first_line: int = 1
    engine: str = "cpu"  # "cpu" | "gpu" | "compile": no run, but machine code for `arch`
    arch: str = ""  # "sm_90"
    wall_seconds: float = 20.0
    cpu_seconds: float = 0.0  # of the processor, for the whole task; 0: no limit but wall_seconds
    memory_bytes: int = 4 << 30
    output_bytes: int = 16 << 10
    forbidden: tuple[str, ...] = ()  # operators of torch and callables that raise (forbidden.py)
    watched: bool = False  # python: count what torch's operators make (watch.py)
    meta: bool = False  # python: has tensors on the meta device, and the zygote loads what these need (meta_warm.py)


@dataclass(frozen=True)
class Fault:
    """Why a task or a run gave no usable result.

    kind: compile_error, missing_function, wrong_signature, launch_configuration, out_of_bounds, misaligned, race,
    divergent_barrier, deadlock, uninitialised_read, missing_fence, bad_barrier, bad_copy, bad_registers, bad_wgmma,
    in_flight, input_modified, timeout, out_of_memory, exited, killed, exception, recursion, wrong_return, no_launch,
    forbidden_call, not_verified_here
    """

    kind: str
    message: str  # one sentence for the learner
    line: int | None = None  # in the learner's own numbering
    other_line: int | None = None
    detail: str = ""  # compiler log, traceback


@dataclass(frozen=True)
class Change:
    """What an answer did to the input `name`: its first element that has other bits than before, and how many have.

    `index` is None when the tensor has another shape or dtype now; `before` and `after` are None then.
    """

    name: str
    index: tuple[int, ...] | None
    before: float | None
    after: float | None
    count: int


@dataclass
class RunResult:
    name: str
    outputs: dict[str, Any] | None = None  # name -> CPU tensor, as the answer left it
    returned: str | None = None  # python answers: type and shapes of what came back, for a wrong_return sentence
    inputs_changed: tuple[Change, ...] = ()
    launches: int = 0  # kernel launches counted while the answer ran
    fault: Fault | None = None
    findings: tuple[Fault, ...] = ()  # from the SIMT machine, all schedules, without repeats
    schedule_outputs: dict[str, dict[str, Any]] = field(default_factory=dict)  # schedule -> outputs
    ledger: dict[str, Any] | None = None  # report.ledger() of the first schedule, and its remarks; python: watch.py
    seconds: float = 0.0


@dataclass
class ChildResult:
    runs: list[RunResult]
    fault: Fault | None = None  # set when the task as a whole failed (compile error, timeout, exited, …)
    printed: str = ""  # what the answer printed, cut to output_bytes
    seconds: float = 0.0

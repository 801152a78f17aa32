"""A model on the learner's kernels: those in work/ that passed, the course's for the rest, and the two beside torch's.

May import: errors, device, measure, ops._foundation, model.answers, model.kernels, torch.
"""

from collections import Counter

import torch

from ..device import has_gpu
from ..errors import ModelError
from ..measure.tables import Table
from ..measure.timing import median_time
from ..ops._foundation.launch import watched
from .answers import ADAPTERS, newest
from .kernels import OPERATIONS, Kernels


class Operation:
    """One operation by the learner's answers, as far as they take its arguments; `ran` counts whose kernel ran."""

    def __init__(self, config, attempts, fallback, name):
        self.config, self.attempts, self.fallback, self.name = config, attempts, fallback, name
        self.ran = Counter()

    def __call__(self, *arguments, **named):
        learns = torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in arguments)
        for answer, function in () if learns else self.attempts:
            result = self._tried(answer, function, arguments, named)
            if result is not NotImplemented:
                self.ran[f"yours ({answer.exercise})"] += 1
                return result
        self.ran[self.name] += 1
        return self.fallback(*arguments, **named)

    def _tried(self, answer, function, arguments, named):
        try:
            return function(answer, self.config, *arguments, **named)
        except Exception as error:  # a learner's code may raise anything
            sentence = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise ModelError(
                f"your answer to {answer.exercise}, {answer.path.name}, failed in the model: {sentence}"
            ) from error


def work_kernels(config, *, fallback="course", **others):
    """Kernels in which every operation that an answer in work/ can run is the learner's.

    Parameters
    ----------
    config : ModelConfig
    fallback : "course", "fast" or "torch": who runs the rest, and what an answer does not take: gradients, other dtypes
    others : operation -> a backend that is to run it, whatever has passed
    """
    kernels = Kernels(fallback, few_tokens=False, **others)
    for name, choices in ADAPTERS.items():
        attempts = [(answer, function) for exercise, function in choices if (answer := newest(exercise))]
        if attempts and name not in others:
            operation = Operation(config, attempts, getattr(kernels, name), kernels.sources[name])
            kernels.put(name, operation, "yours (" + ", ".join(answer.exercise for answer, _ in attempts) + ")")
    return kernels


def whose(kernels):
    """A Table: for each operation whose kernel runs it, and whose did so far where answers are tried first."""
    rows = []
    for name in OPERATIONS:
        ran = getattr(getattr(kernels, name), "ran", {})
        told = ", ".join(f"{source} {count:,}x" for source, count in ran.items())
        rows.append((name, kernels.sources[name], told or None))
    return Table(("operation", "runs on", "ran so far"), tuple(rows))


@torch.no_grad()
def compare(model, prompt, *, num_runs=3):
    """A Table "yours / the course's / torch's" of the operations that the learner's answers run in this model.

    Each operation is run again on what it got first, by all three. Times are medians in milliseconds; on a CPU those of
    the SIMT machine and of Triton's interpreter, which say nothing about a GPU. Bytes are those of global memory: on a
    CPU counted, on a GPU and for torch each tensor once.

    Parameters
    ----------
    model : Transformer
    prompt : list of int
    """
    yours, course, plain = work_kernels(model.config), Kernels("course"), Kernels("torch")
    rows = []
    for name, arguments, named in _first_calls(model, prompt):
        if not yours.sources[name].startswith("yours"):
            continue
        operation, cells = getattr(yours, name), []
        run = [operation, getattr(course, name), getattr(plain, name)]
        for function in run:
            cells += _measured(function, arguments, named, num_runs)
        source = next(iter(operation.ran))
        rows.append((name, source if source.startswith("yours") else f"{source}: no answer takes this dtype", *cells))
    heads = [f"{source}, {unit}" for source in ("yours", "course", "torch") for unit in ("ms", "bytes")]
    note = "" if rows else "No answer in work/ runs an operation of this model yet; check(…) keeps those that pass."
    return Table(("operation", "ran", *heads), tuple(rows), note=note)


def _first_calls(model, prompt):
    """(operation, arguments, named arguments) of the first call of each in a prefill and a step, copied before."""
    calls, before = [], model.kernels
    recorder = Kernels("torch")
    for name in OPERATIONS:
        recorder.put(name, _recorded(name, getattr(recorder, name), calls), "torch")
    model.kernels = recorder
    try:
        cache = model.new_cache(1, len(prompt) + 1)
        ids = torch.tensor([prompt], device=model.device)
        logits = model.prefill(ids, [len(prompt)], cache)
        model.step(recorder.greedy(logits), cache)
        ones = torch.ones(1, device=model.device)
        recorder.sample(logits, ones, 0.5 * ones, top_p=0.9 * ones)
    finally:
        model.kernels = before
    return calls


def _recorded(name, function, calls):
    def run(*arguments, **named):
        if name not in [call[0] for call in calls]:
            calls.append((name, _copied(arguments), dict(named)))
        return function(*arguments, **named)

    return run


def _copied(arguments):
    """The tensors copied with their strides, the rest as it is."""
    return tuple(x.clone(memory_format=torch.preserve_format) if isinstance(x, torch.Tensor) else x for x in arguments)


def _measured(function, arguments, named, num_runs):
    """[median milliseconds, bytes] of one call."""
    with watched() as launches:
        outputs = function(*_copied(arguments), **named)
    timing = median_time(lambda: function(*_copied(arguments), **named), num_runs=num_runs, on_gpu=has_gpu())
    if launches and not has_gpu():
        return [timing.median_ms, sum(sum(launch.traffic()) for launch in launches)]
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    tensors = [x for x in (*arguments, *outputs) if isinstance(x, torch.Tensor)]
    return [timing.median_ms, sum(x.numel() * x.element_size() for x in tensors)]

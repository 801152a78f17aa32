"""13.2 Accept or reject a draft: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Ref, Run

from . import diagnostics

NAMES = ("draft_tokens", "draft_probs", "target_probs", "accept_noise", "draw_noise")


def _case(name, batch_size, num_draft, num_tokens, values="normal", **options):
    sizes = {"batch_size": batch_size, "num_draft": num_draft, "num_tokens": num_tokens}
    return Case(name, sizes, values, "float32", options)


def _rows(case, gen):
    """(draft_probs, target_probs) of a case."""
    batch_size, num_draft, num_tokens = case.sizes.values()
    if "p" in case.options:
        p, q = (torch.tensor(case.options[name]) for name in "pq")
        return q.expand(batch_size, num_draft, -1).clone(), p.expand(batch_size, num_draft + 1, -1).clone()
    logits = 2.0 * torch.randn(batch_size, num_draft + 1, num_tokens, generator=gen)
    other = torch.randn(batch_size, num_draft, num_tokens, generator=gen)
    if case.values == "filtered":
        logits[torch.rand(logits.shape, generator=gen) < 0.5] = -float("inf")
        logits[..., -1] = 1.0
        other = 2.0 * other - logits[:, :-1].clamp(min=-2.0)
    target = torch.softmax(logits, dim=-1)
    draft = torch.softmax(logits[:, :-1].clamp(min=-2.0) + case.options.get("distance", 1.0) * other, dim=-1)
    if case.values == "same":
        draft = target[:, :-1].clone()
    if case.values == "greedy":
        same = torch.rand(batch_size, num_draft, 1, generator=gen) < 0.7
        best = torch.where(same, logits[:, :-1], other).argmax(-1)
        draft = torch.nn.functional.one_hot(best, num_tokens).float()
        target = torch.nn.functional.one_hot(logits.argmax(-1), num_tokens).float()
    return draft, target


def _inputs(case, gen):
    """The five tensors of `verify`; noise from 0 to 0.999."""
    batch_size, num_draft, num_tokens = case.sizes.values()
    draft, target = _rows(case, gen)
    tokens = torch.multinomial(draft.flatten(0, 1), 1, generator=gen).view(batch_size, num_draft)
    accept = 0.999 * torch.rand(batch_size, num_draft, generator=gen)
    draw = 0.999 * torch.rand(batch_size, generator=gen)
    if case.options.get("accept_0"):
        accept = torch.zeros_like(accept)
    if case.values == "same":
        accept[::2] = 0.999
    if case.options.get("ends"):
        draw = torch.tensor([0.0, 0.999])[torch.arange(batch_size) % 2]
    return dict(zip(NAMES, (tokens, draft, target, accept, draw), strict=True))


def _run(case, tensors):
    shape = (case.sizes["batch_size"], case.sizes["num_draft"] + 1)
    return Run(case.name, tensors, {"tokens": (shape, "int64")}, tuple(map(Ref, NAMES)))


EXERCISE = exercise(
    __file__,
    cases=(
        _case("p of 0.6, 0.3, 0.1 and q of 0.2, 0.5, 0.3", 100, 1, 3, p=(0.6, 0.3, 0.1), q=(0.2, 0.5, 0.3)),
        _case("the same, four proposals", 100, 4, 3, p=(0.6, 0.3, 0.1), q=(0.2, 0.5, 0.3)),
        _case("one proposal of one token", 1, 1, 1),
        _case("one row, six proposals", 1, 6, 9, distance=0.3),
        _case("rows of all kinds", 80, 5, 20),
        _case("a draft near the target", 90, 7, 12, distance=0.3),
        _case("p = q", 40, 3, 15, "same"),
        _case("greedy", 60, 4, 10, "greedy"),
        _case("half of p is 0", 60, 3, 16, "filtered"),
        _case("half of p is 0, noise 0", 60, 2, 16, "filtered", accept_0=True, ends=True),
        _case("every proposal accepted", 40, 3, 8, accept_0=True),
        _case("draws with noise 0 and 0.999", 40, 2, 24, ends=True),
        _case("3,000 tokens", 12, 3, 3000),
        _case("20 proposals near the target", 40, 20, 12, distance=0.05),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=lambda _case, tensors: {"tokens": diagnostics.outcome(tensors).double()},
    baseline=lambda _case, tensors: {"tokens": diagnostics.outcome(tensors)},
    rules={"tokens": "exact"},
    unread=lambda _case, tensors: {"tokens": diagnostics.bordering(tensors)},
    diagnose=diagnostics.diagnose,
)

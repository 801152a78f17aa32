"""13.7 Tie the head: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Ref, Run

from . import diagnostics
from .outcomes import FACTS, lost, outcome, right_facts

NUMBERS = ("learning_rate", "weight_decay", "num_steps")


def _case(name, vocab_size, hidden_size, batch_size, seq_len, ids="any", **options):
    """`ids`: "any", "each" token once, or "one" token at every place."""
    sizes = {"vocab_size": vocab_size, "hidden_size": hidden_size, "batch_size": batch_size, "seq_len": seq_len}
    given = {"learning_rate": 0.02, "weight_decay": 0.1, "num_steps": 3, "other": "normal", "size": 0.5}
    return Case(name, sizes, ids, "float64", given | options)


def _other(case, gen, shape):
    """What the head of a file that is to be refused has more than its table; one number not in a first or last row."""
    kind, other = case.options["other"], torch.zeros(shape, dtype=torch.float64)
    if kind == "normal":
        return torch.randn(shape, generator=gen, dtype=torch.float64)
    if kind == "all by 1e-9":
        return other + 1e-9
    place = tuple(1 + int(torch.randint(n - 2, (), generator=gen)) if n > 2 else 0 for n in shape)
    other[place] = 1e-12 if kind == "one by 1e-12" else 0.5
    if kind == "sum kept":
        other[-1, -1] = -0.5
    return other


def _inputs(case, gen):
    vocab_size, hidden_size, batch_size, seq_len = case.sizes.values()
    shape, rows = (batch_size, seq_len), (vocab_size, hidden_size)
    ids = torch.randint(vocab_size, shape, generator=gen)
    if case.values == "each":
        ids = torch.randperm(vocab_size, generator=gen).view(shape)
    if case.values == "one":
        ids = torch.full(shape, case.options.get("token", 3))
    if case.values == "any" and vocab_size > 1:
        ids[0, 0], ids[-1, -1] = 0, 0  # token 0 is a token, and comes twice
    return {
        "table": case.options["size"] * torch.randn(rows, generator=gen, dtype=torch.float64),
        "inner": hidden_size**-0.5 * torch.randn(hidden_size, hidden_size, generator=gen, dtype=torch.float64),
        "ids": ids,
        "targets": torch.randint(vocab_size, shape, generator=gen),
        "other": _other(case, gen, rows),
    }


def _numbers(case):
    return {name: case.options[name] for name in NUMBERS}


def _run(case, tensors):
    vocab_size, hidden_size, batch_size, seq_len = case.sizes.values()
    logits = ((batch_size, seq_len, vocab_size), "float32")
    outputs = {"logits": logits, "gradient": ((vocab_size, hidden_size), "float32"), "trained": logits}
    outputs |= {"resumed": logits, "lost": ((vocab_size,), "float32"), "facts": ((len(FACTS),), "int64")}
    return Run(case.name, tensors, outputs, (*map(Ref, tensors), *_numbers(case).values()))


def _right(case, tensors):
    """The outputs in float64."""
    right = outcome(tensors, _numbers(case))
    return right | {"lost": lost(right["logits"]), "facts": right_facts(tensors).double()}


EXERCISE = exercise(
    __file__,
    cases=(
        _case("two tokens, width 1", 2, 1, 1, 2, other="one by 1e-12", num_steps=1),
        _case("each token once", 7, 4, 1, 7, "each", weight_decay=0.0),
        _case("token 3 at every place", 5, 3, 2, 4, "one", other="sum kept"),
        _case("token 0 alone", 6, 4, 1, 1, "one", token=0, num_steps=2),
        _case("a square table", 6, 6, 2, 5, weight_decay=0.5, other="all by 1e-9"),
        _case("two sequences of nine", 50, 8, 2, 9, num_steps=1, learning_rate=0.1),
        _case("rows of length 10", 20, 11, 3, 6, size=3.0, other="one number"),
        _case("wider than the vocabulary", 5, 32, 2, 12, size=0.1, other="one by 1e-12"),
        _case("six steps", 40, 16, 2, 13, num_steps=6, weight_decay=1.0, learning_rate=0.05),
        _case("300 tokens", 300, 16, 3, 20, num_steps=2),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=_right,
    baseline=lambda case, tensors: (
        {name: x.float() for name, x in _right(case, tensors).items()} | {"facts": right_facts(tensors)}
    ),
    rules={name: "forward" for name in ("logits", "gradient", "trained", "resumed", "lost")} | {"facts": "exact"},
    diagnose=lambda evidence: diagnostics.diagnose(evidence, _numbers),
)

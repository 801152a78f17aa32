"""15.8 Hand over the KV: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, exercise, late
from course_lib.grading.processes.protocol import Ref, Run

from . import diagnostics

NAMES = ("layers", "num_pages", "page_size", "num_heads", "head_dim", "max_pages")


def _case(name, seq_lens, *sizes, values="normal"):
    return Case(name, dict(zip(NAMES, sizes, strict=True)), values, options={"seq_lens": seq_lens})


def _inputs(case, gen):
    """{"kv", "table", "seq_lens", "free_pages"}: what no token holds is 500 on rank 0 and -7 on rank 1."""
    layers, num_pages, page_size, num_heads, head_dim, max_pages = case.sizes.values()
    seq_lens = torch.tensor(case.options["seq_lens"])
    table = torch.full((len(seq_lens), max_pages), -1)
    pages, taken = torch.randperm(num_pages, generator=gen), 0
    for row, seq_len in zip(table, seq_lens.tolist(), strict=True):
        count = -(-seq_len // page_size)
        row[:count] = pages[taken : taken + count]
        taken += count
    kv = torch.full((2, layers, 2, num_pages, page_size, num_heads, head_dim), 500.0)
    kv[1] = -7.0
    used = diagnostics.slots(table, seq_lens, page_size)
    values = torch.randn(layers, 2, len(used), num_heads, head_dim, generator=gen)
    kv[0].flatten(2, 3)[:, :, used] = values
    free = torch.randperm(num_pages, generator=gen)
    return {"kv": kv, "table": table, "seq_lens": seq_lens, "free_pages": free[: max(taken, 1)]}


def _run(case, tensors):
    shapes = {"kv": (tuple(tensors["kv"].shape), "float32")}
    for name in ("table", "seq_lens"):
        shapes[name] = ((2, *tensors[name].shape), "int64")
    arguments = tuple(map(Ref, ("kv", "table", "seq_lens", "free_pages")))
    inputs = dict(tensors)
    outputs = {f"{name}_after": shape for name, shape in shapes.items()}
    return Run(case.name, inputs, outputs, arguments, world=2, gloo=case.late)


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one token", [1], 1, 2, 1, 1, 1, 1),
        _case("one sequence, a page and a half", [6], 2, 5, 4, 2, 8, 3),
        _case("full pages alone", [8, 4], 2, 7, 4, 2, 4, 4),
        _case("lengths at the borders of pages", [15, 16, 17, 1], 3, 12, 16, 2, 8, 3),
        _case("a sequence without tokens", [5, 0, 3], 1, 9, 2, 3, 4, 4),
        _case("pages of one token", [3, 5], 2, 11, 1, 1, 8, 6),
        _case("many sequences, one of 300 tokens", [9, 300, 2, 17, 8, 25], 2, 50, 8, 2, 8, 40),
        late(_case("two processes over gloo", [7, 12], 2, 9, 4, 2, 8, 4)),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=lambda case, t: {name: x.double() for name, x in diagnostics.outcome(t).items()},
    baseline=lambda case, t: diagnostics.outcome(t),
    rules=dict.fromkeys(("kv_after", "table_after", "seq_lens_after"), "exact"),
    diagnose=diagnostics.diagnose,
    ledger_rule=diagnostics.tokens_once,
)

"""15.4 Count the bytes of four schemes: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Ref, Run

from . import diagnostics

NAMES = ("num_tokens", "top_k", "num_experts", "hidden_size", "num_kv_heads", "head_dim", "num_layers", "itemsize")


def _case(name, num_ranks, *sizes, values="drawn"):
    return Case(name, dict(zip(NAMES, sizes, strict=True)) | {"num_ranks": num_ranks}, values, "int64")


def _inputs(case, gen):
    """{"experts": (num_tokens, top_k) int64}, different ones for a token; "popular": most go to the first experts."""
    num_tokens, top_k, num_experts = list(case.sizes.values())[:3]
    scores = torch.rand(num_tokens, num_experts, generator=gen)
    if case.values == "popular":
        scores[:, : max(num_experts // 4, top_k)] += 0.8
    return {"experts": scores.argsort(1, descending=True)[:, :top_k].contiguous()}


def _run(case, tensors):
    outputs = {name: ((), "int64") for name in diagnostics.NAMES}
    arguments = [case.sizes[name] for name in (*NAMES[2:], "num_ranks")]
    return Run(case.name, tensors, outputs, (Ref("experts"), *arguments))


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one of everything", 1, 1, 1, 1, 1, 1, 1, 1, 1),
        _case("one rank", 1, 6, 2, 4, 64, 2, 16, 3, 2),
        _case("two ranks, float32", 2, 8, 1, 4, 48, 3, 16, 2, 4),
        _case("three ranks, sizes beyond 2^24", 3, 9, 2, 6, 100_000_007, 1, 20_000_003, 5, 2),
        _case("most tokens to few experts", 4, 64, 4, 16, 128, 2, 64, 4, 2, values="popular"),
        _case("an expert for each rank, one byte", 8, 40, 2, 8, 96, 1, 32, 9, 1),
        _case("the shape of an 8B model", 4, 512, 8, 64, 4096, 8, 128, 32, 2),
        _case("the shape of a 70B model", 8, 1024, 8, 128, 8192, 8, 128, 80, 2, values="popular"),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=lambda case, tensors: {n: x.double() for n, x in diagnostics.right(case, tensors).items()},
    baseline=lambda case, tensors: diagnostics.right(case, tensors),
    rules=dict.fromkeys(diagnostics.NAMES, "exact"),
    diagnose=diagnostics.diagnose,
)

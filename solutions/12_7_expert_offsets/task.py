"""12.7 Expert offsets from counts: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Ref, Run

from . import diagnostics

OFF = (
    *("sort*", "argsort*", "msort*", "*topk*", "*kthvalue*", "index_by_mask"),
    *("*unique*", "*bincount*", "*nonzero*", "argwhere*", "masked_select*", "repeat_interleave*", "histc*"),
)


def _case(name, num_tokens, top_k, num_experts, block_m, values="drawn", spare=0):
    """`spare`: rows of tiles beyond those that are always enough."""
    sizes = {"num_tokens": num_tokens, "top_k": top_k, "num_experts": num_experts, "block_m": block_m}
    num_pairs = num_tokens * top_k
    most = min(num_pairs, -(-num_pairs // block_m) + num_experts)
    return Case(name, sizes, values, "int64", {"max_tiles": most + spare})


def _inputs(case, gen):
    """{"experts": (num_tokens, top_k) int64}, different ones for a token."""
    num_tokens, top_k, num_experts, _ = case.sizes.values()
    scores = torch.rand(num_tokens, num_experts, generator=gen)
    if case.values == "popular":  # most tokens go to few experts, some have none
        scores = scores + 2.0 * (torch.arange(num_experts) % 5 == 3) - 2.0 * (torch.arange(num_experts) % 3 == 0)
    if case.values == "one expert":
        scores[:, num_experts - 2] += 2.0
    return {"experts": scores.argsort(1, descending=True)[:, :top_k].contiguous()}


def _run(case, tensors):
    num_tokens, top_k, num_experts, block_m = case.sizes.values()
    pairs, most = num_tokens * top_k, case.options["max_tiles"]
    shapes = {"offsets": (num_experts + 1,), "order": (pairs,), "places": (num_tokens, top_k), "tiles": (most, 2)}
    outputs = {name: (shape, "int64") for name, shape in shapes.items()}
    return Run(case.name, tensors, outputs, (Ref("experts"), num_experts, block_m, most))


EXERCISE = exercise(
    __file__,
    cases=(
        _case("nine tokens, two of five experts", 9, 2, 5, 4),
        _case("one token, one expert", 1, 1, 1, 16, spare=1),
        _case("all to one expert", 37, 1, 4, 8, "one expert"),
        _case("experts without tokens", 20, 2, 12, 4, "popular"),
        _case("tiles of one row", 6, 3, 7, 1),
        _case("full tiles alone", 8, 4, 4, 8),
        _case("tiles larger than all", 11, 2, 6, 64, spare=3),
        _case("128 experts, eight each", 60, 8, 128, 16),
        _case("more experts than pairs", 3, 1, 400, 2, "popular"),
        _case("3,000 tokens, all to one expert", 3000, 1, 3, 64, "one expert"),
        _case("500 tokens", 500, 2, 16, 64, "popular", spare=5),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=lambda case, tensors: {name: x.double() for name, x in diagnostics.right(case, tensors).items()},
    baseline=lambda case, tensors: diagnostics.right(case, tensors),
    rules=dict.fromkeys(("offsets", "order", "places", "tiles"), "exact"),
    diagnose=diagnostics.diagnose,
    ledger_rule=diagnostics.no_value_leaves,
    forbidden=tuple(f"aten.{name}" for name in OFF),
)

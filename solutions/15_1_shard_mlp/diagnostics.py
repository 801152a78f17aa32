"""What the usual mistakes of a sharded MLP look like in its output, and which collectives it may call.

May import: verdict, subjects.parallel.
"""

import torch
import torch.nn.functional as F

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.parallel.calls import in_words

PARTS = ("up_part", "up_bias_part", "down_part")


def _split(t, world):
    """The parts of all ranks, (world, …) each."""
    return {
        "up_part": torch.stack(t["up"].chunk(world, dim=1)),
        "up_bias_part": torch.stack(t["up_bias"].chunk(world)),
        "down_part": torch.stack(t["down"].chunk(world)),
    }


def _inside(t, parts):
    """(world, num_tokens, width): the columns of each rank, before GELU."""
    return t["x"] @ parts["up_part"] + parts["up_bias_part"][:, None]


def _gelu(x):
    return F.gelu(x, approximate="tanh")


def right(case, t):
    """{"out" and the parts of every rank}, in the dtype of the tensors."""
    world = case.sizes["world"]
    out = _gelu(t["x"] @ t["up"] + t["up_bias"]) @ t["down"] + t["down_bias"]
    return {"out": out.expand(world, -1, -1).clone(), **_split(t, world)}


def _partial(t, parts):
    """(world, num_tokens, hidden): what each rank adds to the sum."""
    return _gelu(_inside(t, parts)) @ parts["down_part"]


def _everywhere(out, world):
    return out.expand(world, -1, -1)


def _only_rank_0(t, parts, world):
    bias = torch.zeros(world, 1, len(t["down_bias"]), dtype=t["x"].dtype)
    bias[0] = t["down_bias"]
    return _everywhere(_partial(t, parts).sum(0), world) + bias


# code, words, (tensors, parts, world) -> out of every rank; each sentence goes on from "It is what comes when"
_MISTAKES = (
    ("bias_on_every_rank", "every rank adds down_bias before the sum, so that it counts {world} times: add it once, "
     "after the all-reduce", lambda t, p, n: _everywhere(_partial(t, p).sum(0) + n * t["down_bias"], n)),
    ("bias_forgotten", "down_bias is not added at all",
     lambda t, p, n: _everywhere(_partial(t, p).sum(0), n)),
    ("bias_on_rank_0_alone", "rank 0 alone adds down_bias after the all-reduce: the sum is on every rank, so each adds "
     "it there", _only_rank_0),
    ("partial_sum", "the ranks keep their own products: row r of down_part belongs to column r of up_part, and the "
     "products of all ranks have to be added up", lambda t, p, n: _partial(t, p) + t["down_bias"]),
    ("mean_of_ranks", "the sum is divided by the number of ranks: each rank has a part of the sum, not a copy of it",
     lambda t, p, n: _everywhere(_partial(t, p).mean(0) + t["down_bias"], n)),
    ("reduced_before_gelu", "the ranks add up their columns before GELU. These are {world} different sets of columns: "
     "nothing is to be added before the second product",
     lambda t, p, n: _everywhere((_gelu(_inside(t, p).sum(0)) @ p["down_part"]).sum(0) + t["down_bias"], n)),
    ("gelu_after_the_sum", "GELU comes after the second product",
     lambda t, p, n: _everywhere(_gelu((_inside(t, p) @ p["down_part"]).sum(0)) + t["down_bias"], n)),
    ("gelu_forgotten", "GELU is left out",
     lambda t, p, n: _everywhere((_inside(t, p) @ p["down_part"]).sum(0) + t["down_bias"], n)),
    ("up_bias_forgotten", "up_bias_part is not added",
     lambda t, p, n: _everywhere((_gelu(t["x"] @ p["up_part"]) @ p["down_part"]).sum(0) + t["down_bias"], n)),
    ("erf_gelu", "GELU is computed with erf: the contract says approximate=\"tanh\"",
     lambda t, p, n: _everywhere((F.gelu(_inside(t, p)) @ p["down_part"]).sum(0) + t["down_bias"], n)),
)  # fmt: skip


def diagnose(evidence):
    """Diagnosis of a wrong output or part, or None."""
    case = evidence.smallest_by_values()
    if case is None:
        return None
    wrong = next((name for name in PARTS if not case.comparisons[name].passed), None)
    return _of_part(case, wrong) if wrong else _of_out(evidence, case)


def _of_part(case, name):
    """Diagnosis of a part that is not the rank's own."""
    world, got, want = case.case.sizes["world"], case.first.outputs[name].double(), case.ref[name]
    start = f"Case {case.case.name!r}: {name} of rank {case.comparisons[name].index[0]} is not its own"
    if all(torch.equal(got[rank], want[0]) for rank in range(world)):
        return Diagnosis(
            "same_part",
            f"{start}: all {world} ranks have that of rank 0. Rank r has the columns from r * width on, width being "
            f"{case.case.sizes['inside_size']} / {world}.",
        )
    if all(torch.equal(got[rank], want[world - 1 - rank]) for rank in range(world)):
        return Diagnosis("parts_reversed", f"{start}: the ranks have the parts in reverse order.")
    dim = 1 if name == "up_part" else 0
    whole = torch.cat(list(want), dim=dim).movedim(dim, 0)
    strided = torch.stack([whole[rank::world].movedim(0, dim) for rank in range(world)])
    if torch.equal(got, strided):
        return Diagnosis(
            "every_nth_column",
            f"{start}: it has every {world}-th column. The contract asks for neighbours, as checkpoints are cut.",
        )
    return Diagnosis("wrong_part", f"{start}: rank r has the columns from r * width to (r + 1) * width - 1.")


def _of_out(evidence, case):
    """Diagnosis of wrong values, or None."""
    one, world = case.comparisons["out"], case.case.sizes["world"]
    rank, *element = one.index
    start = (
        f"Case {case.case.name!r}: out{element} of rank {rank} is {one.got:.7g}, expected {one.expected:.7g}; "
        "every part is right."
    )
    for code, words, mistake in _MISTAKES:
        if all(_fits(one, mistake) for one in [*evidence.failing(), *evidence.passing()]):
            return Diagnosis(code, f"{start} It is what comes when {words.format(world=world)}.")
    return None


def _fits(case, mistake):
    t = {name: x.double() for name, x in case.inputs.items()}
    world = case.case.sizes["world"]
    guess = mistake(t, _split(t, world), world)
    return torch.allclose(case.first.outputs["out"].double(), guess, rtol=1e-4, atol=1e-4)


def one_all_reduce(case, ledger):
    """Diagnosis or None: each rank calls all_reduce once, on (num_tokens, hidden_size) of float32."""
    num_bytes = 4 * case.sizes["num_tokens"] * case.sizes["hidden_size"]
    wanted = [{"op": "all_reduce", "shape": [case.sizes["num_tokens"], case.sizes["hidden_size"]]}]
    for rank, calls in enumerate(ledger["calls"]):
        if [{"op": call["op"], "shape": call["shape"]} for call in calls] == wanted:
            if calls[0]["bytes"] == num_bytes:
                continue
            return Diagnosis(
                "other_dtype",
                f"Every value is right, but rank {rank} hands all_reduce {calls[0]['bytes']:,} bytes (case "
                f"{case.name!r}); ({', '.join(map(str, wanted[0]['shape']))}) in float32 is {num_bytes:,}.",
            )
        start = (
            f"Every value is right, but rank {rank} calls {in_words(calls)} (case {case.name!r}); one all_reduce of "
            f"({', '.join(map(str, wanted[0]['shape']))}) is enough"
        )
        if any(call["op"] == "all_gather" for call in calls):
            return Diagnosis(
                "gathered", f"{start}. After an all_gather every rank holds what {case.sizes['world']} ranks have."
            )
        if len(calls) > 1:
            return Diagnosis("too_many_collectives", f"{start}: each costs a latency of its own.")
        return Diagnosis("other_collective", f"{start}.")
    return None

"""12.4 Top-p without a sort: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Ref, Run

from . import diagnostics

FOUR = (0.5, 0.3, 0.15, 0.05)
FAINT = (4e-4, *(5e-7,) * 1000, 3e-4, 0.4988, 0.5)  # the faint ones push the fourth of the others along
EQUAL = (1.3, 1.3, *(1.0,) * 400)  # the two largest are 0.003 each
NEAR = (1.00002,) * 60 + (1.0,) * 60  # two levels whose probabilities are 0.0000002 apart
TOP_P = (0.6, 0.85, 0.499, 0.501, 1.0, 1e-9)
SORTS = ("sort*", "argsort*", "msort*", "*topk*", "*kthvalue*", "*median*", "*quantile*", "*unique*", "*multinomial*")


def _case(name, num_rows, num_tokens, values="normal", **options):
    return Case(name, {"num_rows": num_rows, "num_tokens": num_tokens}, values, "float32", options)


def _inputs(case, gen):
    """{"logits", "temperature", "top_p", "noise"}, float; noise from 0 to 0.999."""
    num_rows, num_tokens = case.sizes.values()
    options, rows = case.options, torch.arange(num_rows)
    probs = options.get("probs")
    if options.get("spaced"):  # halves of it, all different: a division by the temperature is exact
        places = torch.stack([torch.randperm(num_tokens, generator=gen) for _ in range(num_rows)])
        level = options.get("far", 0.0) * (1.0 - 2.0 * (rows % 2))
        logits = places.float() * (options["spaced"] / 2) + level[:, None]
    elif probs is None:
        logits = 2.0 * torch.randn(num_rows, num_tokens, generator=gen) + options.get("level", 0.0)
    else:
        logits = torch.tensor(probs).log().expand(num_rows, -1).clone()
        if options.get("shuffled", True):
            logits = torch.stack([row[torch.randperm(num_tokens, generator=gen)] for row in logits])
    if case.values == "masked":
        logits[torch.rand(logits.shape, generator=gen) < 0.5] = -float("inf")
        logits[:, -1] = 1.0
    if case.values == "greedy":
        logits[:, 3] = logits[:, 1] = logits.amax(dim=1) + 1.0
    noise = torch.randperm(num_rows, generator=gen) + torch.rand(num_rows, generator=gen)
    noise *= 0.999 / num_rows  # one in each of as many parts: few rows tell what many would
    if options.get("faint"):
        noise = 9.7e-4 + 2e-4 * torch.rand(num_rows, generator=gen)  # in the 3e-4 that begin at 9e-4
    if options.get("ends"):
        noise = torch.tensor([0.0, 0.999])[rows % 2]
    temperature, top_p = (torch.tensor(options.get(name, (1.0,))) for name in ("temperature", "top_p"))
    top_p = top_p[rows % len(top_p)]
    return {"logits": logits, "temperature": temperature[rows % len(temperature)], "top_p": top_p, "noise": noise}


def _run(case, tensors):
    arguments = tuple(Ref(name) for name in ("logits", "temperature", "top_p", "noise"))
    return Run(case.name, tensors, {"tokens": ((case.sizes["num_rows"],), "int64")}, arguments)


EXERCISE = exercise(
    __file__,
    cases=(
        *(_case(f"0.5, 0.3, 0.15, 0.05 with top_p {p:g}", 14, 4, probs=FOUR, top_p=(p,)) for p in TOP_P),
        _case("four times 0.25 with top_p 0.3", 14, 4, probs=(0.25,) * 4, top_p=(0.3,)),
        _case("0.4 and three times 0.2 with top_p 0.5", 14, 4, probs=(0.4, 0.2, 0.2, 0.2), top_p=(0.5,)),
        _case("temperature 2 with top_p 0.6", 14, 4, probs=FOUR, top_p=(0.6,), temperature=(2.0,)),
        _case("temperature 0.5 with top_p 0.7", 14, 4, probs=FOUR, top_p=(0.7,), temperature=(0.5,)),
        _case("temperature 0, two largest", 12, 50, "greedy", temperature=(0.0,), top_p=(1.0, 0.5, 1e-9)),
        _case("noise 0 and 0.999", 10, 20, top_p=(0.9,), ends=True),
        _case("one token", 3, 1, top_p=(0.3, 1.0), temperature=(1.0, 0.0)),
        _case("rows of all kinds", 30, 25, temperature=(0.0, 0.3, 1.0, 1.7), top_p=(0.2, 0.9, 1.0, 0.6, 0.97)),
        _case("half of the logits -inf", 15, 24, "masked", top_p=(0.8, 1.0, 0.3)),
        _case("logits near 10,000", 10, 20, level=1e4, top_p=(0.7,), temperature=(1.0, 0.5)),
        _case("logits near -10,000", 10, 20, level=-1e4, top_p=(0.7,), temperature=(1.0, 3.0)),
        _case("logits of 10,000 and -10,000, temperature 0.002", 12, 8, spaced=2.0**-9, far=1e4,
              temperature=(2.0**-9,), top_p=(0.9, 1.0)),
        _case("temperature 0.00003", 12, 8, spaced=2.0**-15, temperature=(2.0**-15,), top_p=(0.9, 1.0)),
        _case("temperature 1e-9", 12, 8, spaced=2.0**-30, temperature=(2.0**-30,), top_p=(0.9, 1.0)),
        _case("a thousand faint tokens, top_p 1", 4, 1004, probs=FAINT, shuffled=False, faint=True),
        _case("two equal largest of 402, top_p 1e-7", 8, 402, probs=EQUAL, top_p=(1e-7,), tiny=True),
        _case("60 tokens just above 60 others, top_p 0.3", 12, 120, probs=NEAR, top_p=(0.3,), near=True),
        _case("50 draws of eight tokens", 50, 8, probs=tuple(n / 36 for n in range(8, 0, -1)), top_p=(0.8,),
              shuffled=False),
        _case("5,000 tokens", 4, 5000, temperature=(0.7, 1.0), top_p=(0.6, 0.3)),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=lambda _case, tensors: diagnostics.oracle(tensors),
    baseline=lambda _case, tensors: {"tokens": diagnostics.oracle(tensors)["tokens"].long()},
    rules={"tokens": "exact"},
    unread=lambda _case, tensors: diagnostics.bordering(tensors),
    diagnose=diagnostics.diagnose,
    ledger_rule=diagnostics.little_memory,
    forbidden=tuple(f"aten.{name}" for name in SORTS),
)  # fmt: skip

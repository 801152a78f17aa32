"""How many of a draft's tokens the shipped model accepts: speculative decoding, counted on a CPU.

    python3 -m benchmarks.acceptance --out benchmarks/results/cpu/acceptance.csv
    python3 -m benchmarks.acceptance --dry      two prompts, a few tokens

The draft is the smaller model that ships with the course, or a look-up of the last tokens in what was written before.
A round is one step of the model, which judges all proposals at once; counts of rounds do not depend on the machine.
"""

import sys
from dataclasses import astuple

import torch

from benchmarks.harness import Benchmark, main
from benchmarks.harness.about import software
from course_lib.model import ModelDraft, NgramDraft, Sampling, speculate
from course_lib.model.card import END
from course_lib.model.shipped import load_shipped

PROMPTS = (
    "The for statement", "class Queue:\n", "def read(self, size=-1):\n", "A warp", "Return the", "An expression",
    "Exceptions are", "The block reads",
)  # fmt: skip
NEW_TOKENS, DRY_TOKENS = 128, 8
DRAFTS, NUM_DRAFT, TEMPERATURES = ("model", "n-gram"), (2, 4, 8), (0.0, 0.7)


def loads(dry):
    counts, temperatures = (NUM_DRAFT[:1], TEMPERATURES[:1]) if dry else (NUM_DRAFT, TEMPERATURES)
    return [
        {"draft": draft, "num_draft": count, "temperature": temperature}
        for temperature in temperatures
        for draft in DRAFTS
        for count in counts
    ]


def rows_of(load, options):
    """One row: sums over the prompts."""
    if "models" not in options.earlier:
        options.earlier["models"] = (
            load_shipped("small", dtype=torch.float32),
            load_shipped("draft", dtype=torch.float32),
        )
    (model, tokenizer), (small, _) = options.earlier["models"]
    prompts, new_tokens = (PROMPTS[:2], DRY_TOKENS) if options.dry else (PROMPTS, NEW_TOKENS)
    made, sums = 0, (0, 0, 0)
    for seed, prompt in enumerate(prompts):
        draft = ModelDraft(small) if load["draft"] == "model" else NgramDraft()
        sampling = Sampling(temperature=load["temperature"], seed=seed)
        ids = [END, *tokenizer.encode(prompt).ids]
        more = {"num_draft": load["num_draft"], "sampling": sampling}
        new, counts = speculate(model, ids, draft, max_new_tokens=new_tokens, **more)
        made, sums = made + len(new), tuple(map(sum, zip(sums, astuple(counts), strict=True)))
    rounds, proposed, accepted = sums
    share, tokens_per_round = f"{100 * accepted / max(1, proposed):.1f}", f"{made / rounds:.2f}"
    counts = {"new_tokens": made, "rounds": rounds, "proposed": proposed, "accepted": accepted}
    yield load | counts | {"accepted_percent": share, "tokens_per_round": tokens_per_round}


BENCHMARK = Benchmark(
    __doc__,
    __file__,
    f"{len(PROMPTS)} prompts, {NEW_TOKENS} new tokens each, float32; a round is one step of the small model",
    keys=("draft", "num_draft", "temperature"),
    values=("new_tokens", "rounds", "proposed", "accepted", "accepted_percent", "tokens_per_round"),
    loads=loads,
    rows=rows_of,
    shown=("accepted_percent", "tokens_per_round"),
    compared=("accepted_percent",),
    origin=lambda options: software(options.commit, ("torch",)),  # the counts do not depend on the machine
    gpu=False,
)

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))

"""Probes: runs whose right answer is a number that a learner can read, made for one question each.

count   equal scores: every weight is 1/n, so 1/weight says how many keys went into the sum
step    scores 0, then 1 from column `at` on: 1/weight of the last column is the sum l, rescaled exactly once

May import: spec.
"""

from .spec import Case, Probe


def count(sizes, *, name="count", output="out", dtype="float32"):
    """Equal scores. Reading: list of 1/weight along the first row (inf where the weight is 0)."""

    def read(_inputs, outputs):
        row = outputs[output].double().reshape(-1, outputs[output].shape[-1])[0]
        return [1.0 / weight if weight else float("inf") for weight in row.tolist()]

    return Probe(name, Case(name, sizes, "zeros", dtype), read)


def step(name, sizes, at, *, output="out", dtype="float32"):
    """Scores 0 before column `at` and 1 from there on, in every row.

    Reading: {"at", "num_cols", "first", "last"}, the weights of the first and the last column of the first row.
    """

    def read(_inputs, outputs):
        row = outputs[output].double().reshape(-1, outputs[output].shape[-1])[0]
        return {"at": at, "num_cols": row.numel(), "first": row[0].item(), "last": row[-1].item()}

    return Probe(name, Case(name, sizes, "step", dtype, {"at": at}), read)

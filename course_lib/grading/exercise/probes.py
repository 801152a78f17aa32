"""Probes: runs whose right answer is a number that a learner can read, made for one question each.

count   equal scores: every weight is 1/n, so 1/weight says how many keys went into the sum
step    scores 0, then 1 from column `at` on: 1/weight of the last column is the sum l, rescaled exactly once

For attention; inputs by subjects/attention/cases.py, one query row is read:
key_counter  q = 0, row j of v is j + 1: the mean of n keys from the first one on is (n + 1) / 2
unity        v = 1: the weights must add up to 1
ramp         scores 0, then 1: the ratio of the two halves' weights says what became of the scores
other_scale  ramp with another softmax_scale: says whether the parameter is used
stagnation   q = 0, v = 1, 4096 keys: what a sum loses when it is kept in half precision

May import: spec.
"""

import math

from .spec import Case, Probe

OTHER_SCALE = 0.3  # a softmax_scale that is head_dim**-0.5 of no head_dim


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


def _result(outputs, output, columns=1):
    """The first numbers of the first row of an attention output, as floats."""
    tensor = outputs[output].double()
    return tensor.reshape(-1, tensor.shape[-1])[0, :columns].tolist()


def key_counter(sizes, *, name="key counter", output="out", dtype="float32"):
    """q = 0: every key that is seen weighs the same. Reading: how many keys were seen, if they are the first ones."""
    case = Case(name, sizes, "zeros", dtype, {"v": "key_numbers"})
    return Probe(name, case, lambda _inputs, outputs: 2.0 * _result(outputs, output)[0] - 1.0)


def unity(sizes, *, name="unity", output="out", dtype="float32"):
    """v = 1, scores 0 for the first half of the keys and 1 for the second half.

    Reading: {"num_keys", "sum": what should be 1, "means_of_k": what comes when k's first column is averaged instead,
    with equal weights and with the right ones}.
    """

    def read(inputs, outputs):
        k = inputs["k"].double()
        column = k.reshape(-1, *k.shape[-2:])[0, :, 0]
        second = column[len(column) // 2 :].sum()
        first = column.sum() - second
        weighted = (first + math.e * second) / (len(column) * (1.0 + math.e) / 2.0)
        means = (column.mean().item(), weighted.item())
        return {"num_keys": len(column), "sum": _result(outputs, output)[0], "means_of_k": means}

    return Probe(name, Case(name, sizes, "step", dtype, {"v": "ones", "at": sizes["seq_len_kv"] // 2}), read)


def ramp(sizes, *, name="ramp", output="out", dtype="float32", **options):
    """Scores 0 for the first half of the keys and 1 for the second half; v tells the halves apart.

    Reading: {"num_keys", "head_dim", "first", "second": the weight of either half, "slope": log(second / first), which
    is 1 when exp was applied to scores that were scaled once; None when it cannot be formed}.
    """
    at = sizes["seq_len_kv"] // 2

    def read(inputs, outputs):
        first, second = _result(outputs, output, 2)
        usable = first > 0.0 and second > 0.0 and math.isfinite(second / first)
        num_keys, head_dim = inputs["k"].shape[-2:]
        slope = math.log(second / first) if usable else None
        return {"num_keys": num_keys, "head_dim": head_dim, "first": first, "second": second, "slope": slope}

    return Probe(name, Case(name, sizes, "step", dtype, {"v": "halves", "at": at, **options}), read)


def other_scale(sizes, *, scale=OTHER_SCALE, **options):
    """`ramp` with a softmax_scale that is not head_dim**-0.5: the same reading, and "scale", the one that was given."""
    plain = ramp(sizes, name="other scale", scale=scale, **options)
    return Probe(plain.name, plain.case, lambda inputs, outputs: {**plain.read(inputs, outputs), "scale": scale})


def stagnation(sizes, *, name="stagnation", output="out", dtype="float32"):
    """q = 0 and v = 1 over `sizes["seq_len_kv"]` keys, 4096 or more. Reading: the result, which must be 1."""
    case = Case(name, sizes, "zeros", dtype, {"v": "ones"})
    return Probe(name, case, lambda _inputs, outputs: _result(outputs, output)[0])

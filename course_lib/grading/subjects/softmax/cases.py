"""Cases, inputs and runs that the softmax exercises share.

May import: spec, protocol, inputs, magnitude, reference.
"""

import itertools
from dataclasses import replace

import torch

from ....reference import softmax as reference
from ...exercise import inputs, magnitude
from ...exercise.spec import ALL_SCHEDULES, Case
from ...processes.protocol import Ref, Run

WARP_SIZE = 32
NAN = float("nan")


def rows_case(name, num_rows, num_cols, values="normal", dtype="float32", schedules=()):
    """A case of `num_rows` rows with `num_cols` scores each."""
    return Case(name, {"num_rows": num_rows, "num_cols": num_cols}, values, dtype, schedules=schedules)


def row_cases(unit, width, schedules=ALL_SCHEDULES, dtype="float32", rows=7, many=113):
    """The cases of every row softmax.

    Parameters
    ----------
    unit : str, what `width` columns are called: "stride", "tile", "block"
    width : int, columns read at once
    schedules : tuple of str, all that the engine knows; the first one runs alone where one is enough
    rows, many : int, rows of the small cases (about) and of the large one
    """
    one = schedules[:1]
    return (
        rows_case("one element", 1, 1, "normal", dtype, schedules),
        rows_case(f"one below a {unit}", rows // 2, width - 1, "normal", dtype, schedules[:2]),
        rows_case(f"exactly one {unit}", rows // 2 + 1, width, "normal", dtype, one),
        rows_case(f"one above a {unit}", rows // 2 + 2, width + 1, "normal", dtype, schedules),
        rows_case("scores near -100", rows, width + width // 2 - 3, "minus_100", dtype, one),
        rows_case("scores near -3000", rows // 2, width + width // 2 - 3, "minus_3000", dtype, one),
        rows_case("scores near +100", rows, width + width // 2 - 3, "plus_100", dtype, one),
        rows_case("rising scores", rows - 1, 2 * width + 13, "rising", dtype, one),
        rows_case("falling scores", rows - 1, 2 * width + 13, "falling", dtype, schedules[1:2]),
        rows_case("one large score a row", rows, 3 * width + 4, "spikes", dtype, one),
        rows_case("masked scores", rows, 2 * width + 6, "masked", dtype, one),
        rows_case("rows that start masked", rows - 1, 3 * width + 4, "leading_masked", dtype, schedules),
        rows_case(f"whole {unit}s", rows + 1, 4 * width, "normal", dtype, one),
        rows_case("many rows", many, 6 * width + 11, "normal", dtype),
    )


def wider_cases(width, columns, dtype="float32", rows=7, limit=60000):
    """What a contract for any size and any score adds: rows of different height, scores at its limits, one wide row.

    Parameters
    ----------
    width : int, columns read at once
    columns : int, of the wide row: more than fit into the registers of a warp or into shared memory
    limit : int, a distribution's: the largest magnitude of a score; a log-sum-exp of 60,000 has an ulp too large to
        judge it
    """
    return (
        rows_case(f"scores near -{limit}", max(rows // 2, 2), width + width // 2 - 3, f"minus_{limit}", dtype),
        rows_case("rows of different height", rows + 2, width + 3, "mixed_rows", dtype),
        rows_case(f"scores near +{limit}", max(rows // 2, 2), width + width // 2 - 3, f"plus_{limit}", dtype),
        rows_case("one wide row", 1, columns, "ending", dtype),
    )


def with_options(cases, name, values):
    """The cases with the option `name`: one of `values` each, in turn."""
    turns = zip(cases, itertools.cycle(values), strict=False)
    return tuple(replace(case, options=case.options | {name: value}) for case, value in turns)


def score_rows(case, gen):
    """{"x": (num_rows, num_cols)}."""
    shape = (case.sizes["num_rows"], case.sizes["num_cols"])
    return {"x": inputs.scores(case.values, shape, case.dtype, gen, at=case.options.get("at", 0))}


def softmax_oracle(_case, tensors):
    """{"out": float64}."""
    return {"out": reference.softmax(tensors["x"])}


def softmax_baseline(_case, tensors):
    """{"out": in the dtype of x}."""
    return {"out": reference.rounded_softmax(tensors["x"])}


def lse_oracle(_case, tensors):
    """{"lse": float64}."""
    return {"lse": reference.log_sum_exp(tensors["x"])}


def lse_baseline(_case, tensors):
    """{"lse": float32}: the contract asks for float inside, whatever the dtype of x."""
    return {"lse": reference.rounded_log_sum_exp(tensors["x"].float())}


# What every exercise that is given rows of scores shares with the others, as arguments of `exercise`.
SOFTMAX = {
    "make_inputs": score_rows, "oracle": softmax_oracle, "baseline": softmax_baseline, "rules": {"out": "weights"},
    "largest_score": magnitude.of_inputs("x"),
}  # fmt: skip
LSE = SOFTMAX | {"oracle": lse_oracle, "baseline": lse_baseline, "rules": {"lse": "lse"}}


def rows_run(case, tensors, *, output="out", rows_per_block=1, threads=1, constants=None):
    """The run of a kernel over rows: (x, output, num_rows, num_cols), `rows_per_block` rows a block."""
    num_rows, num_cols = tensors["x"].shape
    shape = (num_rows, num_cols) if output == "out" else (num_rows,)
    return Run(
        case.name,
        tensors,
        {output: (shape, "float32")},
        (Ref("x"), Ref(output), num_rows, num_cols),
        grid=(-(-num_rows // rows_per_block), 1, 1),
        block=(threads, 1, 1),
        constants=constants or {},
    )


def masked_case(name, batch_size, seq_len_q, seq_len_kv, seq_lens_kv, values="normal", schedules=(), unseen=NAN):
    """Scores under a causal and a length mask; `unseen` is the score of every key that a row may not see."""
    sizes = {"batch_size": batch_size, "seq_len_q": seq_len_q, "seq_len_kv": seq_len_kv}
    return Case(name, sizes, values, options={"seq_lens_kv": seq_lens_kv, "unseen": unseen}, schedules=schedules)


def masked_scores(case, gen):
    """{"scores": (batch_size, seq_len_q, seq_len_kv), "seq_lens_kv": (batch_size,) int32}."""
    shape = tuple(case.sizes.values())
    lens = torch.tensor(case.options["seq_lens_kv"], dtype=torch.int32)
    scores = inputs.scores(case.values, shape, case.dtype, gen, at=case.options.get("at", 0))
    visible = reference.visible_keys(lens, shape[1], shape[2])
    return {"scores": torch.where(visible, scores, case.options["unseen"]), "seq_lens_kv": lens}


def masked_oracle(_case, tensors):
    """{"out", "lse"}, float64."""
    out, lse = reference.masked_softmax(tensors["scores"], tensors["seq_lens_kv"])
    return {"out": out, "lse": lse}


def masked_baseline(_case, tensors):
    """{"out", "lse"} in the dtype of the scores."""
    out, lse = reference.rounded_masked_softmax(tensors["scores"], tensors["seq_lens_kv"])
    return {"out": out, "lse": lse}


def masked_largest_score(_case, tensors):
    """Largest score at the keys that a row sees; those at other keys are poison."""
    scores = tensors["scores"]
    return magnitude.largest(scores[reference.visible_keys(tensors["seq_lens_kv"], *scores.shape[1:])])


def masked_run(case, tensors):
    """One warp a row: grid (seq_len_q, batch_size)."""
    batch_size, seq_len_q, seq_len_kv = tensors["scores"].shape
    outputs = {"out": ((batch_size, seq_len_q, seq_len_kv), "float32"), "lse": ((batch_size, seq_len_q), "float32")}
    return Run(
        case.name,
        tensors,
        outputs,
        (Ref("scores"), Ref("seq_lens_kv"), Ref("out"), Ref("lse"), seq_len_q, seq_len_kv),
        grid=(seq_len_q, batch_size, 1),
        block=(WARP_SIZE, 1, 1),
    )

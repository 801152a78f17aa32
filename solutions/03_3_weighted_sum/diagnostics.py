"""The probes of softmax times values in tiles, and the mistakes that their results point to."""

import math

import torch

from course_lib.grading.exercise.spec import Case, Probe
from course_lib.grading.judge.diagnosis import low_precision
from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.ledger.held import too_much_held
from course_lib.grading.subjects.limits import by_limit
from course_lib.grading.subjects.softmax.diagnostics import by_height, by_masked_rows, by_shift, nan_from_the_start
from course_lib.grading.subjects.softmax.sums import near, say_count

E = math.e
_OBJECTS_OF_PYTHON = 128 << 10  # bytes that a right answer in numpy may take for frames, views and names
FACTORS = (  # what the old part was multiplied by where exp(-1) is right
    (1.0, "not multiplied at all"),
    (E, "multiplied by exp(m_new - m), the inverse"),
    (0.5, "multiplied by 2 to the -1"),
    (0.0, "thrown away"),
)


def _columns_of_ones_and_second_half(num_cols):
    """Two value columns: 1 everywhere; 1 in the second half of the keys."""
    half = (torch.arange(num_cols) >= num_cols // 2).float()  # (num_cols,)
    return torch.stack([torch.ones(num_cols), half], dim=1)


def _key_numbers(num_cols):
    """One value column: 1, 2, 3, … so that the mean of n of them is (n + 1) / 2."""
    return torch.arange(1.0, num_cols + 1.0)[:, None]


def tile_probes():
    """Key counter, and two tiles of which the second lies 1 higher."""

    def sizes(num_cols, head_dim):
        return {"num_rows": 3, "num_cols": num_cols, "head_dim": head_dim, "block_n": 16}

    step = Case("step", sizes(32, 2), "step", options={"at": 16, "value_columns": _columns_of_ones_and_second_half})
    keys = Case("keys", sizes(53, 1), "zeros", options={"value_columns": _key_numbers})
    inside = Case("inside", sizes(16, 2), "step", options={"at": 8, "value_columns": _columns_of_ones_and_second_half})
    return (
        Probe("inside", inside, lambda inputs, outputs: outputs["out"].double()[0].tolist()),
        Probe("keys", keys, lambda inputs, outputs: 2.0 * outputs["out"].double()[0, 0].item() - 1.0),
        Probe("step", step, lambda inputs, outputs: outputs["out"].double()[0].tolist()),
    )


def diagnose_tiles(evidence):
    """Diagnosis of a wrong softmax times values, or None."""
    readings = evidence.readings
    looks = (
        lambda: nan_from_the_start(evidence),
        lambda: _ignores_scores(readings.get("inside")),
        lambda: _by_keys(readings.get("keys")),
        lambda: _by_step(readings.get("step")),
        lambda: by_shift(evidence),
        lambda: by_height(evidence),
        lambda: by_masked_rows(evidence),
        lambda: _other_keys(readings.get("keys")),
        lambda: low_precision(evidence.failing_by_values()) or by_limit(evidence, num_cols="columns"),
    )
    return next((found for look in looks if (found := look()) is not None), None)


def _by_keys(keys):
    """Equal scores and values 1, 2, 3, …: the result tells how many keys were seen."""
    if keys is None or not math.isfinite(keys) or near(keys, 53):
        return None
    if near(keys, 2.0 * 53 * 54 / 2 - 1.0):
        return Diagnosis(
            "no_division",
            "53 equal scores over the values 1 to 53 must give their mean, 27; here comes "
            "their sum, 1431: "
            "the division by l is missing.",
        )
    found = say_count(keys, 53, 16, "tile", weights=False)
    return found if found.code in ("tail_dropped", "no_stride_loop") else None


def _other_keys(keys):
    """Equal scores, and yet not the mean of all values, in a way that no simple rule explains."""
    if keys is None or not math.isfinite(keys) or near(keys, 53):
        return None
    return Diagnosis(
        "wrong_keys",
        "53 equal scores over the values 1 to 53 must give their mean, 27; here comes "
        f"{(keys + 1) / 2:.4g}: some values are taken twice, or not at all. Does every tile "
        "of "
        "scores meet the same columns of values?",
    )


def _ignores_scores(reading):
    """One tile, its second half higher by 1: weights that do not follow the scores."""
    if reading is None or not near(reading[0], 1.0) or not near(reading[1], 0.5):
        return None
    return Diagnosis(
        "ignores_scores",
        "8 scores 0 and 8 scores 1: the second half must get 0.731 of the weight and "
        "gets 0.5, as in a "
        "plain mean. The scores do not enter the result.",
    )


def _by_step(reading):
    """Two tiles, the second one higher by 1; values: all ones, and ones in the second tile."""
    if reading is None or not all(math.isfinite(value) for value in reading) or reading[1] == 0.0:
        return None
    ones, second = reading
    right = 16.0 / (16.0 / E + 16.0)
    start = (
        "16 scores 0, then 16 scores 1, in tiles of 16: with all values 1 the result must be 1 and is "
        f"{ones:.4g}; with value 1 in the second tile alone it must be {right:.4g} and is {second:.4g}"
    )
    if near(ones, 16.0 / E + 16.0):
        return Diagnosis("no_division", f"{start}: the division by l is missing.")
    total = 16.0 / second
    factor_l = (total - 16.0) / 16.0
    factor_acc = (ones * total - 16.0) / 16.0
    for name, factor, code in (("acc", factor_acc, "o_not_rescaled"), ("l", factor_l, "l_not_rescaled")):
        for value, words in FACTORS:
            if abs(factor - value) < 5e-3:
                both = " and so was l" if name == "acc" and abs(factor_l - value) < 5e-3 else ""
                final = {1.0: code, E: "inverse_factor", 0.5: "exp_exp2_mix", 0.0: "old_sum_lost"}[value]
                return Diagnosis(
                    final,
                    f"{start}. When the maximum grew, the old {name} was {words}{both}; it must be "
                    "multiplied by "
                    "alpha = exp(m - m_new) = 0.368.",
                )
    if near(ones, 1.0) and near(second, right):
        return None
    return Diagnosis(
        "rescale_wrong", f"{start}. Both l and acc must be multiplied by alpha = exp(m - m_new), once a tile."
    )


def one_tile_of_weights(case, ledger):
    """Refuses right values whose weights were held for more than a tile of columns at a time."""
    return _largest_operator(case, ledger) or _memory(case, ledger)


def _memory(case, ledger):
    """Refuses more numbers alive at one time than the contract allows, in tensors, numpy arrays and lists."""
    num_rows, block_n, head_dim = (case.sizes[name] for name in ("num_rows", "block_n", "head_dim"))
    limit = 4 * num_rows * (block_n + 4) * (head_dim + 4)

    def say(held):
        return (
            f"Every value is right, but beside its inputs the answer held {held:,} numbers at one time (case "
            f"{case.name!r}, {num_rows} x {case.sizes['num_cols']}, block_n = {block_n}, head_dim = {head_dim}); the "
            f"contract allows 4 * num_rows * (block_n + 4) * (head_dim + 4) = {limit:,}. Whatever grows with num_cols "
            "is too much: use a tile, then let it go."
        )

    return too_much_held(ledger, limit, say, python_bytes=_OBJECTS_OF_PYTHON)


def _largest_operator(case, ledger):
    """Refuses one exponential, or one product, over more columns than a tile has.

    Only in cases with more than one tile, and no more tiles than a tile has columns: factors, one a tile, are an
    exponential as well.
    """
    num_rows, num_cols, block_n = (case.sizes[name] for name in ("num_rows", "num_cols", "block_n"))
    if num_cols <= block_n or -(-num_cols // block_n) > block_n:
        return None
    start = (
        f"Every value is right, but the weights of at most {block_n} columns may be held at a time (case "
        f"{case.name!r}, {num_rows} x {num_cols}, block_n = {block_n})"
    )
    if ledger["exponentials"] > num_rows * block_n:
        return Diagnosis(
            "all_weights_held",
            f"{start}: here one exponential was taken of {ledger['exponentials']:,} numbers, and a tile has "
            f"{num_rows * block_n:,}. Use the weights of a tile, then let them go.",
        )
    if ledger["longest"] > max(num_rows, block_n):
        return Diagnosis(
            "all_weights_held",
            f"{start}: here one exponential was taken along {ledger['longest']:,} columns, row by row. The tile is "
            "made of columns, so that values, too, are read a tile at a time.",
        )
    if ledger["terms"] > block_n:
        return Diagnosis(
            "all_weights_held",
            f"{start}: here one product added up {ledger['terms']:,} columns. Multiply each tile of weights with its "
            "rows of values, and add that to acc.",
        )
    return None

"""Diagnosis of attention in tiles: the old state's factor, the tail, lse.

Two tiles of 16 keys, the second one's scores 1 higher, show how the first tile's sum and output were rescaled.

May import: spec, probes, verdict, evidence (as data), diagnosis, cases, ledger.held, limits, masks, diagnostics of
attention and softmax.
"""

import math

import torch

from ...exercise import probes
from ...exercise.spec import Case, Probe
from ...judge.diagnosis import low_precision, runs_of, worst_element
from ...report.verdict import Diagnosis
from ..attention.diagnostics import by_other_scale, by_scores_limited, diagnose_attention, near
from ..ledger.held import too_much_held
from ..limits import by_limit
from ..softmax.diagnostics import by_shift
from ..softmax.lse import say_lse
from .cases import BLOCK_N as TILE
from .masks import by_heads, by_longer_queries, by_masked_rows, by_seen

E = math.e
_OBJECTS_OF_PYTHON = 64 << 10  # bytes that slices, numbers and frames may take
_FEW = 8  # of so many rows one is wrong at most
KEYS = 53  # three whole tiles and 5 keys
ALPHA = math.exp(-1.0)
_FACTORS = (  # factor of the old state, code, what was done to it
    (1.0, "{}_not_rescaled", "not multiplied by alpha"),
    (E, "inverse_factor", "multiplied by exp(m_new - m)"),
    (0.5, "exp_exp2_mix", "multiplied by 2 to the -1, not by exp(-1)"),
    (0.0, "old_state_lost", "thrown away"),
)


def tile_probes(sizes):
    """Probes for an attention with outputs out and lse.

    Parameters
    ----------
    sizes : callable, (seq_len_q, seq_len_kv) -> the sizes of a Case
    """
    step = Case("tiles", sizes(1, 2 * TILE), "step", options={"v": "halves", "at": TILE})
    counter = probes.key_counter(sizes(1, KEYS))
    return (
        probes.unity(sizes(1, TILE)),
        probes.ramp(sizes(1, TILE)),
        counter,
        Probe("equal lse", counter.case, _first_lse),
        Probe("one score", Case("one score", sizes(1, 1), "ones"), _first_lse),
        Probe("tiles", step, _two_weights),
    )


def _first_lse(_inputs, outputs):
    return outputs["lse"].double().flatten()[0].item()


def _two_weights(_inputs, outputs):
    return outputs["out"].double().reshape(-1, outputs["out"].shape[-1])[0, :2].tolist()


def diagnose_head(evidence):
    """Diagnosis of a failing forward pass: a limit of its sizes, else what tiles do wrong; or None."""
    return by_limit(evidence, seq_len_q="queries", seq_len_kv="keys") or diagnose_tiles(evidence)


def diagnose_tiles(evidence):
    """Diagnosis of a failing attention in tiles, or None."""
    looks = (
        by_rows_left,
        by_heads,
        by_seen,
        _nan_from_the_tail,
        _nan_from_the_start,
        _by_tiles,
        _by_tail,
        _by_equal_weights,
        _by_lse,
        by_other_scale,
        by_scores_limited,
        by_shift,
        diagnose_attention,
        by_masked_rows,
        by_longer_queries,
        _by_few_rows,
    )
    return next((found for look in looks if (found := look(evidence)) is not None), None)


def by_rows_left(evidence):
    """Rows that still hold the empty state, out 0 and lse -inf, beside others that are right."""
    for case in evidence.failing():
        out, lse = case.first.outputs["out"], case.first.outputs["lse"]
        left = torch.isneginf(lse) & (out == 0).all(dim=-1) & torch.isfinite(case.ref["lse"])
        if bool(left.all()) or not bool(left.any()) or bool((case.comparisons["lse"].wrong & ~left).any()):
            continue
        rows = left.reshape(-1, left.shape[-1]).any(dim=0).nonzero().flatten().tolist()
        return Diagnosis(
            "rows_left",
            f"Of {left.shape[-1]} queries in the case {case.case.name!r}, rows {runs_of(rows)} still hold the "
            "empty state, out 0 and lse -inf: no tile of queries reaches them. The last tile may be "
            "narrower than the others.",
        )
    return None


def _by_few_rows(evidence):
    """Errors as small as rounding leaves them, but in a few rows, and rounding spares none."""
    failing = evidence.failing()
    if low_precision(failing) is None:
        return None
    said = []
    for case in failing:
        name, comparison = case.first_wrong
        if comparison.wrong is None or name != "out":
            return None
        rows = comparison.wrong.reshape(-1, comparison.wrong.shape[-1]).any(dim=1)
        if rows.sum() * _FEW > len(rows):
            return None
        said.append(f"{runs_of(rows.nonzero().flatten().tolist())} of {len(rows)} in the case {case.case.name!r}")
    got, expected = worst_element(failing[0])
    return Diagnosis(
        "wrong_rows",
        f"out is wrong in few rows alone, and rounding spares none: in row {'; '.join(said[:3])}. There comes "
        f"{got:.4g} instead of {expected:.4g}. What do these rows do that the others do not?",
    )


def _nan_from_the_tail(evidence):
    """lse is right and out is NaN, wherever the last tile of keys is not full, and nowhere else."""
    failing = evidence.failing()
    partial = [case for case in evidence.cases if case.case.sizes["seq_len_kv"] % TILE]
    if not failing or len(failing) != len(partial) or len(partial) == len(evidence.cases):
        return None
    for case in failing:
        out = case.comparisons["out"]
        if not case.comparisons["lse"].passed or out.got == out.got or case.case.sizes["seq_len_kv"] % TILE == 0:
            return None
    return Diagnosis(
        "nan_from_the_tail",
        "lse is right, and out is NaN wherever the last tile of keys is not full: the keys beyond the end get the "
        "weight 0, but 0 times what v holds past the end may be NaN. Load 0 there.",
    )


def _nan_from_the_start(evidence):
    """NaN for a single key, where the only old state is the empty one."""
    single = [c for c in evidence.failing() if c.case.sizes["seq_len_q"] == c.case.sizes["seq_len_kv"] == 1]
    if not single or not all(c.got != c.got for c in single[0].comparisons.values() if not c.passed):
        return None
    return Diagnosis(
        "nan_from_the_start",
        "NaN already for one query and one key, where the only old state is the empty one, (-inf, 0). Is the factor "
        "exp(m_new - m)? It is infinite there, and 0 times infinite is NaN; exp(m - m_new) is 0. Or is the old state "
        "read from memory that nothing has written (a load without `other`)?",
    )


def say_factors(old, new, old_sum, start):
    """Diagnosis from two tiles with scores 0 and 1, or None.

    Parameters
    ----------
    old, new : float, weights that the first and the second tile got in the output, `old_sum` keys in the first
    """
    if not (math.isfinite(old) and math.isfinite(new)) or new == 0.0:
        return None
    right_new = TILE / (old_sum * ALPHA + TILE)
    if near(old, 1.0 - right_new) and near(new, right_new):
        return None
    shares = f"the first must get {1.0 - right_new:.4g} of the weight and the second {right_new:.4g}"
    start = f"{start} {shares}; they get {old:.4g} and {new:.4g}"
    factor_out = old / new * TILE / old_sum  # what the old output was multiplied by, over what it weighed
    factor_l = (TILE / new - TILE) / old_sum
    if near(new, TILE):
        return Diagnosis("no_division", f"{start}. These are sums: the division by l is missing.")
    if near(new, 1.0) and old == 0.0:
        return Diagnosis(
            "old_state_lost",
            f"{start}. That is the last tile alone: what came before was thrown away, or its m and l were never kept.",
        )
    if near(factor_out, ALPHA / old_sum) or near(factor_out, 1.0 / old_sum):
        return Diagnosis(
            "old_sum_missing",
            f"{start}. The old output was counted as one key, not as {old_sum:g}: out is a mean already, so it enters "
            "with the weight l * alpha. If you divide at every tile, multiply by the old l first.",
        )
    return _by_factors(factor_out, factor_l, old_sum, start)


def _by_factors(factor_out, factor_l, old_sum, start):
    """Diagnosis from what the old output and the old l of `old_sum` keys were multiplied by."""
    for name, factor in (("out", factor_out), ("l", factor_l)):
        for value, code, words in _FACTORS:
            if abs(factor - value) < 5e-3:
                both = ", and so was l" if name == "out" and abs(factor_l - value) < 5e-3 else ""
                return Diagnosis(
                    code.format("o" if name == "out" else "l"),
                    f"{start}. When the maximum grew, the old {name} was {words}{both}; "
                    "alpha = exp(m - m_new) = 0.368.",
                )
    return Diagnosis(
        "rescale_wrong",
        f"{start}. The old output was multiplied by {factor_out * old_sum:.4g} and the old l by {factor_l:.4g}; "
        f"it must be l * alpha = {old_sum * ALPHA:.4g} and alpha = 0.368.",
    )


def _by_tiles(evidence):
    reading, ramp = evidence.readings.get("tiles"), evidence.readings.get("ramp")
    if reading is None or ramp is None or ramp["slope"] is None or not near(ramp["slope"], 1.0, 1e-2):
        return None
    if not near(ramp["first"] + ramp["second"], 1.0):
        return None  # wrong within one tile: not a matter of two
    return say_factors(*reading, TILE, f"Two tiles of {TILE} keys, scores 0 in the first and 1 in the second:")


def _by_tail(evidence):
    """Equal scores over 53 keys in tiles of 16, v = 1, 2, 3, …: what the mean says."""
    seen = evidence.readings.get("key counter")
    if seen is None or not math.isfinite(seen) or near(seen, KEYS):
        return None
    mean, total = (seen + 1.0) / 2.0, KEYS * (KEYS + 1) / 2.0
    start = f"{KEYS} keys of equal weight in tiles of {TILE}, v = 1, 2, … {KEYS}: the mean must be 27 and is {mean:.4g}"
    whole = KEYS // TILE * TILE
    padded = whole + TILE
    table = (
        (
            total / padded,
            "tail_counted",
            f"{total:g} / {padded}: the sum l counted {padded - KEYS} keys past the "
            "end. A key beyond the end has the score -inf, not 0",
        ),
        ((whole + 1) / 2, "tail_dropped", f"the mean of the first {whole}: the last {KEYS - whole} keys are missing"),
        ((TILE + 1) / 2, "one_tile", "the mean of the first tile alone"),
        ((whole + 1 + KEYS) / 2, "old_state_lost", "the mean of the last tile alone: what came before was thrown away"),
        (total, "no_division", "the sum: the division by l is missing"),
    )
    for value, code, words in table:
        if near(mean, value):
            return Diagnosis(code, f"{start}, {words}.")
    return None


def _by_equal_weights(evidence):
    """Scores of 0 and 1 weigh the same: that explains an lse of log(number of keys), and not the other way round."""
    ramp = evidence.readings.get("ramp")
    flat = ramp is not None and ramp["slope"] is not None and abs(ramp["slope"]) < 1e-4
    return diagnose_attention(evidence) if flat else None


def _by_lse(evidence):
    equal, single = evidence.readings.get("equal lse"), evidence.readings.get("one score")
    found = say_lse(equal, KEYS, single)
    if found is not None or equal is None or not math.isfinite(equal) or equal > 80.0:
        return found
    seen, padded = math.exp(equal), -(-KEYS // TILE) * TILE
    if near(seen, KEYS):
        return None
    start = f"{KEYS} scores of 0 must give lse = ln({KEYS}); here exp(lse) is {seen:.4g}"
    if near(seen, padded):
        return Diagnosis("tail_counted", f"{start}, the keys rounded up to whole tiles of {TILE}.")
    if near(seen, KEYS - KEYS // TILE * TILE):
        return Diagnosis("lse_of_last_tile", f"{start}, the keys of the last tile alone.")
    return Diagnosis("lse_wrong", f"{start}.")


def one_tile_of_scores(case, ledger):
    """Refuses right values whose scores were held for more than one tile at a time.

    Only where a tile has at least as many scores as there are queries: m and lse are exponentials as well.
    """
    num_q, num_kv, block_m, block_n = (case.sizes[name] for name in ("seq_len_q", "seq_len_kv", "block_m", "block_n"))
    tile = block_m * block_n
    start = (
        f"Every value is right, but no more than block_m * block_n scores may be held at a time (case {case.name!r}, "
        f"{num_q} queries, {num_kv} keys, tiles of {block_m} x {block_n})"
    )
    if num_q <= tile and ledger["exponentials"] > tile:
        return Diagnosis(
            "all_scores_held",
            f"{start}: here one exponential was taken of {ledger['exponentials']:,} scores, and a tile has {tile:,}.",
        )
    if ledger["terms"] > max(block_n, case.sizes["head_dim"]):
        return Diagnosis(
            "all_scores_held",
            f"{start}: here one product added up the weights of {ledger['terms']:,} keys, and a tile has {block_n:,}.",
        )
    return _memory(case, ledger)


def _memory(case, ledger):
    """Refuses more numbers alive at one time than the contract allows, in tensors, numpy arrays and lists."""
    num_q, num_kv, head_dim, block_m, block_n = case.sizes.values()
    limit = 8 * (num_q + block_m + block_n + 16) * (head_dim + 4) + 8 * block_m * block_n

    def say(held):
        return (
            f"Every value is right, but beside its inputs the answer held {held:,} numbers at one time (case "
            f"{case.name!r}, {num_q} queries, {num_kv} keys, tiles of {block_m} x {block_n}); the contract allows "
            f"{limit:,}. What grows with seq_len_kv is too much: use a tile, then let it go."
        )

    return too_much_held(ledger, limit, say, python_bytes=_OBJECTS_OF_PYTHON)

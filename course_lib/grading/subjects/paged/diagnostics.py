"""Diagnoses of decode attention over pages.

May import: spec, verdict, evidence (as data), cases, guesses, slots, diagnostics of attention, heads, lse, tiles.
"""

import math

import torch

from ...exercise.spec import Case, Probe
from ...report.verdict import Diagnosis
from ..attention.diagnostics import diagnose_attention, near
from ..attention.heads import say_heads
from ..flash_attention.cases import BLOCK_N as TILE
from ..flash_attention.diagnostics import say_factors
from ..softmax.diagnostics import by_shift
from ..softmax.lse import say_lse
from . import cases as cases
from .cases import SLOT_LENS, SLOT_PAGE_SIZE
from .guesses import by_faint, by_floor, by_guess, by_page_size
from .slots import by_k_rule, by_k_slots, by_lanes, by_slots, by_swapped

KEYS = 2 * TILE
LSE_KEYS = 13


def _first(output, columns=None):
    def read(_inputs, outputs):
        flat = outputs[output].double().reshape(-1)
        return flat[0].item() if columns is None else flat[:columns].tolist()

    return read


def _unity(inputs, outputs):
    k = inputs["k_pages"].double()[:, :, 0, 0]
    row = k[inputs["block_table"][0, : KEYS // TILE].long()].flatten()
    second = row[KEYS // 2 :].sum()
    weighted = (row.sum() - second + math.e * second) / (KEYS * (1.0 + math.e) / 2.0)
    means = (row.mean().item(), weighted.item())
    return {"num_keys": KEYS, "sum": _first("out")(inputs, outputs), "means_of_k": means}


def _ramp(inputs, outputs):
    first, second = _first("out", 2)(inputs, outputs)
    usable = first > 0.0 and second > 0.0 and math.isfinite(second / first)
    slope = math.log(second / first) if usable else None
    return {"num_keys": KEYS, "head_dim": cases.HEAD_DIM, "first": first, "second": second, "slope": slope}


def _heads(_inputs, outputs):
    return {"num_kv_heads": 2, "got": outputs["out"].double()[:, :, 0].tolist()}


def _slots(_inputs, outputs):
    return outputs["out"].double()[:, 0].tolist()


def probes():
    """Which slots were read; heads; and those of attention: unity, ramp, two tiles, lse. Unused slots are finite."""

    def one(name, values, read, seq_lens=(KEYS,), page_size=TILE, heads=(1, 1), **options):
        probe_case = cases.case(name, seq_lens, page_size, heads, values, (), finite=True, **options)
        return Probe(name, probe_case, read)

    sizes = dict(zip(cases.SIZES, (1, 1, SLOT_PAGE_SIZE, max(SLOT_LENS)), strict=True))
    slots = {
        kind: Case(f"slots of {kind}", sizes, "zeros", options={"slots": kind, "seq_lens": SLOT_LENS}) for kind in "kv"
    }
    half = {"at": KEYS // 2}
    return (
        *(Probe(f"slots of {kind}", probe_case, _slots) for kind, probe_case in slots.items()),
        one("head map", "zeros", _heads, (5, 9), 4, (4, 2), v_of_head=True),
        one("unity", "step", _unity, v="ones", **half),
        one("columns", "step", _first("out", cases.HEAD_DIM), v="ones", all_ones=True, **half),
        one("ramp", "step", _ramp, v="halves", **half),
        one("tiles", "step", _first("out", 2), v="halves", **half),
        one("equal lse", "zeros", _first("lse"), (LSE_KEYS,), 4),
        one("one score", "ones", _first("lse"), (1,), 4),
    )


def diagnose(evidence):
    """Diagnosis of a failing decode attention over pages, or None."""
    looks = (
        _by_gaps,
        _by_empty,
        by_guess,
        by_floor,
        by_faint,
        by_swapped,
        _by_columns,
        by_slots,
        by_k_rule,
        _by_heads,
        by_shift,
        _by_nan,
        _by_layout,
        by_lanes,
        _by_tiles,
        _by_lse,
        diagnose_attention,
        by_k_slots,
        _by_query,
        by_page_size,
    )
    return next((diagnosis for look in looks if (diagnosis := look(evidence)) is not None), None)


def _by_gaps(evidence):
    """Wrong where the pool has gaps, and nowhere else."""
    failing = evidence.failing()
    if not failing or not all(case.case.options.get("gaps") for case in failing):
        return None
    return Diagnosis(
        "strides_ignored",
        f"Right where rows, slots and pages lie side by side; wrong in the case {failing[0].case.name!r}, where other "
        "numbers lie between them. Page p, slot s, head h begins at p * stride_page + s * stride_slot + h * "
        "stride_kv_head: take each stride as it is given, none from the sizes.",
    )


def _by_empty(evidence):
    """Wrong in the rows of sequences without tokens, and nowhere else."""
    for case in evidence.failing():
        lens = case.inputs["seq_lens"]
        for comparison in case.comparisons.values():
            if comparison.wrong is None:
                continue
            if bool(comparison.wrong[lens > 0].any()):
                return None
    for case in evidence.failing():
        for name, comparison in case.comparisons.items():
            if not comparison.passed and comparison.index is not None:
                why = ": 0 / 0 is NaN, and so is -inf minus -inf" if comparison.got != comparison.got else ""
                return Diagnosis(
                    "empty_sequence",
                    f"Sequence {comparison.index[0]} of the case {case.case.name!r} has no token: out must be 0 and "
                    f"lse -inf. {name} is {comparison.got:.4g}{why}.",
                )
    return None


def _by_columns(evidence):
    """v = 1 in every column, and out is not the same in all of them."""
    columns = evidence.readings.get("columns")
    if columns is None or not all(math.isfinite(value) for value in columns):
        return None
    other = max(range(len(columns)), key=lambda d: abs(columns[d] - columns[0]))
    if near(columns[other], columns[0], 1e-3):
        return None
    return Diagnosis(
        "lanes_disagree",
        f"With v = 1 in all {KEYS} keys out must be 1 in every column; column 0 is {columns[0]:.4g} and column {other} "
        f"{columns[other]:.4g}. m and l belong to the query, not to a lane: each lane divides by the l of the warp.",
    )


def _by_heads(evidence):
    reading = evidence.readings.get("head map")
    if reading is None or not all(abs(value) < 4.5 for row in reading["got"] for value in row):
        return None  # NaN, or more than any head holds: not a matter of heads
    mixed = [value for row in reading["got"] for value in row if abs(value - round(value)) > 0.05]
    if mixed:
        return Diagnosis(
            "heads_mixed",
            "In a probe with 2 key-value heads every row of v holds the number of its head, and out is "
            f"{mixed[0]:.4g}: rows of several heads were taken together. With NHD the rows of a head lie stride_slot "
            "numbers apart, and between them those of the other heads.",
        )
    return say_heads(reading | {"got": [[float(round(value)) for value in row] for row in reading["got"]]})


def _by_nan(evidence):
    """NaN that comes from unused slots alone."""
    reading = evidence.readings.get("slots of v")
    for case in evidence.failing():
        for name, comparison in case.comparisons.items():
            if comparison.passed or comparison.index is None or comparison.got == comparison.got:
                continue
            if reading is None or not all(math.isfinite(weight) for row in reading for weight in row):
                return _by_undefined(evidence, name)
            b = comparison.index[0]
            seq_len, page_size = int(case.inputs["seq_lens"][b]), case.case.sizes["page_size"]
            why = (
                "lse is right, so they are not counted; but 0 times NaN is NaN, and so is NaN plus -inf: load 0 "
                "for k and v"
                if case.comparisons["lse"].passed
                else "A maximum or a sum over NaN is NaN. Set the score of a masked key to -inf, or do not load it"
            )
            return Diagnosis(
                "nan_from_unused_slots",
                f"{name} is NaN in the case {case.case.name!r}, and right where unused slots hold numbers. Sequence "
                f"{b} has {seq_len} tokens; the {-seq_len % page_size} slots past its end in the last page are "
                f"undefined, and hold NaN here. {why}.",
            )
    return None


def _by_undefined(evidence, name):
    """NaN wherever a page is not full, whatever the slots hold, and right numbers where all are."""
    full = [
        case
        for case in evidence.cases
        if not bool((case.inputs["seq_lens"] % case.case.sizes["page_size"]).any())
        and int(case.inputs["seq_lens"].min())
    ]
    if not full or any(not case.passed for case in full):
        return None
    return Diagnosis(
        "undefined_places",
        f"{name} is NaN wherever the last page is not full, and right in the case {full[0].case.name!r}. Elements "
        "that a load masks out have the value `other`, and are undefined without it: pass other=0.0.",
    )


def _by_layout(evidence):
    """Right in one layout and wrong in the other."""
    failing = evidence.failing()
    turned = [case for case in failing if case.case.options.get("hnd")]
    if turned and all(case.case.options.get("hnd") or case.case.options.get("gaps") for case in failing):
        name, comparison = turned[0].first_wrong
        return Diagnosis(
            "layout",
            f"Right where a page holds slot after slot, wrong in the case {turned[0].case.name!r}, where it holds "
            f"head after head ({name} is {comparison.got:.4g} in place of {comparison.expected:.4g}). Take the strides "
            "as they are given; none of them follows from head_dim.",
        )
    return None


def _by_tiles(evidence):
    reading, ramp = evidence.readings.get("tiles"), evidence.readings.get("ramp")
    if reading is None or ramp is None:
        return None
    if ramp["slope"] is not None and any(near(ramp["slope"], value, 1e-2) for value in _SCALES):
        return None
    return say_factors(*reading, TILE, f"{TILE} keys with score 0, then {TILE} with score 1:")


_ROOT = cases.HEAD_DIM**0.5
_SCALES = (_ROOT, 1.0 / _ROOT, float(cases.HEAD_DIM), -1.0, math.log(2.0))


def _by_lse(evidence):
    equal, single = evidence.readings.get("equal lse"), evidence.readings.get("one score")
    return say_lse(equal, LSE_KEYS, single)


def _by_query(evidence):
    """Right, if every sequence had the query of the first one."""
    for case in evidence.failing():
        q = case.inputs["q"]
        if len(q) == 1 or not bool(torch.isfinite(case.first.outputs["out"]).all()):
            continue
        for other, code, words in (
            (q[:1].expand_as(q), "another_query", "the query of sequence 0, in every sequence"),
            (q[:, :1].expand_as(q), "another_query", "the query of head 0, in every head"),
        ):
            guess = evidence.exercise.oracle(case.case, case.inputs | {"q": other.contiguous()})["out"]
            if not torch.equal(other, q) and bool(((guess - case.first.outputs["out"]).abs() < 1e-3).all()):
                return Diagnosis(
                    code,
                    f"In the case {case.case.name!r} every number of out is right for {words}. q is (B, H, 32): row "
                    "batch * H + head.",
                )
    return None

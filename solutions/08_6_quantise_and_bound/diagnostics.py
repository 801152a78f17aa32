"""What is wrong with rotated rows, scales, rounded, restored numbers or bounds: the first of them, in this order.

Each is judged by what the answer itself made before it: a wrong rotation does not make the scales wrong.
"""

import math

import torch

from course_lib.grading.report.verdict import Diagnosis

from .bounds import by_bound, first_of
from .rounding import LARGEST, SLACK, half_step, largest_of_blocks, of_each_row, rotated

MOST_TERMS = 16  # of a matrix product
EPSILON = 2.0**-24  # half a unit in the last place of float32


def fast(case, ledger):
    """Diagnosis of a rotation by a whole Hadamard matrix, or of float64 on the way; or None."""
    if ledger["doubles"] > 1:
        return Diagnosis(
            "double_precision",
            f"The values are right. In the case {case.name!r} a tensor of {ledger['doubles']:,} numbers is float64; "
            f"everything is computed in float32, which is what a kernel has.",
        )
    terms = max(ledger["terms"], ledger["added"])
    if terms <= MOST_TERMS:
        return None
    return Diagnosis(
        "whole_matrix",
        f"The values are right. In the case {case.name!r} a product or a sum adds up {terms} terms for an "
        f"element; at most {MOST_TERMS} are allowed. log2(head_dim) steps of sums and differences do.",
    )


def accept(case, tensors, outputs):
    """None when all five outputs are right; otherwise the Diagnosis of the first that is not."""
    got = {name: out.double() for name, out in outputs.items()}
    block_rows, clip = case.sizes["block_rows"], case.options["clip"]
    start = f"Case {case.name!r}"
    found = _by_rotation(start, tensors, got["y"]) or _by_scales(start, got["y"], got["scales"], block_rows, clip)
    if found is not None:
        return found
    scale = of_each_row(got["scales"], len(got["y"]), block_rows)
    empty = of_each_row(largest_of_blocks(got["y"], block_rows), len(got["y"]), block_rows) == 0
    return (
        _by_small(start, got["y"], scale, got["small"])
        or _by_restored(start, got, scale)
        or by_bound(start, got["y"], scale, got["bound"], empty)
    )


def _near(x, y, tolerance=1e-4):
    """Whether two tensors agree, relative to the largest number of y."""
    return bool(torch.isfinite(x).all()) and bool((x - y).abs().max() <= tolerance * y.abs().max())


def _by_rotation(start, tensors, y):
    x, signs = tensors["x"].double(), tensors["signs"].double()
    right, head_dim = rotated(x, signs), x.shape[1]
    length = x.square().sum(dim=1, keepdim=True).sqrt()
    error = (y - right).abs()
    if bool((error <= 16 * EPSILON * math.log2(2 * head_dim) * length).all()):
        return None
    row, column = first_of(~(error <= 16 * EPSILON * math.log2(2 * head_dim) * length))
    start = f"{start}: y[{row}, {column}] is {y[row, column]:.6g}, expected {right[row, column]:.6g}"
    root = head_dim**0.5
    table = (
        (rotated(x, torch.ones_like(signs)), "signs_missing", "the signs were not applied"),
        (rotated(x, torch.ones_like(signs)) * signs, "signs_after", "the signs were applied after H; they come "
            "before it"),
        (right * root, "not_orthonormal", "the factor 1 / sqrt(head_dim) is missing, so lengths grow by its inverse"),
        (right / root, "not_orthonormal", "divided by head_dim; lengths are kept with its square root"),
        (_one_step_less(x * signs), "step_missing", "the last step, half = head_dim / 2, is missing"),
        (x * signs, "not_rotated", "this is x times the signs: nothing was mixed"),
        (_bits_reversed(right), "other_order", "the columns have another order: step by step, halves 1, 2, 4, … apart"),
        (-right, "signs_inverted", "every sign is inverted"),
    )  # fmt: skip
    for values, code, words in table:
        if _near(y, values) and not _near(values, right):
            return Diagnosis(code, f"{start}: {words}.")
    if scaled := _by_factor(start, y, right):
        return scaled
    relative = (error / length.clamp(min=1e-300)).max().item()
    if relative < 0.05:
        return Diagnosis(
            "low_precision",
            f"{start}: off by up to {relative:.1e} of a row's length, as rounding to the dtype of x leaves it. "
            f"Rotate in float32.",
        )
    lengths = y.square().sum(dim=1, keepdim=True).sqrt() / length.clamp(min=1e-300)
    return Diagnosis(
        "rotation_wrong",
        f"{start}. A rotation keeps a row's length; here row {row} has {lengths[row, 0]:.4g} times its own.",
    )


def _by_factor(start, y, right):
    """Diagnosis of a rotation times a constant, or None."""
    factor = ((y * right).sum() / right.square().sum().clamp(min=1e-300)).item()
    if factor == 0 or not _near(y, factor * right, 1e-5):
        return None
    return Diagnosis(
        "not_orthonormal",
        f"{start}. Every number is {factor:.6g} times what it should be, as if H were divided by "
        f"{y.shape[1] ** 0.5 / factor:.6g} in place of sqrt({y.shape[1]}).",
    )


def _one_step_less(x):
    """The transform without its last step, over sqrt(head_dim)."""
    head_dim = x.shape[1]
    parts = x.reshape(-1, max(head_dim // 2, 1))
    return rotated(parts, torch.ones(parts.shape[1])).reshape(x.shape) * max(head_dim // 2, 1) ** 0.5 / head_dim**0.5


def _bits_reversed(y):
    bits = y.shape[1].bit_length() - 1
    order = [int(f"{column:0{max(bits, 1)}b}"[::-1], 2) if bits else 0 for column in range(y.shape[1])]
    return y[:, order]


def _by_scales(start, y, scales, block_rows, clip):
    largest = largest_of_blocks(y, block_rows)
    right = clip * largest / LARGEST
    zero = largest == 0
    usable = torch.isfinite(scales) & (scales > 0)
    if not bool(usable[zero].all()):
        block = int((zero & ~usable).nonzero()[0])
        return Diagnosis(
            "zero_block",
            f"{start}: block {block} holds zeros alone and has the scale {scales[block]:g}; 0 / 0 is NaN. Any finite "
            f"scale above 0 will do.",
        )
    wrong = ~((scales - right).abs() <= 8 * EPSILON * right) & ~zero
    if not bool(wrong.any()):
        return None
    block = int(wrong.nonzero()[0])
    start = (
        f"{start}: the scale of block {block} is {scales[block]:.6g}, expected {clip:g} * {largest[block]:.6g} / 448 = "
        f"{right[block]:.6g}"
    )
    factors = (scales * LARGEST / largest)[~zero]
    return (
        _known_scales(start, y, scales, block_rows, clip)
        or _by_clip(start, factors, clip)
        or _other_scales(start, scales, right, largest, wrong)
    )


_NO_CLIP = (
    ("clip_ignored", "clip was left out"),
    ("clip_limited", "clip was left out, or held at 1: it may be larger"),
)


def _known_scales(start, y, scales, block_rows, clip):
    """Diagnosis of scales that a known mistake would give, or None."""
    largest = largest_of_blocks(y, block_rows)
    right, zero = clip * largest / LARGEST, largest == 0
    first = y.abs().amax(dim=1)[::block_rows]
    table = (
        (torch.stack([rows.max() for rows in y.split(block_rows)]) * clip / LARGEST, "signed_maximum",
         "the largest number without its sign is what counts"),
        (largest / LARGEST, *_NO_CLIP[clip > 1]),
        (largest / LARGEST / clip, "clip_inverse", "divided by clip"),
        (y.abs().max().expand_as(right) * clip / LARGEST, "one_scale", "that is the scale of the whole matrix"),
        (first * clip / LARGEST, "row_alone", "that is of the block's first row alone"),
        (right * LARGEST / 240, "other_format", "240 is the largest number of another format; e4m3fn goes to 448"),
        (right * LARGEST / 256, "other_format", "256 is not the largest number of e4m3: 1.75 * 2^8 = 448"),
        (right * LARGEST / 480, "other_format", "480 would be 1.875 * 2^8, which e4m3fn uses for NaN"),
        (right * LARGEST / 57344, "other_format", "57344 is the largest number of e5m2"),
        (right * LARGEST, "not_divided", "the largest magnitude must become 448"),
        (1 / right.clamp(min=1e-300), "scale_inverse", "turned round: small * scale must give y again"),
    )  # fmt: skip
    for values, code, words in table:
        if bool(((scales - values).abs() <= 1e-5 * values.abs())[~zero].all()):
            return Diagnosis(code, f"{start}: {words}.")
    return None


def _by_clip(start, factors, clip):
    """Diagnosis of scales as of another clip; `factors`, of each block, are in the place of clip."""
    first = factors[0].item()
    if clip == 1 or first < 1.01 * clip or not bool(((factors - first).abs() <= 1e-5 * first).all()):
        return None
    return Diagnosis("clip_limited", f"{start}: as if clip were {first:.4g}; it may be any number above 0.")


def _other_scales(start, scales, right, largest, wrong):
    """Diagnosis of scales that no known mistake gives."""
    block, zero = int(wrong.nonzero()[0]), largest == 0
    if bool((scales >= right * (1 - 1e-5)).all()) and right[block] < 1e-3 * largest.max().clamp(min=1.0):
        return Diagnosis(
            "epsilon",
            f"{start}: an epsilon that keeps scales above 0 is larger than this one. Only a block of zeros needs help.",
        )
    if bool(((scales - right).abs() <= 2.0**-8 * right)[~zero].all()):
        return Diagnosis(
            "scale_rounded", f"{start}: off as rounding to half or bfloat16 leaves it; scales are float32."
        )
    if bool((scales < right)[wrong].all()):
        return Diagnosis(
            "rows_left_out", f"{start}: smaller than it should be, so not all rows of the block were looked at."
        )
    return Diagnosis("scale_wrong", f"{start}.")


def _by_small(start, y, scale, small):
    size = y / scale
    if bool(torch.isnan(small).any()):
        row, column = first_of(torch.isnan(small))
        return Diagnosis(
            "not_saturated",
            f"{start}: small[{row}, {column}] is NaN, from {size[row, column]:.6g}. e4m3fn has no infinity, and what "
            f"is beyond 448 becomes NaN; clamp to +-448 first.",
        )
    wanted = size.clamp(-LARGEST, LARGEST)
    allowed = half_step(wanted.abs()) * (1 + SLACK)
    wrong = ~((small - wanted).abs() <= allowed)
    if not bool(wrong.any()):
        return None
    row, column = first_of(wrong)
    start = (
        f"{start}: y / scale is {size[row, column]:.7g} at [{row}, {column}] and became {small[row, column]:.6g}, "
        f"off by {(small - wanted)[row, column].abs():.4g}; half a step is {half_step(wanted.abs())[row, column]:.4g}"
    )
    if _near(small, (y * scale).clamp(-LARGEST, LARGEST), 0.1):
        return Diagnosis("multiplied", f"{start}: that is y * scale.")
    if bool((small[wrong] == 0).all()) and bool((wanted.abs()[wrong] <= 2.0**-6).all()):
        return Diagnosis("subnormals_flushed", f"{start}: e4m3 goes down to 2^-9, in subnormal numbers.")
    if bool((small.abs()[wrong] == small.abs().max()).all()) or not bool((wrong & (wanted.abs() < LARGEST)).any()):
        return Diagnosis("clamped_too_low", f"{start}: what is beyond 448 must become 448, the largest number.")
    if bool((small == wanted.round().float().to(torch.float8_e4m3fn).double()).all()):
        return Diagnosis("rounded_to_whole", f"{start}: rounded to whole numbers, and e4m3 has 56 numbers below 1.")
    if bool((small.abs() <= wanted.abs() * (1 + SLACK)).all()):
        return Diagnosis("truncated", f"{start}: always towards 0; the cast of torch rounds to the nearest.")
    if bool(((small - wanted).abs() <= 1.2 * half_step(wanted.abs())).all()):
        return Diagnosis(
            "rounded_twice", f"{start}: a little more than half, so it was rounded before, to bfloat16 or half."
        )
    return Diagnosis("rounding_wrong", f"{start}. Which scale was it divided by?")


def _by_restored(start, got, scale):
    right = got["small"] * scale
    wrong = ~((got["restored"] - right).abs() <= 4 * EPSILON * right.abs())
    if not bool(wrong.any()):
        return None
    row, column = first_of(wrong)
    value = got["restored"][row, column]
    start = (
        f"{start}: restored[{row}, {column}] is {value:.6g}, expected {got['small'][row, column]:.6g} * "
        f"{scale[row, 0]:.6g} = {right[row, column]:.6g}"
    )
    if _near(got["restored"], got["small"]):
        return Diagnosis("scale_forgotten", f"{start}: the scale is missing.")
    if _near(got["restored"], got["small"] / scale):
        return Diagnosis("divided_again", f"{start}: divided by the scale.")
    if _near(got["restored"], got["y"], 1e-6):
        return Diagnosis("never_rounded", f"{start}: that is y itself; restore from small and scales.")
    scales = scale.unique()
    if any(abs(value - got["small"][row, column] * other) <= 1e-5 * abs(value) for other in scales):
        return Diagnosis("other_block", f"{start}: that is the scale of another block.")
    return Diagnosis("restored_wrong", f"{start}.")

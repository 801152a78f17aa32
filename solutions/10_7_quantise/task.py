"""10.7 To one byte, with a scale for each row: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Ref, Run
from course_lib.grading.report.verdict import Diagnosis

HEAD_DIM = 32

OLD_BYTE, OLD_SCALE = 77, -5.0  # contents of the pools on entry

ALL_SCHEDULES = ("forward", "reverse", "random", "resident")


def _case(name, num_tokens, num_kv_heads, values="normal", schedules=("forward",), **options):
    sizes = {"num_tokens": num_tokens, "num_kv_heads": num_kv_heads, "page_size": 4, "num_pages": 3}
    return Case(name, sizes, values, "int8", options, schedules)


def _inputs(case, gen):
    """{"x": (num_tokens, num_kv_heads, HEAD_DIM) float32, "slot_mapping"}."""
    num_tokens, num_kv_heads, page_size, num_pages = case.sizes.values()
    x = torch.randn(num_tokens, num_kv_heads, HEAD_DIM, generator=gen)
    factor = torch.exp(3.0 * torch.randn(num_tokens, num_kv_heads, 1, generator=gen))
    if case.values == "negative":
        x = -x.abs() - 0.5
    if case.values == "zeros":
        x[::2] = 0.0
    if case.values == "large":
        factor = factor * 1e4
    slots = torch.randperm(num_pages * page_size - 1, generator=gen)[:num_tokens] + 1
    for token in case.options.get("not_stored", ()):
        slots[token] = -1
    return {"x": x * factor, "slot_mapping": slots}


def _run(case, tensors):
    num_tokens, num_kv_heads, page_size, num_pages = case.sizes.values()
    shape = (num_pages, page_size, num_kv_heads)
    outputs = {"pages": ((*shape, HEAD_DIM), "int8"), "scales": (shape, "float32")}
    contents = {
        "pages": torch.full((*shape, HEAD_DIM), OLD_BYTE, dtype=torch.int8),
        "scales": torch.full(shape, OLD_SCALE),
    }
    arguments = (*map(Ref, ("x", "pages", "scales", "slot_mapping")),)
    grid = (num_kv_heads, num_tokens, 1)
    return Run(case.name, tensors, outputs, arguments, grid=grid, block=(32, 1, 1), contents=contents)


def _accept(case, tensors, outputs):
    """Diagnosis of the first row that is not what it should be, or None."""
    pages, scales = outputs["pages"].flatten(0, 1), outputs["scales"].flatten(0, 1)  # (slots, heads, …)
    x, slots = tensors["x"], tensors["slot_mapping"].tolist()
    diagnosis = _by_slot(case, pages, scales, x, slots)
    if diagnosis is not None:
        return diagnosis
    for token, slot in enumerate(slots):
        for head in range(x.shape[1] if slot >= 0 else 0):
            diagnosis = _by_row(case, (token, head), x, pages[slot, head], scales[slot, head].item())
            diagnosis = diagnosis or _say_row(
                case, (token, head), x[token, head], pages[slot, head], scales[slot, head].item()
            )
            if diagnosis is not None:
                return diagnosis
    return _by_others(case, pages, scales, slots)


def _by_slot(case, pages, scales, x, slots):
    """Slots that should have been written and were not."""
    for what, tensor, old in (("bytes", pages, OLD_BYTE), ("scale", scales, OLD_SCALE)):
        kept = (tensor == old).reshape(*tensor.shape[:2], -1).all(dim=2)  # (slots, heads)
        left = [token for token, slot in enumerate(slots) if slot >= 0 and bool(kept[slot].any())]
        if not left:
            continue
        token, own = left[0], {slot for slot in slots if slot >= 0}
        changed = [s for s in range(len(tensor)) if s not in own and bool((tensor[s] != old).any())]
        words = f"; slot {changed[0]}, to which no token is mapped, has changed" if changed else ""
        return Diagnosis(
            "wrong_place" if changed else "not_written",
            f"Case {case.name!r}: token {token} belongs to slot {slots[token]}, and the {what} of that "
            f"slot {'have' if what == 'bytes' else 'has'} not changed{words}.",
        )
    return None


def _by_others(case, pages, scales, slots):
    """Slots that should not have been written."""
    for what, tensor, old in (("pages", pages, OLD_BYTE), ("scales", scales, OLD_SCALE)):
        for slot in set(range(len(tensor))) - set(slots):
            if bool((tensor[slot] != old).any()):
                code = "padding_written" if -1 in slots else "neighbours_touched"
                words = "A negative slot is not stored" if -1 in slots else "No token is mapped to it"
                return Diagnosis(code, f"Case {case.name!r}: {what} of slot {slot} changed. {words}.")
    return None


def _by_row(case, where, x, small, scale):
    """Another row of x, rightly rounded."""
    limits = x.abs().amax(dim=2, keepdim=True) / 254.0 * 1.01
    fits = ((small.double() * scale - x.double()).abs() <= limits).all(dim=2) & (limits[..., 0] > 0)
    if not bool(fits.any()) or bool(fits[where]):
        return None
    token, head = fits.nonzero()[0].tolist()
    return Diagnosis(
        "wrong_row",
        f"Case {case.name!r}: where token {where[0]}, head {where[1]} belongs, token {token}, head {head} is stored. A "
        f"token has {x.shape[1]} rows of {HEAD_DIM} numbers.",
    )


def _say_row(case, where, x, small, scale):
    token, head = where
    largest = x.abs().max().item()
    right, start = (
        largest / 127.0,
        f"Case {case.name!r}, token {token}, head {head}: the largest magnitude is {largest:.4g}",
    )
    if largest == 0.0:
        if scale == scale and abs(scale) < 1e30 and not bool(small.any()):
            return None
        return Diagnosis(
            "zero_row", f"Case {case.name!r}, token {token}: a row of zeros has the scale {scale:g} and the bytes "
            f"{small[:3].tolist()}, …; 0 / 0 is NaN. It must be zeros, with a finite scale."
        )  # fmt: skip
    for value, code, words in _scales(x, right):
        if abs(scale - value) <= 2e-3 * abs(value):
            return Diagnosis(
                code, f"{start}, so the scale must be {right:.4g} = {largest:.4g} / 127; it is {scale:.4g}: {words}."
            )
    error = (small.double() * scale - x.double()).abs()
    column, limit = int(error.argmax()), right / 2 * 1.01
    if not bool((error <= limit).all()):
        return _say_error(start, x, small, scale, (column, limit, right))
    return None


def _scales(x, right):
    """[(a wrong scale, code, words)]; none of them is the right one for this row."""
    largest = x.abs().max().item()
    table = (
        (127.0 / largest, "scale_inverse", "turned round. pages * scale must give x again"),
        (largest, "scale_largest", "the largest magnitude itself; a byte goes to 127, so divide by 127"),
        (x.max().item() / 127.0, "signed_maximum", "the largest number without its sign is what counts: fabsf first"),
        (x[0].abs().item() / 127.0, "lane_alone", "that of column 0 alone: every lane needs the largest of all 32"),
        (
            largest / 255.0,
            "scale_unsigned",
            "divided by 255, as for bytes from 0 to 255; signed ones go from -127 to 127",
        ),
    )
    return [(v, c, w) for v, c, w in table if abs(v - right) > 5e-3 * right]


def _say_error(start, x, small, scale, where):
    column, limit, right = where
    value, byte = x[column].item(), int(small[column])
    said = (
        f"{start}, scale {scale:.4g}. Column {column} is {value:.4g} and was stored as {byte}, which means "
        f"{byte * scale:.4g}: off by {abs(byte * scale - value):.3g}, and half a scale, {limit:.3g}, is allowed"
    )
    exact = x.double() / scale
    if abs(scale - right) <= 0.01 * right and _mostly(small, exact.trunc()):
        return Diagnosis(
            "truncated", f"{said}. The fraction was cut off: a cast rounds towards 0, rintf to the nearest."
        )
    if abs(scale - right) <= 0.01 * right and _mostly(small, exact.floor()):
        return Diagnosis("truncated", f"{said}. Rounded down: rintf rounds to the nearest.")
    if byte * exact[column].item() < 0 and abs(exact[column].item()) > 127.4:
        return Diagnosis("wrapped", f"{said}. {exact[column]:.4g} is more than a signed byte holds, and wrapped round.")
    if bool((small >= 0).all()) and bool((x < 0).any()):
        return Diagnosis("sign_lost", f"{said}. Numbers below 0 lost their sign.")
    return Diagnosis("error_too_large", f"{said}.")


def _mostly(small, rounded):
    """All but a few columns, in which float and double fall on two sides of a whole number."""
    return float((small.double() == rounded).double().mean()) > 0.9


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one row", 1, 1, schedules=ALL_SCHEDULES),
        _case("several heads", 5, 3, schedules=("forward", "random")),
        _case("numbers below 0", 4, 2, "negative"),
        _case("rows of zeros", 4, 1, "zeros"),
        _case("large numbers", 6, 2, "large"),
        _case("a token that is not stored", 5, 2, not_stored=(2,)),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=lambda case, tensors: {},
    baseline=lambda case, tensors: {},
    rules={},
    accept=_accept,
)

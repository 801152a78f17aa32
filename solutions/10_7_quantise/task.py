"""10.7 To one byte, with a scale for each row: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Ref, Run
from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.ledger.moved import moved
from course_lib.grading.subjects.ledger.share import share
from course_lib.grading.subjects.paged.slots import padding_written

HEAD_DIM = 32

OLD_BYTE, OLD_SCALE = 77, -5.0  # contents of the pools on entry

ALL_SCHEDULES = ("forward", "reverse", "random", "resident")


FAR = 1 << 32  # the first slot that exists in the case with options["far"]

NEGATIVE = (-1, -7, -(1 << 40))  # slots of tokens that are not stored, in turn

CLOSE = 1e-6  # relative, of a scale: largest / 127 and largest * (1 / 127) are two roundings apart at most


def _case(name, num_tokens, num_kv_heads, values="normal", schedules=("forward",), late=False, **options):
    sizes = {"num_tokens": num_tokens, "num_kv_heads": num_kv_heads, "page_size": 4, "num_pages": 3}
    return Case(name, sizes, values, "int8", options, schedules, late)


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
    if case.values == "tiny":
        factor = 1e-30
    if case.values == "smallest":
        x, factor = x / x.abs().amax(dim=2, keepdim=True), 1e-32
    if x.numel() == HEAD_DIM:  # one row: no two wrong scales are alike
        x, factor = _one_row(x), 1.0
    slots = torch.randperm(num_pages * page_size - 1, generator=gen)[:num_tokens] + 1
    if case.options.get("slot_0"):
        slots[0] = 0
    for token in case.options.get("not_stored", ()):
        slots[token] = NEGATIVE[token % 3] if case.options.get("any_negative") else -1
    if case.options.get("far"):
        slots += FAR
    return {"x": x * factor, "slot_mapping": slots}


def _one_row(x):
    """x at most 3 in magnitude, but for four columns: column 0, the largest of the first half, and in the second half
    the largest magnitude and the largest number have magnitudes of their own.
    """
    x = x * (3.0 / x.abs().max())
    x[..., [0, 5, 17, 29]] = torch.tensor([1.0, 3.5, -5.0, 4.5])
    return x


def _run(case, tensors):
    num_tokens, num_kv_heads, page_size, num_pages = case.sizes.values()
    shape = (num_pages, page_size, num_kv_heads)
    outputs = {"pages": ((*shape, HEAD_DIM), "int8"), "scales": (shape, "float32")}
    contents = {
        "pages": torch.full((*shape, HEAD_DIM), OLD_BYTE, dtype=torch.int8),
        "scales": torch.full(shape, OLD_SCALE),
    }
    ahead = FAR * num_kv_heads if case.options.get("far") else 0  # rows
    pools = Ref("pages", before=ahead * HEAD_DIM), Ref("scales", before=ahead)
    arguments = (Ref("x"), *pools, Ref("slot_mapping"))
    grid = (num_kv_heads, num_tokens, 1)
    return Run(case.name, tensors, outputs, arguments, grid=grid, block=(32, 1, 1), contents=contents)


def _accept(case, tensors, outputs):
    """Diagnosis of the first row that is not what it should be, or None."""
    pages, scales = outputs["pages"].flatten(0, 1), outputs["scales"].flatten(0, 1)  # (slots, heads, …)
    x, slots = tensors["x"], tensors["slot_mapping"]
    slots = (slots - FAR if case.options.get("far") else slots).tolist()
    diagnosis = _by_slot(case, pages, scales, x, slots)
    if diagnosis is not None:
        return diagnosis
    for token, slot in enumerate(slots):
        for head in range(x.shape[1] if slot >= 0 else 0):
            stored = pages[slot, head], scales[slot, head].item()
            diagnosis = _by_row(case, (token, head), x, *stored)
            diagnosis = diagnosis or _say_row(case, (token, head), x[token, head], *stored, x[token].abs().max().item())
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
                code = "padding_written" if min(slots) < 0 else "neighbours_touched"
                words = "A negative slot is not stored" if min(slots) < 0 else "No token is mapped to it"
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


def _say_row(case, where, x, small, scale, of_token):
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
    for value, code, words in _scales(x, right, of_token):
        if abs(scale - value) <= 2e-3 * abs(value):
            return Diagnosis(
                code, f"{start}, so the scale must be {right:.4g} = {largest:.4g} / 127; it is {scale:.4g}: {words}."
            )
    error = (small.double() * scale - x.double()).abs()
    column, limit = int(error.argmax()), right / 2 * 1.0005
    if not bool((error <= limit).all()):
        return _say_error(start, x, small, scale, (column, limit, right))
    return _by_scale(start, scale, right)


def _by_scale(start, scale, right):
    """The bytes fit a scale that is not the largest magnitude / 127, but near it."""
    off = abs(scale - right) / right
    if off <= CLOSE:
        return None
    words = "That is more than float32 rounds: was it rounded to half or bfloat16, or kept above a smallest scale?"
    return Diagnosis(
        "scale_rounded",
        f"{start}, so the scale must be {right:.8g} = largest / 127; it is {scale:.8g}, {off:.2g} of it off. {words}",
    )


def _scales(x, right, of_token):
    """[(a wrong scale, code, words)]; none of them is the right one for this row."""
    largest = x.abs().max().item()
    table = (
        (127.0 / largest, "scale_inverse", "turned round. pages * scale must give x again"),
        (of_token / 127.0, "scale_of_the_token", "that of all heads of the token; each row has a scale of its own"),
        (
            x[:16].abs().max().item() / 127.0,
            "half_the_lanes",
            "the largest of the columns 0 to 15: every lane needs the largest of all 32",
        ),
        (largest, "scale_largest", "the largest magnitude itself; a byte goes to 127, so divide by 127"),
        (x.max().item() / 127.0, "signed_maximum", "the largest number without its sign is what counts: fabsf first"),
        (x[0].abs().item() / 127.0, "lane_alone", "that of column 0 alone: every lane needs the largest of all 32"),
        (
            largest / 128.0,
            "scale_128",
            "divided by 128. Then the largest is 128 steps, and 128 does not fit into a signed byte",
        ),
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
    if abs(scale - right) > 0.1 * right and abs(byte) < 127:
        words = f"{said}. The scale must be {right:.4g} = largest / 127"
        return Diagnosis("scale_wrong", f"{words}; it is {scale / right:.3g} times that.")
    if abs(scale - right) <= 0.01 * right and _mostly(small, exact.trunc()):
        return Diagnosis(
            "truncated", f"{said}. The fraction was cut off: a cast rounds towards 0, rintf to the nearest."
        )
    if abs(scale - right) <= 0.01 * right and _mostly(small, exact.floor()):
        return Diagnosis("truncated", f"{said}. Rounded down: rintf rounds to the nearest.")
    if byte * exact[column].item() < 0 and abs(exact[column].item()) > 127.4:
        return Diagnosis("wrapped", f"{said}. {exact[column]:.4g} is more than a signed byte holds, and wrapped round.")
    if not bool(small.any()):
        words = "The whole row was stored as zeros, which is for a row whose largest magnitude is 0"
        return Diagnosis("row_lost", f"{said}. {words}.")
    if bool((small >= 0).all()) and bool((x < 0).any()):
        return Diagnosis("sign_lost", f"{said}. Numbers below 0 lost their sign.")
    return Diagnosis("error_too_large", f"{said}.")


def _mostly(small, rounded):
    """All but a few columns, in which float and double fall on two sides of a whole number."""
    return float((small.double() == rounded).double().mean()) > 0.9


def _explain(fault, case, evidence):
    """Diagnosis of an access out of bounds in a late case, or None."""
    if fault.kind != "out_of_bounds" or not case.case.late:
        return None
    begin = f"Right where slots are small. In the case {case.case.name!r}"
    if case.case.options.get("any_negative"):
        return padding_written(fault, case, begin)
    slot = int(case.inputs["slot_mapping"][0])
    return Diagnosis(
        "int32_overflow",
        f"{begin} token 0 belongs to slot {slot:,}, more than 32 bits hold, and so are the row and the byte that it "
        f"begins at: keep all of them in a long long. ({fault.message})",
        fault.line,
    )


def _traffic(case, ledger):
    """Diagnosis or None: each byte and each scale is written once."""
    rows = (case.sizes["num_tokens"] - len(case.options.get("not_stored", ()))) * case.sizes["num_kv_heads"]
    found = moved(case, ledger, written=rows * (HEAD_DIM + 4), why="each byte and each scale is written once")
    return found or share(case, ledger, stored=4 + 4, why="a block has one row, and a lane at most 4 bytes and a scale")


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one row", 1, 1, schedules=ALL_SCHEDULES),
        _case("several heads", 5, 3, schedules=("forward", "random")),
        _case("numbers below 0", 4, 2, "negative"),
        _case("rows of zeros", 4, 1, "zeros"),
        _case("large numbers", 6, 2, "large"),
        _case("a token that is not stored", 5, 2, not_stored=(2,)),
        _case("slot 0", 3, 2, slot_0=True),
        _case("numbers near 1e-30", 5, 2, "tiny"),
        _case("rows of at most 1e-32", 2, 2, "smallest"),
        _case("other negative slots", 5, 2, not_stored=(1, 2), any_negative=True, late=True),
        _case("slots from 2^32 on", 4, 2, far=True, late=True),
    ),
    make_inputs=_inputs,
    make_run=_run,
    accept=_accept,
    explain=_explain,
    ledger_rule=_traffic,
)

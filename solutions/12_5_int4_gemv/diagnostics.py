"""What wrong products of 12.5 look like, and the traffic of a right answer."""

import torch

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.guesses import by_guess
from course_lib.grading.subjects.ledger.moved import moved
from course_lib.grading.subjects.ledger.share import share

LOW_FIRST = (0, 1, 2, 3, 4, 5, 6, 7)


def packed(numbers):
    """Words of eight numbers (num_rows, num_cols) from 0 to 15, the first in the lowest bits, as int32."""
    words = (numbers.reshape(len(numbers), -1, 8) << (4 * torch.arange(8))).sum(2)
    return torch.where(words >= 1 << 31, words - (1 << 32), words).int()


def weights(case, tensors, *, order=LOW_FIRST, zero=lambda z: z, group_of=None, apply=None, signed=()):
    """W (num_rows, num_cols) in float64; the keywords make mistakes.

    order : the place in its word from which each of eight columns is read
    zero : what becomes of the zeros
    group_of : (columns, group, num_groups) -> the group of each column
    apply : (number, zero, scale) -> weight
    signed : places in a word whose numbers from 8 on are below 0
    """
    num_rows, num_cols, group = case.sizes.values()
    numbers = (tensors["packed"].long()[:, :, None] >> (4 * torch.tensor(order))) & 15
    numbers[:, :, list(signed)] -= 16 * (numbers[:, :, list(signed)] >= 8)
    numbers = numbers.reshape(num_rows, num_cols).double()
    columns, num_groups = torch.arange(num_cols), tensors["scales"].shape[1]
    groups = columns // group if group_of is None else group_of(columns, group, num_groups)
    scale, zeros = (tensors[name].double()[:, groups] for name in ("scales", "zeros"))
    return apply(numbers, zero(zeros), scale) if apply else scale * (numbers - zero(zeros))


def product(case, tensors, **mistake):
    """{"out"} in float64."""
    return {"out": weights(case, tensors, **mistake) @ tensors["x"].double()}


def _first_row(name):
    """The product with the scales, or the zeros, of row 0 in every row."""

    def guess(case, tensors):
        return product(case, tensors | {name: tensors[name][:1].expand_as(tensors[name])})

    return guess


def _rounded_down(least):
    """The product with rows of scales and zeros num_cols // group apart, but at least `least`."""

    def guess(case, tensors):
        num_rows, num_cols, group = case.sizes.values()
        stride, count = max(num_cols // group, least), tensors["scales"].shape[1]
        places = stride * torch.arange(num_rows)[:, None] + torch.arange(count)
        shifted = {name: tensors[name].flatten()[places] for name in ("scales", "zeros")}
        return product(case, tensors | shifted)

    return guess


def _odd(case, tensors):
    """The product with x shifted: columns 8 i + j taken from x[j]."""
    x = tensors["x"][:8].repeat(case.sizes["num_cols"] // 8)
    return product(case, tensors | {"x": x})


_TABLE = (
    ("order_high_first", "It is what comes when the highest four bits of a word are its first number: the lowest are.",
     {"order": (7, 6, 5, 4, 3, 2, 1, 0)}),
    ("order_bytes", "It is what comes when the two halves of each byte are exchanged: the low half comes first.",
     {"order": (1, 0, 3, 2, 5, 4, 7, 6)}),
    ("order_interleaved", "It is what comes with the order 0, 2, 4, 6, 1, 3, 5, 7, in which AWQ packs. Here number j "
     "has the bits 4 j to 4 j + 3.", {"order": (0, 4, 1, 5, 2, 6, 3, 7)}),
    ("order_interleaved", "It is what comes with the order 0, 4, 1, 5, 2, 6, 3, 7. Here number j has the bits 4 j to "
     "4 j + 3.", {"order": (0, 2, 4, 6, 1, 3, 5, 7)}),
    ("zero_missing", "It is what comes without zeros: subtract the zero of the group from each number.",
     {"zero": lambda z: 0 * z}),
    ("zero_constant", "It is what comes with a zero of 8 everywhere: each group has its own.",
     {"zero": lambda z: 0 * z + 8}),
    ("zero_plus_one", "It is what comes with zero + 1, as an old format stored them. Here the zero is the zero.",
     {"zero": lambda z: z + 1}),
    ("zero_sign", "It is what comes when the zero is added: subtract it.", {"zero": lambda z: -z}),
    ("zero_after_scale", "It is what comes with scale * number - zero. The zero is a number of four bits too: scale "
     "the difference.", {"apply": lambda n, z, s: s * n - z}),
    ("scale_missing", "It is what comes without scales.", {"apply": lambda n, z, s: n - z}),
    ("scale_inverse", "It is what comes when the scale divides: multiply by it.",
     {"apply": lambda n, z, s: (n - z) / s}),
    ("group_of_word", "It is what comes when the number of the word is divided by group. group counts columns, and "
     "word i begins at column 8 i.", {"group_of": lambda c, g, n: c // 8 // g}),
    ("group_0", "It is what comes with the scale and zero of group 0 for the whole row.",
     {"group_of": lambda c, g, n: 0 * c}),
    ("group_modulo", "It is what comes when groups alternate: the group of a column is column / group.",
     {"group_of": lambda c, g, n: c % n}),
    ("signed_numbers", "It is what comes when numbers from 8 on are below 0. They go from 0 to 15, and the zero "
     "moves them.",
     {"signed": LOW_FIRST}),
    ("signed_word", "It is what comes when a word is shifted as a signed number: its highest bit fills the place above "
     "its last number. Shift unsigned words, or take the lowest four bits after the shift.", {"signed": (7,)}),
    ("signed_zero", "It is what comes when zeros from 8 on are below 0. They go from 0 to 15.",
     {"zero": lambda z: z - 16 * (z >= 8)}),
)  # fmt: skip


_ROUND_UP = (
    "It is what comes when a row has num_cols / group groups, rounded down. The last group may not be full, and "
    "counts: round up."
)


def diagnose(evidence):
    """Diagnosis of a wrong result, or None."""
    guesses = [(code, words, _guess(mistake)) for code, words, mistake in _TABLE]
    guesses += [
        ("row_0", "It is what comes with the scales of row 0 in every row.", _first_row("scales")),
        ("row_0", "It is what comes with the zeros of row 0 in every row.", _first_row("zeros")),
        ("groups_rounded_down", _ROUND_UP, _rounded_down(0)),
        ("groups_rounded_down", _ROUND_UP, _rounded_down(1)),
        ("x_of_word_0", "It is what comes when each word is multiplied by the first 8 numbers of x.", _odd),
    ]
    return by_guess(evidence, guesses) or _by_place(evidence)


def _guess(mistake):
    return lambda case, tensors: product(case, tensors, **mistake)


def _by_place(evidence):
    """Another number of the word than the first stands in its first column."""
    found = evidence.readings.get("place")
    if found is None or found == 1.0 or found not in range(2, 9):
        return None
    return Diagnosis(
        "order_wrong",
        f"With x 1 in column 8 and 0 elsewhere, and numbers 1 to 8 in each word from the lowest bits on, out is "
        f"{found:.0f} and should be 1: column 8 was multiplied by number {found - 1:.0f} of word 1; it is number 0.",
    )


def bound(case):
    """Fewest bytes: half a byte a weight, a scale and a zero a group, x once, out once."""
    num_rows, num_cols, group = case.sizes.values()
    groups = -(-num_cols // group)
    count = num_rows * (num_cols // 2 + 5 * groups + 4) + 4 * num_cols
    return count, f"{num_rows * num_cols:,} weights of half a byte, {num_rows * groups:,} scales and zeros, x once"


def limit(case):
    """Most bytes that are read: for each word the word, its 8 numbers of x, a scale and a zero."""
    return case.sizes["num_rows"] * case.sizes["num_cols"] // 8 * (4 + 32 + 4 + 1)


def once(case, ledger):
    """Diagnosis or None: a word is read once, and so is what belongs to it; the lanes share the row."""
    num_rows, num_cols, _ = case.sizes.values()
    why = "a word, its 8 numbers of x, a scale and a zero are read once, a sum is written once"
    found = moved(case, ledger, read=limit(case), written=4 * num_rows, why=why)
    words = -(-num_cols // 8 // 32) + 3
    return found or share(case, ledger, loaded=41 * words, why=f"a lane has at most {words} of the row's words")

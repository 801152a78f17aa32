"""Which slip in the layout of mma.m16n8k16 gives this wrong output: known slips, carried out and compared.

A product by fragments is three tables: where a lane reads its numbers of a, where those of b, where it writes. Each
slip below is one table with one thing different. The judge computes what a kernel with that table would have written.

May import: verdict, evidence (as data), subjects.matmul.diagnostics, torch.
"""

import functools
from dataclasses import dataclass
from itertools import product

import torch

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.matmul.diagnostics import diagnose_matmul

LANE = torch.arange(32)
G, T = LANE // 4, LANE % 4
TILE_K = 16
HALVES = "the two halves of each register are exchanged in a or in b: the smaller k belongs into the low 16 bits"


@dataclass(frozen=True)
class Table:
    """Where the 32 lanes find their numbers: for a and b (register, half) -> indices, for out (number) -> indices."""

    code: str
    words: str
    indices: object  # callable, (i, half) -> (row or k, k or column), each a tensor of 32


# fmt: off
A_TABLES = (
    Table("", "", lambda i, h: (G + i % 2 * 8, 2 * T + i // 2 * 8 + h)),
    Table("a_registers", "a[1] and a[2] are exchanged: a[1] holds row g + 8, a[2] row g and k 2t + 8",
          lambda i, h: (G + i // 2 * 8, 2 * T + i % 2 * 8 + h)),
    Table("halves", HALVES,
          lambda i, h: (G + i % 2 * 8, 2 * T + i // 2 * 8 + 1 - h)),
    Table("a_lanes", "for a, g and t are exchanged: g = lane / 4 names the row, t = lane % 4 the pair of k",
          lambda i, h: (LANE % 8 + i % 2 * 8, 2 * (LANE // 8) + i // 2 * 8 + h)),
    Table("a_rows", "all four a registers come from row g: a[1] and a[3] belong to row g + 8",
          lambda i, h: (G, 2 * T + i // 2 * 8 + h)),
    Table("a_k", "all four a registers come from k 2t, 2t + 1: a[2] and a[3] belong to k 2t + 8, 2t + 9",
          lambda i, h: (G + i % 2 * 8, 2 * T + h)),
    Table("a_neighbours", "rows of a that lie side by side were taken, 2g and 2g + 1: they are g and g + 8",
          lambda i, h: (2 * G + i % 2, 2 * T + i // 2 * 8 + h)),
    Table("a_pairs", "the two numbers of an a register are 4 or 8 apart in k: they are neighbours, 2t and 2t + 1",
          lambda i, h: (G + i % 2 * 8, T + 4 * h + i // 2 * 8)),
    Table("a_turned", "a was read as if it were stored by columns: element (row, k) at index k * size_k + row",
          lambda i, h: (2 * T + i // 2 * 8 + h, G + i % 2 * 8)),
)
B_TABLES = (
    Table("", "", lambda i, h: (2 * T + 8 * i + h, G)),
    Table("b_registers", "b[0] and b[1] are exchanged, or a[0], a[1] with a[2], a[3]: the first hold k 2t, 2t + 1",
          lambda i, h: (2 * T + 8 - 8 * i + h, G)),
    Table("halves", HALVES,
          lambda i, h: (2 * T + 8 * i + 1 - h, G)),
    Table("b_lanes", "for b, g and t are exchanged: g = lane / 4 names the column, t = lane % 4 the pair of k",
          lambda i, h: (2 * (LANE // 8) + 8 * i + h, LANE % 8)),
    Table("b_k", "both b registers come from k 2t, 2t + 1: b[1] belongs to k 2t + 8, 2t + 9",
          lambda i, h: (2 * T + h, G)),
    Table("b_pairs", "the two numbers of a b register are not neighbours in k: they are 2t and 2t + 1",
          lambda i, h: (T + 4 * h + 8 * i, G)),
    Table("b_along_rows", "b was read along its rows, as a is: a register of b holds two numbers of a column",
          lambda i, h: (G + 8 * i, 2 * T + h)),
)
C_TABLES = (
    Table("", "", lambda i, h: (G + i // 2 * 8, 2 * T + i % 2)),
    Table("c_rows", "acc[1] and acc[2] are exchanged: acc[0], acc[1] are neighbours in row g, the others in row g + 8",
          lambda i, h: (G + i % 2 * 8, 2 * T + i // 2)),
    Table("c_lanes", "for out, g and t are exchanged: g = lane / 4 names the row, t = lane % 4 the pair of columns",
          lambda i, h: (LANE % 8 + i // 2 * 8, 2 * (LANE // 8) + i % 2)),
    Table("c_columns", "the columns of a lane are t and t + 4: they are neighbours, 2t and 2t + 1",
          lambda i, h: (G + i // 2 * 8, T + 4 * (i % 2))),
    Table("c_pair_order", "the two columns of a lane are exchanged: acc[0] is column 2t, acc[1] column 2t + 1",
          lambda i, h: (G + i // 2 * 8, 2 * T + 1 - i % 2)),
    Table("c_neighbours", "the rows of a lane are 2g and 2g + 1: they are g and g + 8",
          lambda i, h: (2 * G + i // 2, 2 * T + i % 2)),
)
# fmt: on


def diagnose_fragments(evidence):
    """Diagnosis of a failing product by fragments, or None."""
    looks = (_by_tables, _by_strides, _by_type, _by_numbers, _by_products, _by_place)
    return next((found for look in looks if (found := look(evidence)) is not None), None)


def _by_tables(evidence):
    """One or two tables with a slip explain the output of a single mma; where that is right, the tables are."""
    case = _first(evidence, lambda sizes: tuple(sizes.values()) == (16, 8, TILE_K))
    if case is None:
        return None
    out, strides = case.first.outputs["out"], (case.case.sizes["size_k"], 8, 8)
    combined = sorted(product(A_TABLES, B_TABLES, C_TABLES), key=_slips)
    for tables in combined[1:]:
        written = _written(case.inputs, tables, strides)
        if _same(written, out) and not _same(written, case.ref["out"]):  # two slips may undo each other
            return _say([table for table in tables if table.code], case)
    return None


def _slips(tables):
    return sum(bool(table.code) for table in tables)


def _say(slips, case):
    said = "; and ".join(slip.words for slip in slips)
    if len(slips) == 3 and all(slip.code.endswith("_lanes") for slip in slips):
        return Diagnosis(
            "lanes_exchanged",
            "Exactly what comes out when g and t are exchanged throughout: g = lane / 4, from 0 to 7, names rows of a "
            f"and out and columns of b; t = lane % 4 names pairs. (Case: {case.case.name}.)",
        )
    return Diagnosis(slips[0].code, f"Exactly this output comes when {said}. (Case: {case.case.name}.)")


def _by_strides(evidence):
    """Right for one tile, wrong where rows are longer than a tile: two rows are not as far apart as it thinks."""
    case = _first(evidence, lambda sizes: sizes["size_n"] > 8)
    if case is None or not evidence.passing():
        return None
    size_m, size_n, size_k = case.case.sizes.values()
    right, plain = (size_k, size_n, size_n), (A_TABLES[0], B_TABLES[0], C_TABLES[0])
    for number, name in enumerate(("a", "b", "out")):
        for stride in sorted({8, 16, size_m, size_n, size_k} - {right[number]}):
            strides = tuple(stride if at == number else value for at, value in enumerate(right))
            if _same(_written(case.inputs, plain, strides), case.first.outputs["out"]):
                return Diagnosis(
                    "leading_dimension",
                    f"Exactly this output comes when two rows of {name} are taken to lie {stride} numbers apart; in "
                    f"the "
                    f"case {case.case.name!r} ({size_m} x {size_n} x {size_k}) it is {right[number]}.",
                )
    return None


def _by_type(evidence):
    """The bits of 1.0 in half are those of 2 ** -7 in bfloat16."""
    terms = evidence.readings.get("terms")
    size_k = next(probe.case.sizes["size_k"] for probe in evidence.exercise.probes if probe.name == "terms")
    if terms is None or not bool((terms == size_k * 2.0**-14).all()):
        return None
    return Diagnosis(
        "bfloat16",
        f"With a and b full of ones, out is {size_k} * 2^-14 in place of {size_k}: the bits of the half 1.0 were read "
        "as bfloat16, where they mean 2^-7. Names of mma end in the type of a and b: _f16.",
    )


def _by_numbers(evidence):
    """All that is wrong comes from subnormal, or from infinite, numbers: they were replaced in a, in b or in both."""
    failing = evidence.failing()
    if not all(case.ran for case in failing):
        return None
    for values, code, which, what, replaced in (
        ("subnormal halves", "subnormal_lost", "numbers of {} below 2^-14 (subnormal halves)", "0", _without_subnormal),
        ("infinities that meet", "infinity_lost", "infinite numbers of {}", "65504", lambda x: x.clamp(-65504, 65504)),
    ):
        case = next((case for case in failing if case.case.values == values), None)
        for name in ("a", "b", "a and b") if case else ():
            if all(_comes_of(each, replaced, name.split(" and ")) for each in failing):
                said = f"{which.format(name)} are taken for {what}"
                return Diagnosis(code, f"Exactly this output comes when {said}. (Case: {case.case.name}.)")
    return None


def _comes_of(case, replaced, names):
    """Whether the output is the product of a and b after numbers of these were replaced."""
    a, b = (replaced(x) if name in names else x for name, x in ((n, case.inputs[n].double()) for n in ("a", "b")))
    return torch.allclose(a @ b, case.first.outputs["out"].double(), rtol=1e-3, atol=1e-5, equal_nan=True)


def _without_subnormal(x):
    return torch.where(x.abs() < 2.0**-14, 0.0, x)


def _by_products(evidence):
    return diagnose_matmul(evidence, TILE_K)


def _by_place(evidence):
    """A wrong number of out that is right for another element."""
    case = _first(evidence, lambda sizes: True)
    if case is None:
        return None
    out, ref = case.first.outputs["out"].double(), case.ref["out"]
    wrong = case.comparisons["out"].wrong
    row, col = (int(i) for i in wrong.nonzero()[0])
    same = ((ref - out[row, col]).abs() < 1e-4).nonzero()
    if not len(same) or bool((out - ref).abs().max() < 0.1):  # all of it nearly right: a matter of rounding
        return None
    from_row, from_col = same[0].tolist()
    return Diagnosis(
        "wrong_place",
        f"out[{row}][{col}] holds the number that belongs to out[{from_row}][{from_col}]; {int(wrong.sum())} of "
        f"{wrong.numel()} numbers are wrong in the case {case.case.name!r}. The products are right, the stores are "
        f"not.",
    )


def _first(evidence, fits):
    """The smallest failing case of normal numbers whose sizes fit and which has an output."""
    failing = [case for case in evidence.failing("normal") if case.ran and fits(case.case.sizes)]
    return failing[0] if failing else None


def _same(written, out):
    return written is not None and bool(torch.allclose(written, out.double(), rtol=1e-5, atol=1e-5, equal_nan=True))


def _written(tensors, tables, strides):
    """What a kernel with these tables and row distances writes, (size_m, size_n) float64; None when out of bounds."""
    a, b = tensors["a"].double(), tensors["b"].double()
    (size_m, size_k), size_n = a.shape, b.shape[1]
    out = torch.full((size_m * size_n,), float("nan"), dtype=torch.float64)
    for top, left in product(range(0, size_m, 16), range(0, size_n, 8)):
        total = torch.zeros(16, 8, dtype=torch.float64)
        for k_start in range(0, size_k, TILE_K):
            a_tile = _fetched(a, tables[0], 4, strides[0], top * size_k + k_start, A_TABLES[0], (16, 16))
            b_tile = _fetched(b, tables[1], 2, strides[1], k_start * strides[1] + left, B_TABLES[0], (16, 8))
            if a_tile is None or b_tile is None:
                return None
            total += a_tile @ b_tile
        for i in range(4):
            row, col = C_TABLES[0].indices(i, 0)
            to_row, to_col = tables[2].indices(i, 0)
            at = top * size_n + left + to_row * strides[2] + to_col
            if int(at.max()) >= len(out):
                return None
            out[at] = total[row, col]
    return out.reshape(size_m, size_n)


def _fetched(matrix, table, registers, stride, start, right, shape):
    """The tile as the tensor core sees it, when the lanes fetch by `table`; None when an index is beyond the matrix."""
    flat, tile = matrix.flatten(), torch.zeros(shape, dtype=torch.float64)
    row, col = _of_all_registers(table, registers)
    at = start + row * stride + col
    if int(at.max()) >= len(flat):
        return None
    tile[_of_all_registers(right, registers)] = flat[at]
    return tile


@functools.cache
def _of_all_registers(table, registers):
    """Where the lanes find the numbers of all registers, register by register and half by half: two tensors."""
    places = [table.indices(i, half) for i, half in product(range(registers), range(2))]
    return tuple(torch.cat(axis) for axis in zip(*places, strict=True))

"""What stands in a descriptor's fields, and what should: the first step whose descriptor is wrong, in bytes.

May import: verdict, evidence (as data).
"""

from dataclasses import dataclass

from course_lib.grading.report.verdict import Diagnosis

PANEL_ROW, STEP_BYTES = 128, 32
STRIDE = 8 * PANEL_ROW
SWIZZLES = ("none", "128 bytes", "64 bytes", "32 bytes")
_USED = 0x3FFF | 0x3FFF << 16 | 0x3FFF << 32 | 7 << 49 | 3 << 62


@dataclass(frozen=True)
class Operand:
    """One operand of one block: which it is, how its tile lies, where it begins."""

    name: str  # "a", "b"
    is_mn: bool
    panel_rows: int
    rows: int  # that the product reads
    start: int  # address in shared memory, bytes

    @property
    def words(self):
        """The operand in words."""
        way = "k down the columns" if self.is_mn else "k along the rows"
        return f"operand {self.name} ({way}, panels of {self.panel_rows} rows)"

    def offset(self, step):
        """Bytes from the operand's beginning to step `step` of k."""
        if self.is_mn:
            return step * 16 * PANEL_ROW
        return step // 4 * self.panel_rows * PANEL_ROW + step % 4 * STEP_BYTES


def explain(_fault, _case, evidence):
    """Diagnosis of a finding: nearly always a descriptor whose fields say why."""
    return diagnose_fields(evidence)


def diagnose_fields(evidence):
    """Diagnosis of the first wrong descriptor of the smallest failing case, or None."""
    for case in sorted(evidence.failing(), key=lambda case: case.case.sizes["size_k"] * case.elements):
        outputs = case.first.outputs
        if not outputs or "descriptors" not in outputs or tuple(outputs["starts"].shape[1:]) != (2,):
            continue
        found = _first_wrong(case, outputs["descriptors"].tolist(), outputs["starts"].tolist())
        if found is not None:
            return Diagnosis(found[0], f"{found[1]} (Case: {case.case.name}.)")
    return None


def _operands(case, starts):
    options, sizes = case.case.options, case.case.sizes
    size_k = sizes["size_k"]
    a_rows, b_rows = (
        size_k if options[key] else rows for key, rows in (("a_mn", sizes["a_rows"]), ("b_mn", options["b_rows"]))
    )
    a = Operand("a", bool(options["a_mn"]), a_rows, 64, starts[0])
    return a, Operand("b", bool(options["b_mn"]), b_rows, sizes["block_n"], starts[1])


def _first_wrong(case, descriptors, starts):
    for block, of_block in enumerate(descriptors):
        for number, operand in enumerate(_operands(case, starts[block])):
            for step, pair in enumerate(of_block):
                found = _wrong(operand, step, pair[number] % 2**64)
                if found is not None:
                    return found
    return None


def _wrong(operand, step, bits):
    """(code, sentence) of one descriptor, or None; fields that no step changes come first."""
    at = f"Step {step} of {operand.words}"
    looks = (_swizzle, _stride, _leading, _begins, _stray)
    return next((found for look in looks if (found := look(operand, step, bits, at)) is not None), None)


def _swizzle(_operand, _step, bits, at):
    found, base = bits >> 62, bits >> 49 & 7
    if found != 1:
        return "wrong_swizzle", (
            f"{at}: bits 62 and 63 hold {found}, a swizzle of {SWIZZLES[found]}; the tile lies with that of 128 bytes, "
            "which is 1."
        )
    if base:
        return "base_offset", (
            f"{at}: bits 49 to 51, the base offset, hold {base}. Every pattern of this tile begins at a multiple of "
            "1,024: "
            "they are 0."
        )
    return None


def _stride(_operand, _step, bits, at):
    field = bits >> 32 & 0x3FFF
    if field == STRIDE // 16:
        return None
    start = f"{at}: bits 32 to 45, the stride, hold {field}, which means {16 * field:,} bytes"
    if field == STRIDE & 0x3FFF:
        return "not_in_sixteenths", f"{start}. A field counts units of 16 bytes: shift the bytes right by 4."
    return "wrong_stride", f"{start}. The next 8 rows of the tile are 8 * 128 = {STRIDE:,} bytes further."


def _leading(operand, _step, bits, at):
    field, right = bits >> 16 & 0x3FFF, operand.panel_rows * PANEL_ROW
    if not operand.is_mn or operand.rows <= 64 or field == right // 16:
        return None
    start = f"{at}: bits 16 to 29, the leading dimension, hold {field}, which means {16 * field:,} bytes"
    if field == right & 0x3FFF:
        return "not_in_sixteenths", f"{start}. A field counts units of 16 bytes: shift the bytes right by 4."
    return "wrong_leading", (
        f"{start}. The product reads {operand.rows} columns, so it goes from panel to panel: {operand.panel_rows} rows "
        "of "
        f"128 bytes, {right:,} bytes further."
    )


def _begins(operand, step, bits, at):
    field, right = bits & 0x3FFF, operand.start + operand.offset(step)
    if field == right >> 4 & 0x3FFF:
        return None
    got = (field << 4) - operand.start
    if step == 0:
        return _address(operand, field, at)
    start = f"{at} begins at byte {got:,} of the operand; it must be byte {operand.offset(step):,}"
    if operand.is_mn:
        return "wrong_step", f"{start}: 16 of k are 16 rows of 128 bytes."
    if got == step * STEP_BYTES:
        return "panel_not_crossed", (
            f"{start}. A panel has 64 columns, four steps of 16; then k goes on in the next panel, "
            f"{operand.panel_rows} "
            "rows of 128 bytes further."
        )
    if step % 4 == 0 and got != 0:
        return "wrong_panel", (
            f"{start}: the next panel begins after all rows of this one, {operand.panel_rows} * 128 bytes."
        )
    return "wrong_step", f"{start}: 16 numbers of 2 bytes along the row are 32 bytes, four times in a panel."


def _address(operand, field, at):
    start = f"{at}: bits 0 to 13 hold {field}; the operand begins at byte {operand.start:,} of shared memory"
    if field == (operand.start & 0x3FFF) >> 4:  # asked first: at a multiple of 16 KB the next one fits too
        return "address_cut", f"{start}: its lowest 18 bits count, and 4 of them are 0. Shift first, then keep 14 bits."
    if field == operand.start & 0x3FFF:
        return "not_in_sixteenths", f"{start}. A field counts units of 16 bytes: shift the address right by 4."
    return "wrong_address", f"{start}, and {operand.start:,} / 16 = {operand.start >> 4}."


def _stray(_operand, _step, bits, at):
    if not bits & ~_USED & (2**64 - 1):
        return None
    where = ", ".join(str(bit) for bit in range(64) if bits & ~_USED & 1 << bit)
    return "stray_bits", f"{at}: bits {where} belong to no field and are not 0."

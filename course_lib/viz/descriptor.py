"""The 64-bit descriptor of a wgmma operand in shared memory: its fields, and a picture of its bits.

Source: PTX ISA, "Matrix-descriptor-format" of wgmma.

May import: style, drawing, matplotlib.
"""

from dataclasses import dataclass

from .drawing import box, canvas, label
from .style import BLUE, GREEN, GREY, HATCHES, INK, ORANGE, PALE, PURPLE, SKY, Picture

SWIZZLES = ("no swizzle", "swizzle of 128 bytes", "swizzle of 64 bytes", "swizzle of 32 bytes")  # by the field's value
_FIELDS = (  # name, first bit, number of bits, bytes of one unit
    ("address", 0, 14, 16),
    ("leading_bytes", 16, 14, 16),
    ("stride_bytes", 32, 14, 16),
    ("base_offset", 49, 3, 1),
    ("swizzle", 62, 2, 1),
)
_LOOKS = {
    name: {"facecolor": colour, "hatch": hatch}
    for (name, *_), colour, hatch in zip(_FIELDS, (BLUE, ORANGE, GREEN, PURPLE, SKY), HATCHES, strict=True)
}
_WORDS = {"address": "address", "leading_bytes": "leading", "stride_bytes": "stride", "base_offset": "base offset"}


@dataclass(frozen=True)
class Descriptor:
    """The decoded fields.

    Attributes
    ----------
    address : bytes, of the operand's first element in shared memory
    leading_bytes, stride_bytes : bytes; what they mean depends on the swizzle and on the operand's major direction
    base_offset : int, 0 to 7; 0 where the swizzle's pattern begins at a multiple of its own length
    swizzle : int, the index of SWIZZLES
    stray_bits : tuple of int, bits that belong to no field and are set; they must be 0
    """

    address: int
    leading_bytes: int
    stride_bytes: int
    base_offset: int
    swizzle: int
    stray_bits: tuple

    def sentence(self):
        """The fields in words, and what is wrong with them."""
        aligned = 1024 if self.swizzle == 1 else 16
        words = [
            f"operand at shared memory address {self.address:,} (0x{self.address:x})",
            f"leading {self.leading_bytes:,} bytes",
            f"stride {self.stride_bytes:,} bytes",
            f"base offset {self.base_offset}",
            SWIZZLES[self.swizzle],
        ]
        if self.swizzle == 1:
            words.append(f"{self.address % aligned:,} bytes past a multiple of {aligned:,}")
        if self.stray_bits:
            words.append(f"bits {', '.join(map(str, self.stray_bits))} are set and must be 0")
        return "; ".join(words) + "."


def describe_descriptor(value):
    """Decode a descriptor.

    Parameters
    ----------
    value : int, 64 bits, as wgmma_descriptor of common/wgmma.cuh returns it

    Returns
    -------
    Descriptor; its `sentence()` says the same in words

    Raises
    ------
    ValueError   the value needs more than 64 bits, or is negative
    """
    if not 0 <= value < 1 << 64:
        raise ValueError(f"A descriptor has 64 bits, got {value}; pass it as an unsigned number.")
    fields = {name: (value >> first & (1 << count) - 1) * unit for name, first, count, unit in _FIELDS}
    stray = tuple(bit for bit in range(64) if value >> bit & 1 and field_of(bit) is None)
    return Descriptor(**fields, stray_bits=stray)


def field_of(bit):
    """The field that a bit belongs to, None between the fields."""
    return next((name for name, first, count, _ in _FIELDS if first <= bit < first + count), None)


def descriptor_picture(value):
    """The 64 bits with their fields: two rows of 32, the highest bit first, and the decoded fields below each row.

    Parameters
    ----------
    value : int, as in `describe_descriptor`
    """
    descriptor = describe_descriptor(value)
    figure = Picture(8.4, 2.75, f"The wgmma descriptor 0x{value:016x}: {descriptor.sentence()}")
    axes = figure.subplots()
    canvas(axes, (-0.2, 32.2), (5.8, -0.75), title=f"0x{value:016x}")
    for row in range(2):
        for place in range(32):
            bit = 63 - 32 * row - place
            _draw_bit(axes, (place, 3.3 * row), bit, value >> bit & 1)
        for name, first, count, unit in _FIELDS:
            if first // 32 == 1 - row:
                right = 63 - 32 * row - first + 1
                _draw_field(axes, (right - count, right), 3.3 * row, _field_text(descriptor, name, unit))
    return figure


def _draw_bit(axes, corner, bit, digit):
    """One cell; a bit of a field has the field's colour and hatch, any other is grey."""
    name = field_of(bit)
    look = {**_LOOKS[name], "alpha": 0.5} if name else {"facecolor": PALE}
    box(axes, corner, 1, 1, edgecolor=INK, linewidth=0.6, **look)
    middle = (corner[0] + 0.5, corner[1] + 0.5)
    label(axes, middle, f"{digit}", size=8, pad=0.6 if name and look["hatch"] else None)
    label(axes, (middle[0], corner[1] - 0.3), f"{bit}", size=6.5, color=GREY)


def _draw_field(axes, span, top, words):
    """A bracket under the bits of one field, and its value; at the left edge the words begin at the edge."""
    left, right = span[0] + 0.1, span[1] - 0.1
    axes.plot([left, left, right, right], [top + 1.1, top + 1.3, top + 1.3, top + 1.1], color=INK, linewidth=1)
    look = {"ha": "left"} if left < 1 else {}
    label(axes, (left if left < 1 else (left + right) / 2, top + 1.9), words, size=8, **look)


def _field_text(descriptor, name, unit):
    """Two short lines: the field's name, and its number in bytes."""
    number = getattr(descriptor, name)
    if name == "swizzle":
        return f"swizzle {number}:\n{SWIZZLES[number].replace('swizzle of ', '')}"
    if unit == 1:
        return f"{_WORDS[name]}\n{number}"
    return f"{_WORDS[name]} / 16 = {number // 16:,}\n{number:,} bytes"

"""Five loads of a warp, how many sectors each touches, and what a wrong count was probably thinking of."""

from dataclasses import dataclass

from course_lib.grading.report.verdict import Diagnosis

WARP_SIZE = 32
SECTOR_BYTES = 32


@dataclass(frozen=True)
class Pattern:
    """One load: its text, and the byte address of each lane, from the start of the array."""

    load: str
    addresses: tuple[int, ...]
    size: int  # bytes of one lane

    @property
    def bytes_wanted(self):
        """The different bytes, sorted."""
        return sorted({address + byte for address in self.addresses for byte in range(self.size)})

    @property
    def sectors(self):
        """The numbers of the sectors touched, sorted: the closed formula is byte // 32, each once."""
        return sorted({byte // SECTOR_BYTES for byte in self.bytes_wanted})


def _pattern(load, place, size=4):
    return Pattern(load, tuple(size * place(lane) for lane in range(WARP_SIZE)), size)


PATTERNS = {
    "one_further": _pattern("x[lane + 1]", lambda lane: lane + 1),
    "every_third": _pattern("x[3 * lane]", lambda lane: 3 * lane),
    "backwards": _pattern("x[31 - lane]", lambda lane: 31 - lane),
    "vectors": _pattern("x4[lane]", lambda lane: lane, size=16),
    "repeated": _pattern("x[lane / 8]", lambda lane: lane // 8),
}


def accept_count(case, _inputs, outputs):
    """None when the count of this case's pattern is right; otherwise a Diagnosis with the bytes and the sectors."""
    pattern = PATTERNS[case.values]
    got, right = outputs[case.values].item(), len(pattern.sectors)
    if got == right:
        return None
    wanted, first, last = pattern.bytes_wanted, pattern.sectors[0], pattern.sectors[-1]
    code, thought = _thought(case.values, got, right, len(wanted))
    start = f"{case.values} = {got:g}, but {pattern.load} touches {right} sector{'s' if right > 1 else ''}: "
    reads = f"the warp reads {len(wanted)} different bytes between byte {wanted[0]} and byte {wanted[-1]}"
    where = f"sector {first}" if first == last else f"the sectors {first} to {last}"
    return Diagnosis(code, f"{start}{reads}, in {where}. {thought}".strip())


def _thought(name, got, right, wanted):
    """(code, sentence): the slip that leads to this count, where one is known."""
    if name == "one_further" and got == 4:
        return "alignment_forgotten", "Its 128 bytes would fit into 4 sectors if they began at a multiple of 32."
    if name == "every_third" and got == 4:
        return "gaps_forgotten", "Sectors travel whole: the bytes between the lanes' numbers come along."
    if name == "vectors" and got == 4:
        return "size_forgotten", "A float4 has 16 bytes, so the warp asks for 512 bytes, not for 128."
    if name == "repeated" and got == 4:
        return "repeats_counted", "Eight lanes want the same number; it travels once."
    if name == "backwards" and got in (5, 32):
        return "order_counted", "Which lane takes which number makes no difference; what they want together does."
    if got == WARP_SIZE:
        return "one_a_lane", "That would be one sector a lane; here several lanes find their bytes in the same sector."
    if got == SECTOR_BYTES * right:
        return "in_bytes", "That is the number of bytes that travel; a sector has 32."
    if got == wanted:
        return "in_bytes", "That is the number of bytes that the warp wants; a sector has 32, and travels whole."
    if got == -(-right // 4):
        return "in_lines", "That counts pieces of 128 bytes, a cache line; a sector is a quarter of one."
    return "miscounted", ""

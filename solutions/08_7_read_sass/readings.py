"""The twelve numbers, read from the listings, and what a wrong one was read from."""

from dataclasses import dataclass, field

from .listing import read, shape

A, B, C = read("a"), read("b"), read("c")
WITH_K, WITH_V = r"HGMMA.*, gdesc\[UR\d+\], (RZ|R\d+)", r"HGMMA.*tnspB"
EXP2, ARRIVE = "MUFU.EX2", "WARPGROUP.ARRIVE"
WAIT_1, WAIT_0 = r"DEPBAR.LE gsb0, 0x1", r"DEPBAR.LE gsb0, 0x0"


@dataclass(frozen=True)
class Question:
    """A number, where it is read, and known misreadings: value -> (code, words). `line`: it is a line of this "
    "listing."""

    name: str
    right: int
    where: str
    misread: dict = field(default_factory=dict)
    line: str = ""


def _between(pattern, first, last):
    return sum(first < number < last for number in A.lines(pattern))


def _registers(pattern):
    """Operand of a USETMAXREG: (its number, the digits as they are written)."""
    digits = A.code[A.lines(pattern, loop=False)[0]].split("0x")[1].split()[0]
    return int(digits, 16), digits


def _loads():
    return A.lines("UTMALDG", loop=False)


def _products():
    """Shapes and counts of a's products."""
    first, second = (A.lines(pattern) for pattern in (WITH_K, WITH_V))
    _, keys, k = shape(A.code[first[0]])
    rows, head_dim, _ = shape(A.code[second[0]])
    every, with_k = A.count("HGMMA", loop=False), A.count(WITH_K, loop=False)
    return (
        Question("keys", keys, "the n of 64 x n x 16 where both operands are descriptors: q k^T has a column a key", {
            head_dim: ("other_product", "That is the n of the product with V, whose columns are those of head_dim "
                "(and 64 rows is the m of every wgmma)."),
            k: ("k_of_a_step", "That is the k of one instruction."),
            len(first) * k: ("other_product", "That is head_dim: four steps of 16 along the rows of q and k."),
        }),
        Question("head_dim", head_dim, "the n of the product whose left operand is in registers (weights times V)", {
            keys: ("other_product", "That is the n of the product with K, which has a column for each key."),
            k: ("k_of_a_step", f"That is the k of one instruction; the product with K takes {len(first)} of them."),
            rows * 2: ("two_products", "The registers of two accumulators were added."),
        }),
        Question("products", len(first) + len(second), "HGMMA from the label of the loop to its branch back", {
            every: ("copies_counted", "Those are all HGMMA of the kernel. The first tile's product with K and the "
                "last product with V have copies outside the loop."),
            len(first): ("one_product", "A step has so many products with K alone, and the whole kernel so many "
                "WARPGROUP.ARRIVE. A step also multiplies weights by V."),
            len(second): ("one_product", "A step has so many products with V alone, and so many groups, of which "
                "gsb0 marks the last product. Count the HGMMA of both."),
            with_k: ("copies_counted", "Those are all products with K of the kernel, in and above the loop."),
        }),
    )  # fmt: skip


def _waits():
    """The waits of a, and what is between them."""
    [one], [zero] = A.lines(WAIT_1), A.lines(WAIT_0)
    outside = {line: ("outside_the_loop", "That wait is outside the loop, and leaves nothing in flight.")
               for line in A.lines(WAIT_0, loop=False) if line != zero}  # fmt: skip
    every, here, under = A.count(EXP2, loop=False), A.count(EXP2), _between(EXP2, one, zero)
    alpha = 2  # rows of a thread
    return (
        Question("wait", one, "the DEPBAR of the loop whose last operand is 0x1: groups that may stay in flight", {
            zero: ("wait_0", "Its operand is 0x0: no group stays in flight."), **outside,
        }, line="a"),
        Question("exponentials", here, "MUFU.EX2 from the label to the branch back", {
            every: ("copies_counted", "Those are all of the kernel: the first tile, above the loop, has its own copy."),
            here - alpha: ("alpha_forgotten", "That is one a weight. Each thread also makes alpha for its two rows."),
            here + alpha: ("alpha_twice", "The two factors alpha are among them already."),
            0: ("no_exponentials", "Exponentials are MUFU.EX2."),
        }),
        Question("hidden", under, "MUFU.EX2 between the wait with 0x1 and the wait with 0x0 of the loop", {
            here: ("as_in_the_source", "That is the order of the source, where the softmax is above the second "
                "wait. ptxas moved the wait up: look for the line of the first MUFU.EX2 of the loop."),
            here - alpha: ("as_in_the_source", "That is the order of the source. ptxas moved the wait up: look for "
                "the line of the first MUFU.EX2 of the loop."),
            every: ("copies_counted", "Those are all of the kernel."),
            alpha: ("as_in_the_source", "Not even the two factors alpha: compare the lines."),
        }),
    )  # fmt: skip


def _roles():
    """Registers and copies of a."""
    (taken, taken_text), (given, given_text) = _registers("TRY_ALLOC"), _registers("DEALLOC")
    q_line, k_line, v_line = _loads()
    expects = A.lines(r"SYNCS.ARRIVE.TRANS64 ", loop=False)
    return (
        Question("consumer", taken, "the operand of USETMAXREG.TRY_ALLOC, which waits for registers", {
            given: ("roles_swapped", "That is what DEALLOC keeps: the producer gives registers away."),
            **_misread_digits(taken_text, taken),
        }),
        Question("producer", given, "the operand of USETMAXREG.DEALLOC", {
            taken: ("roles_swapped", "That is what TRY_ALLOC asks for: the consumers."),
            **_misread_digits(given_text, given),
        }),
        Question("q_load", q_line, "the UTMALDG outside the producer's loop: Q is loaded once, into a buffer that "
            "is never released", {
            k_line: ("tile_load", "That one is in the producer's loop, after a try-wait: K of a tile."),
            v_line: ("tile_load", "That one is in the producer's loop, after the second try-wait: V of a tile."),
            **{line: ("barrier_not_load", "That is the arrival that announces the bytes.") for line in expects},
        }, line="a"),
    )  # fmt: skip


def _slow():
    """Serialisation of b, moves of c."""
    arrives, steps, moves = B.count(ARRIVE), C.count(WITH_K), C.count("R2UR")
    return (
        Question("arrives", arrives, "WARPGROUP.ARRIVE of b from the label of its loop to the branch back", {
            B.count(ARRIVE, loop=False): ("copies_counted", "Those are all of b; the loop has half of them."),
            A.count(ARRIVE): ("listing_a", "That is the loop of a, which is not serialised."),
            A.count(ARRIVE, loop=False): ("listing_a", "Those are all of a, which is not serialised."),
            B.count("ARRIVE"): ("mbarriers_counted", f"The loop's SYNCS.ARRIVE are {B.count('SYNCS.ARRIVE')}, and they "
                "arrive at an mbarrier; so many WARPGROUP.ARRIVE are below the loop, too, for the last product. Leave "
                "out both."),
        }),
        Question("serialised", 1, "each HGMMA of b has an ARRIVE, a group (gsb0) and a wait of its own", {
            0: ("not_serialised", "In a one WARPGROUP.ARRIVE precedes each product of several HGMMA, and the "
                "loop's first wait leaves one in flight."),
            2: ("not_serialised", "c waits after each product of several HGMMA, as its source does; its "
                "descriptors are in ordinary registers, but the HGMMA of a product follow one another without a "
                "wait."),
        }),
        Question("moves", moves, "R2UR from the label of c's loop to the branch back", {
            C.count("R2UR", loop=False): ("copies_counted", "Those are all of c; the others run once, above the loop."),
            steps: ("halves_forgotten", "That is one for each product with K, or those above the loop. A "
                "descriptor has 64 bits: two registers, two moves."),
            C.count("R2UR", loop=False) - A.count("R2UR", loop=False): (
                "difference", "That is how many more c has than a. In the loop a has none: count those of c's loop."),
            C.count("HGMMA"): ("products_counted", "Those are the HGMMA of the loop."),
        }),
    )  # fmt: skip


def _misread_digits(digits, right):
    """A hexadecimal number read as decimal, or by its last or first digit."""
    readings = [
        digits,
        digits.rstrip("0"),
        digits.lstrip("a0") or "0",
        digits.replace("a", "10"),
        digits.replace("a", ""),
    ]
    numbers = {int(text) for text in readings if text.isdigit()} | {int(digits[0], 16)}
    return {
        number: ("not_hexadecimal", f"0x{digits} is hexadecimal: {right} registers a thread.")
        for number in numbers - {right}
    }


QUESTIONS = (*_products(), *_waits(), *_roles(), *_slow())

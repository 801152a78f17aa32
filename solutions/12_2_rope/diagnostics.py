"""What wrong turns of 12.2 look like, and the traffic of a right answer."""

import torch

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.guesses import by_guess
from course_lib.grading.subjects.ledger.moved import moved
from course_lib.grading.subjects.ledger.share import share


def heads_of(case, memory):
    """A view (num_tokens, num_heads, head_dim) of the memory (num_tokens, stride_token)."""
    num_tokens, num_heads, head_dim = case.sizes.values()
    stride_head = head_dim + case.options.get("gaps", (0, 0))[0]
    return memory.as_strided((num_tokens, num_heads, head_dim), (memory.shape[1], stride_head, 1))


def turned(case, tensors, dtype=torch.float64, **mistake):
    """x after the kernel; `mistake` is one of the keys that are read below."""
    memory = tensors["before"][0].to(dtype, copy=True)
    x = heads_of(case, memory)
    options, interleaved = case.options, case.options.get("interleaved", False)
    rotary_dim = x.shape[2] if mistake.get("whole") else options["rotary_dim"]
    interleaved = mistake.get("interleaved", interleaved)
    of, base = mistake.get("of", lambda _: rotary_dim)(case), mistake.get("base", options.get("base", 10000.0))
    base = min(base, mistake.get("most", base))
    exponents = mistake.get("step", 2.0) * torch.arange(rotary_dim // 2, dtype=dtype) / of
    positions = mistake.get("positions", lambda p: p)(tensors["positions"].to(dtype))
    angles = positions[:, None, None] * torch.tensor(base, dtype=dtype) ** -exponents
    cosine, sine = angles.cos(), mistake.get("sign", 1.0) * angles.sin()
    if mistake.get("swapped"):
        cosine, sine = sine, cosine
    half = mistake.get("half", lambda _: rotary_dim // 2)(case)
    pairs = torch.arange(rotary_dim // 2)
    first, second = (2 * pairs, 2 * pairs + 1) if interleaved else (pairs, pairs + half)
    a, b = x[..., first].clone(), x[..., second].clone()
    x[..., first] = a * cosine - b * sine
    a = x[..., first].clone() if mistake.get("overwritten") else a
    if not mistake.get("first_alone"):
        x[..., second] = b * cosine + a * sine
    return memory


_TABLE = (
    ("style_mixed", "It is what comes with neighbours as pairs. Without INTERLEAVED pair i is (i, i + rotary_dim / 2).",
     {"interleaved": True}),
    ("style_mixed", "It is what comes with halves as pairs. With INTERLEAVED pair i is (2 i, 2 i + 1).",
     {"interleaved": False}),
    ("overwritten", "The second number of each pair was turned with the new first one. Load both before you store one.",
     {"overwritten": True}),
    ("token_number", "It is what comes when the token's number is its position. Read positions[token]: after a prefill "
     "a token's number starts at 0 again, and its position does not.",
     {"positions": lambda p: torch.arange(len(p), dtype=p.dtype)}),
    ("first_position", "It is what comes when all positions count on from the first one. Read positions[token].",
     {"positions": lambda p: p[0] + torch.arange(len(p), dtype=p.dtype)}),
    ("first_position", "It is what comes when every token has the first one's position. Read positions[token].",
     {"positions": lambda p: p[0].expand(len(p))}),
    ("position_off_by_one", "It is what comes at position + 1: positions count from 0, and position 0 turns nothing.",
     {"positions": lambda p: p + 1}),
    ("position_off_by_one", "It is what comes at position - 1.", {"positions": lambda p: p - 1}),
    ("turned_back", "It is turned the other way: a cos - b sin, and b cos + a sin.", {"sign": -1.0}),
    ("sine_for_cosine", "Sine and cosine have changed places.", {"swapped": True}),
    ("exponent_wrong", "Pair i was turned with base^(-i / rotary_dim); its exponent is -2 i / rotary_dim.",
     {"step": 1.0}),
    ("exponent_wrong", "Pair i was turned with base^(-4 i / rotary_dim); its exponent is -2 i / rotary_dim.",
     {"step": 4.0}),
    ("exponent_of_head_dim", "The exponent was divided by head_dim. A partial RoPE divides by rotary_dim.",
     {"of": lambda case: case.sizes["head_dim"]}),
    ("exponent_of_tile", "The exponent was divided by 2 * BLOCK_PAIRS, the tile. It is divided by rotary_dim.",
     {"of": lambda case: 2 * case.options.get("times", 1) << (case.options["rotary_dim"] // 2 - 1).bit_length()}),
    ("base_ignored", "It is what comes with base 10,000 whatever log2_base says.", {"base": 10000.0}),
    ("base_capped", "A base above 10,000 was taken for 10,000: log2_base has no limit.", {"most": 10000.0}),
    *(("position_rounded", f"The position was rounded to {name}, which does not hold every whole number of this size.",
       {"positions": lambda p, dtype=dtype: p.to(dtype).to(p.dtype)})
      for name, dtype in (("half", torch.float16), ("bfloat16", torch.bfloat16))),
    ("base_is_log", "It is what comes with e in place of 2 as the base of the logarithm: use exp2 with log2_base.",
     {"log": True}),
    ("half_of_head_dim", "Partners are head_dim / 2 apart. A partial RoPE pairs i with i + rotary_dim / 2.",
     {"half": lambda case: case.sizes["head_dim"] // 2}),
    ("whole_head", "The whole head was turned; from rotary_dim on, numbers keep their value.", {"whole": True}),
    ("first_alone", "Only the first number of each pair was turned.", {"first_alone": True}),
)  # fmt: skip


def _guess(mistake):
    def oracle(case, tensors):
        if mistake.get("log"):
            return {"x": turned(case, tensors, base=case.options.get("base", 10000.0) ** 1.4426950408889634)}
        return {"x": turned(case, tensors, **mistake)}

    return oracle


def diagnose(evidence):
    """Diagnosis of a wrong result, or None."""
    guesses = [(code, words, _guess(mistake)) for code, words, mistake in _TABLE]
    return _between(evidence) or _nothing(evidence) or by_guess(evidence, guesses)


def _between(evidence):
    """Numbers that no pair has were changed."""
    for case in (case for case in evidence.failing() if case.ran):
        expected, got = case.ref["x"].clone(), case.first.outputs["x"].double().clone()
        for memory in (expected, got):
            heads_of(case.case, memory).zero_()
        if not torch.equal(expected, got):
            return Diagnosis(
                "between_heads",
                f"In the case {case.case.name!r} numbers between two heads, which belong to nobody, have changed. "
                "Token t, head h begins at t * stride_token + h * stride_head.",
            )
    return None


def _nothing(evidence):
    """x as it was, in every case."""
    if all(torch.equal(case.first.outputs["x"], case.inputs["before"][0]) for case in evidence.cases if case.ran):
        return Diagnosis("not_written", "x holds what it held before, in every case: store both numbers of each pair.")
    return None


def bound(case):
    """Fewest bytes: each number of a pair read and written, and a position for each program."""
    num_tokens, num_heads, _ = case.sizes.values()
    count = num_tokens * num_heads
    return count * (8 * case.options["rotary_dim"] + 4), f"{case.options['rotary_dim']} numbers of each head, both ways"


def one_sweep(case, ledger):
    """Diagnosis or None: the turned numbers are read once and written once, the others are not touched."""
    num_tokens, num_heads, _ = case.sizes.values()
    count, width = num_tokens * num_heads, case.options["rotary_dim"]
    why = f"{width} numbers of each head are read once and written once, and a program reads one position"
    found = moved(case, ledger, read=count * (4 * width + 4), written=count * 4 * width, why=why)
    return found or share(case, ledger, stored=4 * width, why="a program has one head of one token", unit="program")

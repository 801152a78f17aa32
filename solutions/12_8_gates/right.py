"""Right answers to 12.8 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

GATED = """\
    slope = 1.0
    if GELU:  # 0.5 (1 + tanh(y)) is the sigmoid of 2 y
        slope = 1.5957691216057308 * (1.0 + 0.044715 * gate * gate)
    gated = gate / (1.0 + tl.exp(-slope * gate))
"""

ANSWERS = [
    Right(
        "tanh from a falling exponential",
        (
            (
                GATED,
                "    if GELU:\n"
                "        y = 0.7978845608028654 * (gate + 0.044715 * gate * gate * gate)\n"
                "        e = tl.exp(-2.0 * tl.abs(y))\n"
                "        tanh = tl.where(y < 0.0, -1.0, 1.0) * (1.0 - e) / (1.0 + e)\n"
                "        gated = 0.5 * gate * (1.0 + tanh)\n"
                "    else:\n"
                "        gated = gate * tl.sigmoid(gate)\n",
            ),
        ),
    ),
    Right(
        "tl.sigmoid for both",
        ((GATED, GATED.replace("gate / (1.0 + tl.exp(-slope * gate))", "gate * tl.sigmoid(slope * gate)")),),
    ),
    Right(
        "exp2, and up multiplied first",
        (
            ("    gated = gate / (1.0 + tl.exp(-slope * gate))\n",
             "    gated = gate * up / (1.0 + tl.exp2(-1.4426950408889634 * slope * gate))\n"),
            ("(gated * up).to", "gated.to"),
        ),
    ),
]  # fmt: skip

"""Right answers to 12.3 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

ANSWERS = [
    Right(
        "a state for each lane, merged at the end",
        (
            (
                '        m, l = -float("inf"), 0.0\n',
                '        m_lanes = tl.full((BLOCK_N,), -float("inf"), tl.float32)\n'
                "        l_lanes = tl.zeros((BLOCK_N,), tl.float32)\n",
            ),
            (
                "            m_new = tl.maximum(m, tl.max(x, axis=0))\n",
                "            m_new = tl.maximum(m_lanes, x)\n",
            ),
            (
                "            l = l * tl.exp(m - shift) + tl.sum(tl.exp(x - shift), axis=0)\n            m = m_new\n",
                "            l_lanes = l_lanes * tl.exp(m_lanes - shift) + tl.exp(x - shift)\n"
                "            m_lanes = m_new\n"
                "        m = tl.max(m_lanes, axis=0)\n"
                "        l = tl.sum(l_lanes * tl.exp(m_lanes - m), axis=0)\n",
            ),
        ),
    ),
    Right(
        "exp2, and the probability from the log-sum-exp",
        (
            ("tl.sum(tl.exp(x - shift), axis=0)", "tl.sum(tl.exp2((x - shift) * 1.4426950408889634), axis=0)"),
            ("            probs = tl.exp(x - m) / l\n", "            probs = tl.exp(x - (m + tl.log(l)))\n"),
        ),
    ),
    Right(
        "the lowest float as the first maximum, from right to left",
        (
            ('        m, l = -float("inf"), 0.0\n', "        m, l = -3.0e38, 0.0\n"),
            (
                '            shift = tl.where(m_new == -float("inf"), 0.0, m_new)  # a tile of nothing but -inf\n',
                "            shift = m_new\n",
            ),
        ),
    ),
]

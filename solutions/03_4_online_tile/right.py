"""Right answers to 03.4 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

HEAD = """import triton
import triton.language as tl


"""

STATE_PER_LANE = (
    HEAD
    + """@triton.jit
def online_softmax_tile_kernel(x_ptr, out_ptr, num_rows, num_cols, BLOCK_N: tl.constexpr):
    base = tl.program_id(0) * num_cols
    lanes = tl.arange(0, BLOCK_N)
    m_lanes = tl.full((BLOCK_N,), -1e30, tl.float32)
    l_lanes = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, num_cols, BLOCK_N):
        scores = tl.load(x_ptr + base + start + lanes, mask=start + lanes < num_cols, other=-float("inf"))
        m_new = tl.maximum(m_lanes, scores)
        l_lanes = l_lanes * tl.exp(m_lanes - m_new) + tl.exp(scores - m_new)
        m_lanes = m_new
    m = tl.max(m_lanes, axis=0)
    l = tl.sum(l_lanes * tl.exp(m_lanes - m), axis=0)
    for start in range(0, num_cols, BLOCK_N):
        scores = tl.load(x_ptr + base + start + lanes, mask=start + lanes < num_cols, other=-float("inf"))
        tl.store(out_ptr + base + start + lanes, tl.exp(scores - m) / tl.maximum(l, 1.0), mask=start + lanes < num_cols)
"""
)

FROM_THE_END = (
    HEAD
    + """@triton.jit
def online_softmax_tile_kernel(x_ptr, out_ptr, num_rows, num_cols, BLOCK_N: tl.constexpr):
    base = tl.program_id(0) * num_cols
    half: tl.constexpr = BLOCK_N // 2
    m = -float("inf")
    l = 0.0
    for tile in range(tl.cdiv(num_cols, half)):
        cols = num_cols - 1 - tile * half - tl.arange(0, half)
        scores = tl.load(x_ptr + base + cols, mask=cols >= 0, other=-float("inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=0))
        if m_new > -float("inf"):
            l = l * tl.exp(m - m_new) + tl.sum(tl.exp(scores - m_new), axis=0)
        m = m_new
    lse = tl.where(l > 0.0, m + tl.log(l), 0.0)
    for tile in range(tl.cdiv(num_cols, half)):
        cols = num_cols - 1 - tile * half - tl.arange(0, half)
        scores = tl.load(x_ptr + base + cols, mask=cols >= 0, other=-float("inf"))
        tl.store(out_ptr + base + cols, tl.exp(scores - lse), mask=cols >= 0)
"""
)

ANSWERS = [
    Right("half tiles from the end of the row, weights from lse", text=FROM_THE_END),
    Right(
        "a tile of two axes",
        (
            (
                "cols = start + tl.arange(0, BLOCK_N)  # (BLOCK_N,)",
                "cols = start + tl.arange(0, BLOCK_N)[None, :]  # (1, BLOCK_N)",
            ),
            ("tl.max(scores, axis=0)", "tl.max(scores)"),
            ("tl.sum(tl.exp(scores - shift), axis=0)", "tl.sum(tl.exp(scores - shift))"),
        ),
    ),
    Right("a state for every lane", text=STATE_PER_LANE),
    Right(
        "base 2",
        (
            ("alpha = tl.exp(m - shift)", "alpha = tl.exp2((m - shift) * 1.4426950408889634)"),
            (
                "tl.sum(tl.exp(scores - shift), axis=0)",
                "tl.sum(tl.exp2((scores - shift) * 1.4426950408889634), axis=0)",
            ),
        ),
    ),
    Right(
        "a lowest finite start",
        (
            ('m = -float("inf")', "m = -3.0e38"),
            ('shift = tl.where(m_new == -float("inf"), 0.0, m_new)', "shift = m_new"),
            ('shift = tl.where(m == -float("inf"), 0.0, m)', "shift = m"),
        ),
    ),
]

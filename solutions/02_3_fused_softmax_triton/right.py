"""Right answers to 02.3 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

HEAD = """import triton
import triton.language as tl


"""
SIGNATURE = """@triton.jit
def fused_softmax_kernel(x_ptr, out_ptr, num_rows, num_cols, BLOCK_N: tl.constexpr):
"""

ANSWERS = [
    Right("base 2", (("weights = tl.exp(x - m)", "weights = tl.exp2((x - m) * 1.4426950408889634)"),)),
    Right(
        "log-sum-exp",
        text=HEAD
        + SIGNATURE
        + """    cols = tl.program_id(0) * num_cols + tl.arange(0, BLOCK_N)
    inside = tl.arange(0, BLOCK_N) < num_cols
    scores = tl.load(x_ptr + cols, mask=inside, other=-1.0e30)
    top = tl.max(scores, axis=0)
    lse = top + tl.log(tl.sum(tl.exp(scores - top), axis=0))
    tl.store(out_ptr + cols, tl.exp(scores - lse), mask=inside)
""",
    ),
    Right(
        "a helper, padding chosen away",
        text=HEAD
        + """@triton.jit
def normalised(weights):
    return weights * (1.0 / tl.sum(weights, axis=0))


"""
        + SIGNATURE
        + """    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row * num_cols + cols, mask=cols < num_cols, other=0.0)
    x = tl.where(cols < num_cols, x, -float("inf"))
    weights = tl.where(cols < num_cols, tl.exp(x - tl.max(x, axis=0)), 0.0)
    tl.store(out_ptr + row * num_cols + cols, normalised(weights), mask=cols < num_cols)
""",
    ),
    Right(
        "a tile of one row and many columns",
        text=HEAD
        + SIGNATURE
        + """    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_N)[None, :]
    x = tl.load(x_ptr + row * num_cols + cols, mask=cols < num_cols, other=-float("inf"))
    weights = tl.exp(x - tl.max(x, axis=1, keep_dims=True))
    tl.store(out_ptr + row * num_cols + cols, weights / tl.sum(weights, axis=1, keep_dims=True), mask=cols < num_cols)
""",
    ),
    Right(
        "rows in turn over tl.range, in 64 bits",
        text=HEAD
        + SIGNATURE
        + """    cols = tl.arange(0, BLOCK_N)
    for row in tl.range(tl.program_id(0), num_rows, tl.num_programs(0)):
        first = row.to(tl.int64) * num_cols
        x = tl.load(x_ptr + first + cols, mask=cols < num_cols, other=-float("inf"))
        weights = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + first + cols, weights / tl.sum(weights, axis=0), mask=cols < num_cols)
""",
    ),
    Right("multiplied by the inverse", (("weights / l, mask=mask", "weights * (1.0 / l), mask=mask"),)),
    Right(
        "from the last column to the first",
        (("cols = tl.arange(0, BLOCK_N)", "cols = BLOCK_N - 1 - tl.arange(0, BLOCK_N)"),),
    ),
]

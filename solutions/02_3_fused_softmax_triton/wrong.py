"""Wrong answers to 02.3, each an edit of fused_softmax_kernel in course_lib/triton_kernels/row_softmax.py."""

from course_lib.grading.exercise.submissions import Wrong

LOAD = 'x = tl.load(x_ptr + row * num_cols + cols, mask=mask, other=-float("inf"))'
M = "m = tl.max(x, axis=0)"
WEIGHTS = "weights = tl.exp(x - m)"
L = "l = tl.sum(weights, axis=0)"
STORE = "tl.store(out_ptr + row * num_cols + cols, weights / l, mask=mask)"

ANSWERS = [
    # masks
    Wrong("load without a mask", ((LOAD, "x = tl.load(x_ptr + row * num_cols + cols)"),), "out_of_bounds", "x"),
    Wrong("store without a mask", ((STORE, STORE.replace(", mask=mask", "")),), "out_of_bounds", "out"),
    Wrong("padding loaded as 0", ((LOAD, LOAD.replace('-float("inf")', "0.0")),), "padding_counted", "beyond its end"),
    Wrong("one column too many", (("mask = cols < num_cols", "mask = cols <= num_cols"),), "out_of_bounds", "x"),
    Wrong("one column too few", (("mask = cols < num_cols", "mask = cols < num_cols - 1"),), "unwritten", ""),
    # numerics
    Wrong("no maximum", ((WEIGHTS, "weights = tl.exp(x)"),), "no_max", "+100"),
    Wrong("m not below 0", ((M, "m = tl.maximum(tl.max(x, axis=0), 0.0)"),), "m_starts_too_high", "-100"),
    Wrong(
        "sign of the exponent", ((WEIGHTS, "weights = tl.where(mask, tl.exp(m - x), 0.0)"),), "order_reversed", "0.368"
    ),
    Wrong("minimum", ((M, "m = tl.min(tl.where(mask, x, 1.0e30), axis=0)"),), "wrong_maximum", "120"),
    Wrong("exp2", ((WEIGHTS, "weights = tl.exp2(x - m)"),), "exp_exp2_mix", "0.5"),
    Wrong("no division", ((STORE, STORE.replace("weights / l", "weights")),), "no_division", "division"),
    Wrong(
        "multiplied by the sum",
        ((STORE, STORE.replace("weights / l", "weights * l")),),
        "multiplied_by_l",
        "instead of divided",
    ),
    Wrong(
        "through half", ((WEIGHTS, "weights = tl.exp((x - m).to(tl.float16).to(tl.float32))"),), "low_precision", "half"
    ),
    # rows
    Wrong("rows begin at r", ((LOAD, LOAD.replace("row * num_cols", "row")),), "row_offset", "r * num_cols"),
    Wrong("rows as wide as the tile", ((LOAD, LOAD.replace("row * num_cols", "row * BLOCK_N")),), "out_of_bounds", "x"),
    Wrong("every program writes row 0", ((STORE, STORE.replace("row * num_cols + ", "")),), "race", "out"),
    # right weights in another way
    Wrong(
        "three loads",
        (
            (M, M + "\n    x = " + LOAD.split(" = ", 1)[1]),
            (L, L + "\n    weights = tl.exp(" + LOAD.split(" = ", 1)[1] + " - m)"),
        ),
        "not_fused",
        "3 times",
    ),
    Wrong(
        "weights parked in the output",
        ((L, STORE.replace("weights / l", "weights") + "\n    " + L),),
        "not_fused",
        "written",
    ),
    Wrong("library call", ((STORE, STORE.replace("weights / l", "tl.softmax(x)")),), "forbidden_call", "off limits"),
    # not the task
    Wrong("zeros", ((STORE, STORE.replace("weights / l", "weights * 0.0")),), "all_zeros", ""),
    Wrong(
        "uniform weights", ((STORE, STORE.replace("weights / l", "x * 0.0 + 1.0 / num_cols")),), "ignores_scores", ""
    ),
    Wrong("scores handed back", ((STORE, STORE.replace("weights / l", "x")),), "copy_of_input", "input x"),
    Wrong("nothing stored", ((STORE, ""),), "unwritten", "Nothing was written"),
    Wrong("no decorator", (("@triton.jit\n", ""),), "no_launch", "@triton.jit"),
]

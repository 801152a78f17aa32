"""Wrong answers to 03.4, each an edit of online_softmax_tile_kernel in course_lib/triton_kernels/softmax.py."""

from course_lib.grading.exercise.submissions import Wrong

START_M = 'm = -float("inf")'
FIRST_LOAD = 'other=-float("inf"))  # (BLOCK_N,)'
FIRST_LOOP = "l = 0.0\n    for start in range(0, num_cols, BLOCK_N):"
WRITE_LOOP = "# a row of -inf: 0 / 1\n    for start in range(0, num_cols, BLOCK_N):"
M_NEW = "m_new = tl.maximum(m, tl.max(scores, axis=0))"
SHIFT = 'shift = tl.where(m_new == -float("inf"), 0.0, m_new)'
FINAL_SHIFT = 'shift = tl.where(m == -float("inf"), 0.0, m)'
ALPHA = "alpha = tl.exp(m - shift)"
STORE = "tl.store(out_row + cols, tl.exp(scores - shift) / l_safe, mask=cols < num_cols)"

ANSWERS = [
    Wrong(
        "padding read as 0", ((FIRST_LOAD, "other=0.0)  # (BLOCK_N,)"),), "padding_counted", "11 columns beyond its end"
    ),
    Wrong("l not rescaled", (("l = l * alpha", "l = l"),), "l_not_rescaled", "(between tiles)"),
    Wrong("m starts at 0", ((START_M, "m = 0.0"),), "m_starts_too_high", "-100"),
    Wrong("no maximum", ((START_M, "m = 0.0"), (M_NEW, "m_new = m")), "no_max", "exp(100)"),
    Wrong("maximum of the tile alone", ((M_NEW, "m_new = tl.max(scores, axis=0)"),), "tile_local_max", "never fall"),
    Wrong(
        "first tile alone",
        ((FIRST_LOOP, "l = 0.0\n    for start in range(0, 1):"),),
        "no_stride_loop",
        "counted 32 keys",
    ),
    Wrong(
        "last tile dropped",
        ((FIRST_LOOP, "l = 0.0\n    for start in range(0, num_cols - BLOCK_N + 1, BLOCK_N):"),),
        "tail_dropped",
        "last 21 columns",
    ),
    Wrong("first tile written alone", ((WRITE_LOOP, "\n    for start in range(0, 1):"),), "unwritten", "columns 32"),
    Wrong("-inf minus -inf", ((SHIFT, "shift = m_new"),), "inf_minus_inf", "weight 0"),
    Wrong("0 / 0", (("/ l_safe,", "/ l,"),), "masked_row", "0 / 0"),
    Wrong("alpha with exp2", ((ALPHA, "alpha = tl.exp2(m - shift)"),), "exp_exp2_mix", "2 to the -1"),
    Wrong("exp2 in the end", ((STORE, STORE.replace("tl.exp(", "tl.exp2(")),), "exp_exp2_mix", "0.5"),
    Wrong("inverse alpha", ((ALPHA, "alpha = tl.exp(shift - m)"),), "no_division", "infinite"),
    Wrong("no division", (("/ l_safe,", ","),), "no_division", "final division"),
    Wrong("load without mask", ((", mask=cols < num_cols, " + FIRST_LOAD, ")"),), "out_of_bounds", ""),
    Wrong("store without mask", ((STORE, STORE.replace(", mask=cols < num_cols", "")),), "out_of_bounds", ""),
    Wrong(
        "rows begin at r", (("x_row = x_ptr + row * num_cols", "x_row = x_ptr + row"),), "row_offset", "r * num_cols"
    ),
    Wrong("every program writes row 0", (("out_row = out_ptr + row * num_cols", "out_row = out_ptr"),), "race", ""),
    Wrong(
        "zeros",
        ((STORE, STORE.replace("tl.exp(scores - shift) / l_safe", "tl.zeros((BLOCK_N,), tl.float32)")),),
        "all_zeros",
    ),
    Wrong(
        "scores handed back",
        ((STORE, STORE.replace("tl.exp(scores - shift) / l_safe", "scores")),),
        "copy_of_input",
        "x",
    ),
    Wrong("nothing stored", ((STORE, "pass"),), "unwritten", "Nothing was written"),
    Wrong("misspelt", ((M_NEW, M_NEW.replace("tl.maximum", "tl.maximun")),), "exception", ""),
]

"""Wrong answers to 03.3, each an edit of answer.py."""

from course_lib.grading.exercise.submissions import Wrong

L_LINE = "l = l * alpha + probs_unnorm.sum(dim=1, keepdim=True)"
ACC_LINE = "acc = acc * alpha + probs_unnorm @ values[start : start + block_n]"
LOOP = "for start in range(0, num_cols, block_n):"
M_NEW = "m_new = torch.maximum(m, tile.amax(dim=1, keepdim=True))"
SHIFT = "shift = torch.where(m_new == -torch.inf, 0.0, m_new)"
RETURN = "return acc / torch.where(l > 0, l, 1.0)"

ANSWERS = [
    Wrong(
        "acc not rescaled", (("acc = acc * alpha", "acc = acc"),), "o_not_rescaled", "the old acc was not multiplied"
    ),
    Wrong("l not rescaled", (("l = l * alpha", "l = l"),), "l_not_rescaled", "the old l was not multiplied"),
    Wrong("neither rescaled", (("alpha = torch.exp(m - shift)", "alpha = 1.0"),), "o_not_rescaled", "and so was l"),
    Wrong(
        "alpha after m",
        (("alpha = torch.exp(m - shift)", "m = m_new\n        alpha = torch.exp(m - m_new)"),),
        "o_not_rescaled",
    ),
    Wrong("alpha with exp2", (("alpha = torch.exp(m - shift)", "alpha = torch.exp2(m - shift)"),), "exp_exp2_mix"),
    Wrong(
        "inverse alpha",
        (("alpha = torch.exp(m - shift)", "alpha = torch.exp(shift - m)"),),
        "nan_from_the_start",
        "infinite",
    ),
    Wrong("no division", ((RETURN, "return acc"),), "no_division", "division by l"),
    Wrong(
        "divided in every tile",
        (
            (ACC_LINE, "acc = (acc * alpha + probs_unnorm @ values[start : start + block_n]) / l"),
            (RETURN, "return acc"),
        ),
        "rescale_wrong",
    ),
    Wrong(
        "last tile dropped", ((LOOP, "for start in range(0, num_cols - block_n + 1, block_n):"),), "tail_dropped", "48"
    ),
    Wrong("first tile alone", ((LOOP, "for start in range(0, 1):"),), "no_stride_loop", "16"),
    Wrong(
        "m starts at 0",
        (("torch.full((num_rows, 1), -torch.inf)", "torch.zeros(num_rows, 1)"),),
        "m_starts_too_high",
        "-100",
    ),
    Wrong(
        "no maximum",
        ((M_NEW, "m_new = torch.zeros_like(m)"), ("(num_rows, 1), -torch.inf", "(num_rows, 1), 0.0")),
        "no_max",
        "+100",
    ),
    Wrong("-inf minus -inf", ((SHIFT, "shift = m_new"),), "inf_minus_inf"),
    Wrong("0 / 0", ((RETURN, "return acc / l"),), "masked_row", "0 / 0"),
    Wrong("maximum of the tile alone", ((M_NEW, "m_new = tile.amax(dim=1, keepdim=True)"),), "tile_local_max"),
    Wrong("one tile for all", ((LOOP, "block_n = num_cols\n    " + LOOP),), "all_weights_held", "one exponential"),
    Wrong(
        "whole rows without a loop",
        (
            (
                RETURN,
                "weights = torch.exp(scores - torch.where(m == -torch.inf, 0.0, m))\n"
                "    return weights @ values / torch.where(l > 0, l, 1.0)",
            ),
        ),
        "all_weights_held",
        "37 x 203",
    ),
    Wrong(
        "weights collected tile by tile",
        (
            ("# (num_rows, head_dim) running weighted sum", "\n    weights = torch.zeros_like(scores)"),
            (
                RETURN,
                "for start in range(0, num_cols, block_n):\n"
                "        tile = scores[:, start : start + block_n]\n"
                "        weights[:, start : start + block_n] = torch.exp(tile - torch.where(m == -torch.inf, 0.0, m))\n"
                "    return weights @ values / torch.where(l > 0, l, 1.0)",
            ),
        ),
        "all_weights_held",
        "one product added up 203 columns",
    ),
    Wrong(
        "row by row",
        (
            (
                RETURN,
                "weights = [torch.exp(row - torch.where(top == -torch.inf, 0.0, top)) for row, top in "
                "zip(scores, m, strict=True)]\n"
                "    acc = torch.stack([(row[:, None] * values).sum(0) for row in weights])\n"
                "    return acc / torch.where(l > 0, l, 1.0)",
            ),
        ),
        "all_weights_held",
        "along 203 columns",
    ),
    Wrong("library", ((RETURN, "return torch.softmax(scores, dim=1) @ values"),), "forbidden_call", "torch.softmax"),
    Wrong("library by method", ((RETURN, "return scores.softmax(-1) @ values"),), "forbidden_call", "softmax"),
    Wrong(
        "mean of the values",
        ((RETURN, "return values.mean(dim=0).expand(num_rows, -1).clone()"),),
        "ignores_scores",
        "mean",
    ),
    Wrong("zeros", ((RETURN, "return 0 * acc"),), "all_zeros"),
    Wrong("always the first values", (("values[start : start + block_n]", "values[: tile.shape[1]]"),), "wrong_keys"),
]

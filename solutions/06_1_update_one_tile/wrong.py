"""Wrong answers to 06.1, each an edit of answer.py."""

from course_lib.grading.exercise.submissions import Wrong

M_NEW = "m_new = torch.maximum(m, scores.amax(dim=1))"
SHIFT = "shift = torch.where(m_new == -torch.inf, 0.0, m_new)"
OLD = "old_sum = l * torch.exp(m - shift)"
ACC = "acc = old_sum[:, None] * out + probs_unnorm @ values"
L_NEW = "l_new = old_sum + probs_unnorm.sum(dim=1)"
OUT = "out_new = acc / torch.where(l_new > 0, l_new, 1.0)[:, None]"

ANSWERS = [
    Wrong(
        "O not rescaled", ((ACC, ACC.replace("old_sum[", "l[")),), "o_not_rescaled", "the old out was not multiplied"
    ),
    Wrong(
        "l not rescaled", ((L_NEW, L_NEW.replace("old_sum", "l")),), "l_not_rescaled", "the old l was not multiplied"
    ),
    Wrong("neither rescaled", ((OLD, "old_sum = l"),), "o_not_rescaled", "and so was l"),
    Wrong("alpha inverted", ((OLD, OLD.replace("m - shift", "shift - m")),), "inverse_factor", "exp(m_new - m)"),
    Wrong("alpha with exp2", ((OLD, OLD.replace("exp(", "exp2(")),), "exp_exp2_mix", "2 to the -1"),
    Wrong(
        "old out weighed as one key",
        ((ACC, ACC.replace("old_sum[", "torch.exp(m - shift)[")),),
        "old_sum_missing",
        "mean already",
    ),
    Wrong("old out added as it is", ((ACC, "acc = out + probs_unnorm @ values"),), "old_sum_missing", "l * alpha"),
    Wrong("no division", ((OUT, "out_new = acc"),), "no_division", "division by l"),
    Wrong("old out thrown away", ((ACC, "acc = probs_unnorm @ values"),), "old_state_lost", "thrown away"),
    Wrong("maximum of the tile alone", ((M_NEW, "m_new = scores.amax(dim=1)"),), "tile_local_max", "never fall"),
    Wrong("-inf minus -inf", ((SHIFT, "shift = m_new"),), "masked_row", "NaN"),
    Wrong("0 / 0", ((OUT, "out_new = acc / l_new[:, None]"),), "masked_row", "0 / 0"),
]

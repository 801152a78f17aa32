"""Wrong answers to 03.1, each an edit of answer.py."""

from course_lib.grading.exercise.submissions import Wrong

L_LINE = "l = l_a * torch.exp(m_a - shift) + l_b * torch.exp(m_b - shift)"
RETURN = "return m, l"

ANSWERS = [
    Wrong("sums added as they are", ((L_LINE, "l = l_a + l_b"),), "l_not_rescaled", "here it is 2"),
    Wrong(
        "only the first rescaled", ((L_LINE, "l = l_a * torch.exp(m_a - shift) + l_b"),), "l_not_rescaled", "merge(2, 1"
    ),
    Wrong(
        "inverse factor",
        ((L_LINE, "l = l_a * torch.exp(shift - m_a) + l_b * torch.exp(shift - m_b)"),),
        "inverse_factor",
    ),
    Wrong(
        "exp2", ((L_LINE, "l = l_a * torch.exp2(m_a - shift) + l_b * torch.exp2(m_b - shift)"),), "exp_exp2_mix", "1.5"
    ),
    Wrong("-inf minus -inf", (("torch.where(m == -torch.inf, 0.0, m)", "m"),), "inf_minus_inf", "both empty"),
    Wrong(
        "no maximum inside",
        ((L_LINE, "l = (l_a * torch.exp(m_a) + l_b * torch.exp(m_b)) / torch.exp(shift)"),),
        "no_max",
        "exp(100)",
    ),
    Wrong(
        "the sum of the larger alone", ((L_LINE, "l = torch.where(m_a > m_b, l_a, l_b)"),), "old_sum_lost", "missing"
    ),
    Wrong("minimum", (("torch.maximum", "torch.minimum"),), "wrong_max"),
    Wrong("results swapped", ((RETURN, "return l, m"),), "swapped_results", "(l, m)"),
    Wrong("one maximum for all", (("torch.maximum(m_a, m_b)", "max(m_a.max(), m_b.max())"),), "wrong_return", "shape"),
    Wrong("only l", ((RETURN, "return l"),), "wrong_return", "must return m"),
    Wrong("zeros", ((RETURN, "return 0 * l_a, 0 * l_a"),), "all_zeros"),
    Wrong("first state handed back", ((RETURN, "return m_a, l_a"),), "copy_of_input", "m_a"),
    Wrong(
        "input changed",
        ((L_LINE, "l = l_a.mul_(torch.exp(m_a - shift)) + l_b * torch.exp(m_b - shift)"),),
        "input_modified",
        "l_a",
    ),
    Wrong("misspelt", (("torch.maximum", "torch.maximun"),), "exception", "line 6"),
    Wrong("no return", ((RETURN, "m, l"),), "wrong_return", "None"),
]

"""Wrong answers to 09.1, each an edit of answer.py."""

from course_lib.grading.exercise.submissions import Wrong

M = "m = partial_lse.amax(dim=0)  # (num_rows,)"
SHIFT = "shift = torch.where(m == -torch.inf, 0.0, m)"
WEIGHTS = "weights = torch.exp(partial_lse - shift)"
L = "l = weights.sum(dim=0)"
READ = "read = torch.where(weights[:, :, None] > 0.0, partial_out, 0.0)"
ACC = "acc = (weights[:, :, None] * read).sum(dim=0)"
OUT = "out = acc / torch.where(l > 0.0, l, 1.0)[:, None]"
LSE = "lse = shift + torch.log(l)"
SOME = "(torch.isneginf(partial_lse).any(dim=0) & (l > 0.0))"
MEAN = "read.sum(dim=0) / (partial_lse > -torch.inf).sum(dim=0)[:, None]"

ANSWERS = [
    # the weights
    Wrong("plain mean", ((WEIGHTS, "weights = (partial_lse > -torch.inf).float()"),), "plain_mean", "plain mean"),
    Wrong("plain sum", ((OUT, "out = read.sum(dim=0)"),), "plain_sum", "mean of its own keys"),
    Wrong(
        "weighed by lse",
        ((ACC, ACC.replace("weights", "partial_lse")), (OUT, "out = acc / partial_lse.sum(dim=0)[:, None]")),
        "weights_are_lse",
        "its exponential",
    ),
    Wrong("inverse weight", ((WEIGHTS, "weights = torch.exp(shift - partial_lse)"),), "inverse_weight", "sign"),
    Wrong(
        "exp2 of a natural logarithm",
        ((WEIGHTS, "weights = torch.exp2(partial_lse - shift)"),),
        "exp_exp2_mix",
        "2 to the",
    ),
    Wrong(
        "exp of lse in base 2",
        ((WEIGHTS, "weights = torch.exp((partial_lse - shift) * 1.4426950408889634)"),),
        "exp_exp2_mix",
        "meant for exp2",
    ),
    Wrong("never divided", ((OUT, "out = acc"),), "no_division", "never divided"),
    Wrong(
        "a mean of what is weighted already", ((OUT, OUT + " / len(partial_out)"),), "divided_twice", "left to divide"
    ),
    Wrong("last split dropped", ((ACC, ACC.replace(".sum", "[:-1].sum")),), "split_dropped", "last split"),
    # the maximum
    Wrong("no maximum", ((SHIFT, "shift = torch.zeros_like(m)"),), "no_max", "exp(100)"),
    Wrong(
        "one maximum for all rows",
        ((M, "m = partial_lse.max().expand(partial_lse.shape[1])"),),
        "max_of_all_rows",
        "200",
    ),
    Wrong("maximum along the rows", ((M, "m = partial_lse.amax(dim=1)"),), "wrong_return", "shape"),
    # lse
    Wrong("lse in base 2", ((LSE, "lse = (shift + torch.log(l)) * 1.4426950408889634"),), "lse_base_2", "base 2"),
    Wrong("log2 of l", ((LSE, "lse = shift + torch.log2(l)"),), "lse_base_2", "natural m"),
    Wrong("lse without the maximum", ((LSE, "lse = torch.log(l)"),), "lse_without_max", "add m again"),
    Wrong("the largest lse", ((LSE, "lse = m"),), "lse_max_alone", "log of the sum"),
    Wrong("lse added up", ((LSE, "lse = partial_lse.sum(dim=0)"),), "lse_added", "exponentials"),
    Wrong(
        "lse of the first and the last split",
        ((LSE, "lse = torch.logaddexp(partial_lse[0], partial_lse[-1])"),),
        "lse_wrong",
        "One split alone",
    ),
    # splits without keys
    Wrong("0 times NaN", ((READ, "read = partial_out"),), "empty_split", "0 times NaN"),
    Wrong(
        "1000 too much where only some splits are empty",
        ((OUT, f"{OUT} + 1000.0 * {SOME}[:, None]"),),
        "empty_split",
        "must give what they give alone",
    ),
    Wrong(
        "plain mean where only some splits are empty",
        ((OUT, f"{OUT}\n    out = torch.where({SOME}[:, None], {MEAN}, out)"),),
        "plain_mean",
        "only adds a weight of 0",
    ),
    Wrong("-inf minus -inf", ((SHIFT, "shift = m"),), "all_empty", "-inf minus -inf"),
    Wrong("0 / 0", ((OUT, "out = acc / l[:, None]"),), "all_empty", "0 / 0"),
    Wrong("a small number added to l", ((L, L + " + 1e-30"),), "all_empty", "0 exactly"),
    Wrong("rounded to half", ((WEIGHTS, WEIGHTS + ".half().float()"),), "low_precision", "Nearly right"),
]

"""Wrong answers to 07.4, each an edit of answer.py."""

from course_lib.grading.exercise.submissions import Wrong

LOAD_ACC = "acc = tl.load(acc_ptr + offsets, mask=mask, other=0.0)"
SAFE = "l_safe = tl.where(l > 0.0, l, 1.0)"
OUT = "tl.store(out_ptr + offsets, acc / l_safe[:, None], mask=mask)"
LSE = "m_log2 * ln_2 + tl.log(l_safe)"
STORE = f"tl.store(lse_ptr + rows, {LSE}, mask=rows < num_rows)"

ANSWERS = [
    Wrong("lse in base 2", ((LSE, "m_log2 + tl.log2(l_safe)"),), "lse_base_2", "natural"),
    Wrong("m left in base 2", ((LSE, "m_log2 + tl.log(l_safe)"),), "lse_base_2", "m was left in base 2"),
    Wrong("l in base 2", ((LSE, "m_log2 * ln_2 + tl.log2(l_safe)"),), "lse_base_2", "natural"),
    Wrong("m multiplied by log2(e)", ((LSE, "m_log2 / ln_2 + tl.log(l_safe)"),), "converted_backwards", "divided"),
    Wrong("all multiplied by log2(e)", ((LSE, "(m_log2 + tl.log2(l_safe)) / ln_2"),), "converted_backwards", "0.693"),
    Wrong("lse without the maximum", ((LSE, "tl.log(l_safe)"),), "lse_without_max", "m + log(l)"),
    Wrong("m alone", ((LSE, "m_log2 * ln_2"),), "lse_without_sum", "log(l) is missing"),
    Wrong("l without its logarithm", ((LSE, "m_log2 * ln_2 + l_safe"),), "lse_without_log", "logarithm is missing"),
    Wrong("sign", ((LSE, "m_log2 * ln_2 - tl.log(l_safe)"),), "lse_sign", "sign"),
    Wrong("the maximum undone first", ((LSE, "tl.log(tl.exp2(m_log2) * l_safe)"),), "no_max", "add it outside"),
    Wrong("no division", ((OUT, OUT.replace(" / l_safe[:, None]", "")),), "no_division", "was not divided"),
    Wrong("times l", ((OUT, OUT.replace("/ l_safe", "* l_safe")),), "multiplied_by_l", "in place of divided"),
    Wrong("0 / 0", ((SAFE, "l_safe = l"),), "masked_row", "0 / 0"),
    Wrong("-1e30 for -inf", ((LSE, f"tl.maximum({LSE}, -1e30)"),), "masked_row", "-inf"),
    Wrong("a small number added to l", ((SAFE, "l_safe = l + 1e-3"),), "low_precision", "Nearly right"),
    Wrong("rows past the end", ((STORE, STORE.replace(", mask=rows < num_rows", "")),), "out_of_bounds", ""),
    Wrong("columns past the end", ((LOAD_ACC, "acc = tl.load(acc_ptr + offsets)"),), "out_of_bounds", ""),
    Wrong("lse not stored", ((STORE, ""),), "unwritten", "lse"),
]

"""Wrong answers to 00.1, each an edit of answer.py."""

from course_lib.grading.exercise.submissions import Wrong

SCORES = "scores = k @ q "
SCALE = "scores = scores * q.shape[0] ** -0.5"
PROBS = "probs = torch.softmax(scores, dim=0)"
RETURN = "return probs @ v"
OWN_SOFTMAX = "probs = torch.exp(scores - scores.max())\n    probs = probs / probs.sum()"

LIBRARY = "torch._C._nn.scaled_dot_product_attention(q[None], k, v)[0]"
BUT_LAST = "k, v = k[: max(len(k) - 1, 1)], v[: max(len(v) - 1, 1)]"
BUT_FIRST = "k, v = k[min(1, len(k) - 1) :], v[min(1, len(v) - 1) :]"

ANSWERS = [
    Wrong("scale missing", ((SCALE, "pass"),), "scale_missing", "sqrt(64) = 8"),
    Wrong("scale twice", ((SCALE, "scores = scores * q.shape[0] ** -0.5 / q.shape[0] ** 0.5"),), "scale_twice", "once"),
    Wrong("scale by d instead of sqrt d", ((SCALE, "scores = scores / q.shape[0]"),), "scale_twice", "divided by 64"),
    Wrong("scale inverted", ((SCALE, "scores = scores * q.shape[0] ** 0.5"),), "scale_inverse", "64 times too large"),
    Wrong("scale from the keys", ((SCALE, "scores = scores * k.shape[0] ** -0.5"),), "scale_wrong", "1 / sqrt(64)"),
    Wrong("a fixed scale", ((SCALE, "scores = scores * 0.1"),), "scale_wrong", "times 0.1;"),
    Wrong(
        "scale after the softmax",
        ((SCALE, "pass"), (RETURN, "return probs @ v * q.shape[0] ** -0.5")),
        "scale_outside",
        "before the softmax",
    ),
    Wrong(
        "softmax over the wrong axis",
        ((PROBS, "probs = torch.softmax(scores[None, :], dim=0)[0]"),),
        "softmax_axis",
        "the number of keys",
    ),
    Wrong("sum over the wrong axis", ((RETURN, "return (probs[:, None] * v).sum(dim=1)"),), "wrong_return", "shape"),
    Wrong("mean in place of the sum", ((RETURN, "return (probs[:, None] * v).mean(dim=0)"),), "divided_twice", "sum"),
    Wrong("no division", ((PROBS, "probs = torch.exp(scores - scores.max())"),), "no_division", "divided by their sum"),
    Wrong("no maximum, no division", ((PROBS, "probs = torch.exp(scores)"),), "no_division", "exp(score)"),
    Wrong("no maximum", ((PROBS, "probs = torch.exp(scores) / torch.exp(scores).sum()"),), "no_max", "+100"),
    Wrong(
        "maximum of 0 at least",
        (
            (PROBS, "probs = torch.exp(scores - scores.max().clamp(min=0.0))"),
            (RETURN, "return probs @ v / probs.sum()"),
        ),
        "m_starts_too_high",
        "-100",
    ),
    Wrong("base 2", ((PROBS, OWN_SOFTMAX.replace("torch.exp(", "torch.exp2(")),), "exp_exp2_mix", "log2(e)"),
    Wrong("no exponential", ((PROBS, "probs = scores / scores.sum()"),), "no_exponential", "0 / 0"),
    Wrong("log-softmax", ((PROBS, "probs = torch.log_softmax(scores, dim=0)"),), "log_weights", "logarithms"),
    Wrong(
        "softmax twice",
        ((PROBS, "probs = torch.softmax(torch.softmax(scores, dim=0), dim=0)"),),
        "softmax_twice",
        "twice",
    ),
    Wrong("minus sign", ((PROBS, "probs = torch.softmax(-scores, dim=0)"),), "sign", "smaller the score"),
    Wrong(
        "the best key alone",
        ((PROBS, "probs = torch.zeros_like(scores)\n    probs[scores.argmax()] = 1.0"),),
        "one_key",
        "all the weight",
    ),
    Wrong("k and v swapped", ((SCORES, "scores = v @ q "), (RETURN, "return probs @ k")), "k_v_swapped", "rows of v"),
    Wrong("k in place of v", ((RETURN, "return probs @ k"),), "k_v_swapped", "rows of v"),
    Wrong("mean of v", ((RETURN, "return v.mean(dim=0)"),), "ignores_scores", "plain mean"),
    Wrong("zeros", ((RETURN, "return 0.0 * (probs @ v)"),), "all_zeros"),
    Wrong("the query handed back", ((RETURN, "return q.clone()"),), "copy_of_input", "q"),
    Wrong("the weights", ((RETURN, "return probs"),), "wrong_return", "shape"),
    Wrong("transposed order", ((SCORES, "scores = q @ k "),), "exception", "shape"),
    Wrong("last key dropped", ((SCORES, BUT_LAST + "\n    scores = k @ q "),), "tail_dropped", "first 52"),
    Wrong("first key dropped", ((SCORES, BUT_FIRST + "\n    scores = k @ q "),), "head_dropped", "key 1"),
    Wrong("half precision", ((RETURN, "return (probs.half() @ v.half()).float()"),), "low_precision", "half"),
    Wrong("bfloat16", ((RETURN, "return (probs.bfloat16() @ v.bfloat16()).float()"),), "low_precision", "bfloat16"),
    Wrong(
        "sum in half precision",
        (
            (
                PROBS,
                "probs = torch.exp(scores - scores.max())\n    total = torch.zeros((), dtype=torch.float16)\n"
                "    for term in probs:\n        total = (total + term).half()",
            ),
            (RETURN, "return probs @ v / total.float()"),
        ),
        "half_accumulator",
        "2048",
    ),
    Wrong("returns half", ((RETURN, "return (probs @ v).half()"),), "wrong_return", "float16"),
    Wrong("scales q in place", ((SCALE, "q *= q.shape[0] ** -0.5\n    scores = k @ q"),), "input_modified", "q"),
    Wrong(
        "library",
        ((RETURN, "return torch.nn.functional.scaled_dot_product_attention(q[None], k, v)[0]"),),
        "forbidden_call",
        "scaled_dot_product_attention",
    ),
    Wrong(
        "library by its inner name", ((RETURN, "return " + LIBRARY),), "forbidden_call", "scaled_dot_product_attention"
    ),
]

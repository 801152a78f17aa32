"""Wrong answers to 06.2, each an edit of answer.py."""

from course_lib.grading.exercise.submissions import Wrong

KV_LOOP = "for kv_start in range(0, k.shape[0], block_n):"
Q_LOOP = "for q_start in range(0, q.shape[0], block_m):"
TILES = "k_tile, v_tile = k[kv_start : kv_start + block_n], v[kv_start : kv_start + block_n]"
SCORES = "scores = q[rows] @ k_tile.T * q.shape[1] ** -0.5"
M_NEW = "m_new = torch.maximum(m[rows], scores.amax(dim=1))"
OLD = "old_sum = l[rows] * torch.exp(m[rows] - m_new)"
OUT = "out[rows] = (old_sum[:, None] * out[rows] + probs_unnorm @ v_tile) / l_new[:, None]"
STORE = "m[rows], l[rows] = m_new, l_new"
RETURN = "return out, m + torch.log(l)"

ANSWERS = [
    Wrong("O not rescaled", ((OUT, OUT.replace("old_sum[", "l[rows][")),), "o_not_rescaled", "old out"),
    Wrong("l not rescaled", (("l_new = old_sum +", "l_new = l[rows] +"),), "l_not_rescaled", "old l"),
    Wrong(
        "alpha inverted", ((OLD, OLD.replace("m[rows] - m_new", "m_new - m[rows]")),), "nan_from_the_start", "infinite"
    ),
    Wrong(
        "old O weighed as one key",
        ((OUT, OUT.replace("old_sum[", "torch.exp(m[rows] - m_new)[")),),
        "old_sum_missing",
        "",
    ),
    Wrong("never divided", ((OUT, OUT.replace(" / l_new[:, None]", "")),), "no_division", "never divided"),
    Wrong(
        "all keys in one tile", ((KV_LOOP, "block_n = k.shape[0]\n    " + KV_LOOP),), "all_scores_held", "a tile has"
    ),
    Wrong(
        "all queries in one tile",
        ((Q_LOOP, "for q_start in [0]:\n            block_m = q.shape[0]"),),
        "all_scores_held",
        "a tile has",
    ),
    Wrong("scale missing", ((SCORES, SCORES.replace(" * q.shape[1] ** -0.5", "")),), "scale_missing", "too large"),
    Wrong("scale twice", ((SCORES, SCORES.replace("-0.5", "-1")),), "scale_twice", "too small"),
    Wrong("scale from the tile", ((SCORES, SCORES.replace("q.shape[1]", "k_tile.shape[0]")),), "scale_wrong", ""),
    Wrong(
        "last tile dropped",
        ((KV_LOOP, "for kv_start in range(0, k.shape[0] - block_n + 1, block_n):"),),
        "tail_dropped",
        "48",
    ),
    Wrong(
        "last tile padded with zeros, and counted",
        (
            (
                TILES,
                "k_tile, v_tile = (torch.nn.functional.pad(x, (0, 0, 0, block_n))[kv_start : kv_start + block_n] "
                "for x in (k, v))",
            ),
        ),
        "tail_counted",
        "1431 / 64",
    ),
    Wrong("first tile alone", ((KV_LOOP, "for kv_start in (0,):"),), "one_tile", "first tile"),
    Wrong(
        "last rows dropped",
        ((Q_LOOP, "for q_start in range(0, q.shape[0] - block_m + 1, block_m):"),),
        "rows_left",
        "narrower",
    ),
    Wrong("m and l not kept", ((STORE, ""),), "old_state_lost", ""),
    Wrong(
        "m starts at 0",
        (("torch.full((q.shape[0],), -torch.inf)", "torch.zeros(q.shape[0])"),),
        "m_starts_too_high",
        "-100",
    ),
    Wrong("no maximum", ((M_NEW, "m_new = torch.zeros_like(m[rows])"),), "no_max", "+100"),
    Wrong("maximum of the tile alone", ((M_NEW, "m_new = scores.amax(dim=1)"),), "tile_local_max", "never fall"),
    Wrong(
        "exp2 for exp",
        (("probs_unnorm = torch.exp(", "probs_unnorm = torch.exp2("), (OLD, OLD.replace("exp(", "exp2("))),
        "exp_exp2_mix",
        "2 to the power",
    ),
    Wrong(
        "out kept in half between tiles",
        ((OUT, OUT.replace("out[rows] = ", "out[rows] = (") + ").half().float()"),),
        "low_precision",
        "compute in float",
    ),
    Wrong("lse in base 2", ((RETURN, "return out, m + torch.log2(l)"),), "lse_base_2", "natural"),
    Wrong("lse without the maximum", ((RETURN, "return out, torch.log(l)"),), "lse_without_max", "m + log(l)"),
    Wrong("copy of q", ((RETURN, "return q.clone(), m + torch.log(l)"),), "copy_of_input", "q"),
    Wrong("out never written", ((OUT, OUT.replace("out[rows] = ", "_ = ")),), "all_zeros", ""),
    Wrong(
        "mean of v",
        ((RETURN, "return v.mean(dim=0).expand(q.shape[0], -1).clone(), m + torch.log(l)"),),
        "ignores_scores",
        "",
    ),
    Wrong(
        "the library",
        ((RETURN, "return torch.softmax(q @ k.T * q.shape[1] ** -0.5, dim=1) @ v, m + torch.log(l)"),),
        "forbidden_call",
        "softmax",
    ),
]

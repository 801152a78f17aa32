"""Wrong answers to 07.1, each an edit of answer.py."""

from course_lib.grading.exercise.submissions import Wrong

Q_LOOP = "for q_start in range(0, q.shape[0], block_m):"
KV_LOOP = "for kv_start in range(0, k.shape[0], block_n):"
SCORES = "scores = q_tile @ k_tile.T * q.shape[1] ** -0.5"
START = "m, l = torch.full((len(q_tile),), -torch.inf), torch.zeros(len(q_tile))"
M_NEW = "m_new = torch.maximum(m, scores.amax(dim=1))"
PROBS = "probs_unnorm = torch.exp(scores - m_new[:, None])"
ALPHA = "alpha = torch.exp(m - m_new)"
L = "l = l * alpha + probs_unnorm.sum(dim=1)"
ACC_START = "acc = torch.zeros_like(q_tile)"
ACC = "acc = acc * alpha[:, None] + probs_unnorm @ v_tile"
STORE = "out[rows], lse[rows] = acc / l[:, None], m + torch.log(l)"
MOVED_Q, MOVED_KV = "moved += q_tile.numel()", "moved += k_tile.numel() + v_tile.numel()"
MOVED_OUT = "moved += acc.numel() + l.numel()"

FLASH_ATTENTION_1 = f"""m, l = torch.full((q.shape[0],), -torch.inf), torch.zeros(q.shape[0])
    for kv_start in range(0, k.shape[0], block_n):
        k_tile, v_tile = k[kv_start : kv_start + block_n], v[kv_start : kv_start + block_n]
        moved += 2 * k_tile.numel()
        for q_start in range(0, q.shape[0], block_m):
            rows = slice(q_start, q_start + block_m)
            scores = q[rows] @ k_tile.T * q.shape[1] ** -0.5
            m_new = torch.maximum(m[rows], scores.amax(dim=1))
            probs = torch.exp(scores - m_new[:, None])
            old_sum = l[rows] * torch.exp(m[rows] - m_new)
            l_new = old_sum + probs.sum(dim=1)
            out[rows] = (old_sum[:, None] * out[rows] + probs @ v_tile) / l_new[:, None]
            m[rows], l[rows] = m_new, l_new
            moved += q[rows].numel() + 2 * out[rows].numel()
    return out, m + torch.log(l), moved
    {Q_LOOP}"""

ANSWERS = [
    Wrong("FlashAttention-1's order", ((Q_LOOP, FLASH_ATTENTION_1),), "loops_not_swapped", "FlashAttention-1"),
    # what was moved
    Wrong("out and lse not counted", ((MOVED_OUT, ""),), "result_forgotten", "written once"),
    Wrong("lse not counted", ((MOVED_OUT, "moved += acc.numel()"),), "lse_forgotten", "lse"),
    Wrong("q not counted", ((MOVED_Q, ""),), "q_forgotten", "each of them moves once"),
    Wrong("v not counted", ((MOVED_KV, "moved += k_tile.numel()"),), "kv_half", "both"),
    Wrong(
        "k and v counted once",
        ((MOVED_KV, "moved += (k_tile.numel() + v_tile.numel()) * (q_start == 0)"),),
        "kv_once",
        "every tile of queries",
    ),
    Wrong("whole tiles counted", ((MOVED_KV, "moved += 2 * block_n * q.shape[1]"),), "tiles_rounded", "narrower"),
    Wrong("bytes counted", ((STORE, STORE), ("return out, lse, moved", "return out, lse, 4 * moved")), "in_bytes"),
    # the state
    Wrong("acc not rescaled", ((ACC, ACC.replace(" * alpha[:, None]", "")),), "o_not_rescaled", "not multiplied"),
    Wrong("l not rescaled", ((L, L.replace(" * alpha", "")),), "l_not_rescaled", "not multiplied"),
    Wrong("neither rescaled", ((ALPHA, "alpha = torch.ones_like(m)"),), "o_not_rescaled", "and so was l"),
    Wrong("alpha inverted", ((ALPHA, "alpha = torch.exp(m_new - m)"),), "nan_from_the_start", "infinite"),
    Wrong("alpha with exp2", ((ALPHA, ALPHA.replace("exp(", "exp2(")),), "exp_exp2_mix", "2 to the -1"),
    Wrong(
        "divided at every tile, never multiplied back",
        ((ACC, ACC.replace("acc = ", "acc = (") + ") / l[:, None]"), (STORE, STORE.replace("acc / l[:, None]", "acc"))),
        "old_sum_missing",
        "mean already",
    ),
    Wrong("divided at every tile and at the end", ((ACC, ACC + " / l[:, None]"),), "divided_twice", "once more"),
    Wrong("never divided", ((STORE, STORE.replace("acc / l[:, None]", "acc")),), "no_division", "division by l"),
    Wrong("old acc thrown away", ((ACC, "acc = probs_unnorm @ v_tile"),), "old_state_lost", "thrown away"),
    Wrong("m not kept", (("            m = m_new\n", ""),), "old_state_lost", "m and l were never kept"),
    Wrong(
        "the state goes on from one tile of queries to the next",
        (
            (START, f"m, l = (m, l) if q_start else ({START.removeprefix('m, l = ')})"),
            (
                ACC_START,
                "acc = acc if q_start else torch.zeros_like(q_tile)\n"
                "        m, l, acc = (x[: len(q_tile)] for x in (m, l, acc))",
            ),
        ),
        "state_not_reset",
        "begin with -inf, 0 and 0",
    ),
    Wrong("m starts at 0", ((START, START.replace("-torch.inf", "0.0")),), "m_starts_too_high", "-100"),
    Wrong("no maximum", ((M_NEW, "m_new = torch.zeros_like(m)"),), "no_max", "+100"),
    Wrong("maximum of the tile alone", ((M_NEW, "m_new = scores.amax(dim=1)"),), "tile_local_max", "never fall"),
    # the loops and the scale
    Wrong(
        "last tile of keys dropped",
        ((KV_LOOP, "for kv_start in range(0, k.shape[0] - block_n + 1, block_n):"),),
        "tail_dropped",
        "48",
    ),
    Wrong("first tile of keys alone", ((KV_LOOP, "for kv_start in (0,):"),), "one_tile", "first tile"),
    Wrong(
        "last tile of queries dropped",
        ((Q_LOOP, "for q_start in range(0, q.shape[0] - block_m + 1, block_m):"),),
        "rows_left",
        "narrower",
    ),
    Wrong("scale missing", ((SCORES, SCORES.replace(" * q.shape[1] ** -0.5", "")),), "scale_missing", "too large"),
    Wrong("scale twice", ((SCORES, SCORES.replace("-0.5", "-1")),), "scale_twice", "too small"),
    Wrong("scale from the tile", ((SCORES, SCORES.replace("q.shape[1]", "k_tile.shape[0]")),), "scale_wrong", "times"),
    Wrong("exp2 in place of exp", ((PROBS, PROBS.replace("exp(", "exp2(")),), "exp_exp2_mix", "2 to the"),
    # lse
    Wrong("lse in base 2", ((STORE, STORE.replace("torch.log(l)", "torch.log2(l)")),), "lse_base_2", "natural"),
    Wrong("lse without the maximum", ((STORE, STORE.replace("m + torch.log(l)", "torch.log(l)")),), "lse_without_max"),
    Wrong(
        "the library",
        ((STORE, STORE.replace("acc / l[:, None]", "torch.softmax(q_tile @ k.T * q.shape[1] ** -0.5, 1) @ v")),),
        "forbidden_call",
        "softmax",
    ),
]

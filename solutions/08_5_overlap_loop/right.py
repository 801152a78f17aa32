"""Right answers to 08.5 that look different from the solution."""

from pathlib import Path

from course_lib.grading.exercise.submissions import Right

LOOP = "for (int j = tile.num_kv_tiles - 2; j >= 0; --j) {"
WAIT_V = "        mbarrier_wait_parity(&barriers.v_full[v_ring.stage], v_ring.parity);"
ISSUE_Q_K = "        issue_q_k<ELEMENT, HEAD_DIM, BLOCK_M>(scores, q_desc, k_desc + k_ring.stage * (KV_BYTES / 16));"
MASK = """mask_scores(scores, first_row, kv_start, seq_len_kv, offset, causal, lane);
        online_softmax(scores, m, l, alpha, softmax_scale_log2);
        wgmma"""
LAST_WAIT = "        wgmma_wait_group<0>();\n        wgmma_keep_order(acc);"
START = f"{LOOP}\n        const int kv_start = j * BLOCK_N;\n"
PACK = "        rescale(acc, alpha);\n        pack_probs<ELEMENT>(probs, scores);\n"
RELEASE_V = "        if (thread == 0) mbarrier_arrive(&barriers.v_empty[v_ring.stage]);"

# One loop over all tiles: the step of the first tile has no product with V.
ONE_LOOP = """    if (tile.num_kv_tiles > 0) mbarrier_wait_parity(&barriers.q_full, 0);
    for (int step = 0; step <= tile.num_kv_tiles; ++step) {
        const bool has_k = step < tile.num_kv_tiles, has_v = step > 0 && tile.num_kv_tiles > 0;
        const int kv_start = (tile.num_kv_tiles - 1 - step) * BLOCK_N;
        if (has_k) {
            mbarrier_wait_parity(&barriers.k_full[k_ring.stage], k_ring.parity);
            issue_q_k<ELEMENT, HEAD_DIM, BLOCK_M>(scores, q_desc, k_desc + k_ring.stage * (KV_BYTES / 16));
        }
        if (has_v) {
            mbarrier_wait_parity(&barriers.v_full[v_ring.stage], v_ring.parity);
            issue_p_v<ELEMENT>(acc, probs, v_desc + v_ring.stage * (KV_BYTES / 16));
        }
        if (has_k) {
            if (has_v) wgmma_wait_group<1>();
            else wgmma_wait_group<0>();
            wgmma_keep_order(scores);
            if (thread == 0) mbarrier_arrive(&barriers.k_empty[k_ring.stage]);
            k_ring.advance();
            mask_scores(scores, first_row, kv_start, seq_len_kv, offset, causal, lane);
            online_softmax(scores, m, l, alpha, softmax_scale_log2);
        }
        if (has_v) {
            wgmma_wait_group<0>();
            wgmma_keep_order(acc);
            if (thread == 0) mbarrier_arrive(&barriers.v_empty[v_ring.stage]);
            v_ring.advance();
        }
        if (has_k) {
            rescale(acc, alpha);
            pack_probs<ELEMENT>(probs, scores);
        }
    }
"""

# The scores of the next tile under the softmax of this one: a second array of scores in place of the lag of V.
NEXT_SCORES = """    float next[BLOCK_N / 2];
    if (tile.num_kv_tiles > 0) {
        mbarrier_wait_parity(&barriers.q_full, 0);
        mbarrier_wait_parity(&barriers.k_full[k_ring.stage], k_ring.parity);
        issue_q_k<ELEMENT, HEAD_DIM, BLOCK_M>(next, q_desc, k_desc + k_ring.stage * (KV_BYTES / 16));
    }
    for (int j = tile.num_kv_tiles - 1; j >= 0; --j) {
        const int kv_start = j * BLOCK_N;
        wgmma_wait_group<0>();
        wgmma_keep_order(next);
        for (int i = 0; i < BLOCK_N / 2; ++i) scores[i] = next[i];
        if (thread == 0) mbarrier_arrive(&barriers.k_empty[k_ring.stage]);
        k_ring.advance();
        if (j > 0) {
            mbarrier_wait_parity(&barriers.k_full[k_ring.stage], k_ring.parity);
            issue_q_k<ELEMENT, HEAD_DIM, BLOCK_M>(next, q_desc, k_desc + k_ring.stage * (KV_BYTES / 16));
        }
        if (kv_start + BLOCK_N > tile.full_end)
            mask_scores(scores, first_row, kv_start, seq_len_kv, offset, causal, lane);
        online_softmax(scores, m, l, alpha, softmax_scale_log2);
        rescale(acc, alpha);
        pack_probs<ELEMENT>(probs, scores);
        mbarrier_wait_parity(&barriers.v_full[v_ring.stage], v_ring.parity);
        issue_p_v<ELEMENT>(acc, probs, v_desc + v_ring.stage * (KV_BYTES / 16));
        wgmma_wait_group<0>();
        wgmma_keep_order(acc);
        wgmma_keep_order(next);
        if (thread == 0) mbarrier_arrive(&barriers.v_empty[v_ring.stage]);
        v_ring.advance();
    }
"""

ANSWER = Path(__file__).with_name("answer.cu").read_text(encoding="utf-8")
FIRST_TILE, REST = "    if (tile.num_kv_tiles > 0) {\n        const int kv_start", "    const float l_row"


def _walk(text, since):
    """The answer with `text` in place of everything from `since` to the stores."""
    return ANSWER[: ANSWER.index(since)] + text + "\n" + ANSWER[ANSWER.index(REST) :]


WAIT_V_FIRST = f"{WAIT_V}\n{ISSUE_Q_K}\n        issue_p_v"
ANSWERS = [
    Right("waits for both stages first", ((f"{ISSUE_Q_K}\n{WAIT_V}\n        issue_p_v", WAIT_V_FIRST),)),
    Right(
        "rescaled at the start of the next step",
        (
            ("        rescale(acc, alpha);\n", ""),
            (f"{WAIT_V}\n        issue_p_v<ELEMENT>(acc, probs, v_desc + v_ring.stage * (KV_BYTES / 16));  // weights",
             f"{WAIT_V}\n        rescale(acc, alpha);  // of the step before\n"
             "        issue_p_v<ELEMENT>(acc, probs, v_desc + v_ring.stage * (KV_BYTES / 16));  // weights"),
            (f"    if (tile.num_kv_tiles > 0) {{\n{WAIT_V}",
             f"    if (tile.num_kv_tiles > 0) {{\n        rescale(acc, alpha);\n{WAIT_V}"),
        ),
    ),
    Right("every tile masked", ((f"        if (kv_start + BLOCK_N > tile.full_end) {MASK}", f"        {MASK}"),)),
    Right("the last V released too", ((f"{LAST_WAIT}\n    }}", f"{LAST_WAIT}\n{RELEASE_V}\n    }}"),)),
    Right("weights of the next step packed under the product", (
        (LOOP, "    unsigned packed[BLOCK_N / 16][4];\n    " + LOOP),
        ("        wgmma_wait_group<0>();  // before",
         "        pack_probs<ELEMENT>(packed, scores);\n        wgmma_wait_group<0>();  // before"),
        ("        rescale(acc, alpha);\n        pack_probs<ELEMENT>(probs, scores);",
         "        rescale(acc, alpha);\n        for (int i = 0; i < BLOCK_N / 4; ++i)"
         "            probs[i / 4][i % 4] = packed[i / 4][i % 4];"),
    )),
    Right("asks for K again and again", (
        (f"{START}        mbarrier_wait_parity(&barriers.k_full[k_ring.stage], k_ring.parity);",
         f"{START}        while (!mbarrier_try_wait_parity(&barriers.k_full[k_ring.stage], k_ring.parity)) {{}}"),
    )),
    Right("counted by the tiles that are left", (
        (START, "for (int left = tile.num_kv_tiles - 1; left > 0; --left) {\n"
         "        const int kv_start = (left - 1) * BLOCK_N;\n"),
    )),
    Right("V released after the weights are packed", (
        (f"{RELEASE_V}\n        v_ring.advance();\n{PACK}", f"{PACK}{RELEASE_V}\n        v_ring.advance();\n"),
    )),
    Right("one loop over all tiles", text=_walk(ONE_LOOP, FIRST_TILE)),
    Right("the scores of the next tile under this softmax", text=_walk(NEXT_SCORES, FIRST_TILE)),
]  # fmt: skip

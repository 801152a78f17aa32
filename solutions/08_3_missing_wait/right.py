"""Right answers to 08.3: the waits in other places."""

from course_lib.grading.exercise.submissions import Right

LOOP_0 = """\
        pack_probs<__half>(probs, scores);
        mbarrier_wait_parity(&barriers.v_full[ring.stage], ring.parity);
        issue_p_v<__half>(acc, probs, walk.v_desc + ring.stage * (TILE_BYTES / 16));
        wgmma_wait_group<0>();
"""
V_WAIT = "        mbarrier_wait_parity(&barriers.v_full[ring.stage], ring.parity);\n"
HEAD_0 = """\
one_after_the_other(const Walk& walk, float (&acc)[TILE / 2]) {
    Barriers& barriers = *walk.barriers;
    float scores[TILE / 2];
    unsigned probs[TILE / 16][4];
    Ring<NUM_STAGES> ring;
    for (int tile = 0; tile < walk.num_tiles; ++tile, ring.advance()) {
"""
RELEASE = "        if (tile > 0 && walk.thread == 0) mbarrier_arrive(&barriers.empty[(tile - 1) % NUM_STAGES]);\n"
END_1 = "    }\n    wgmma_wait_group<0>();\n    wgmma_keep_order(acc);\n"
WAIT_2 = "        wgmma_wait_group<1>();  // the scores are done, acc is in flight\n"
V_OF_2 = "        k_ring.advance();\n        mbarrier_wait_parity(&barriers.v_full[v_ring.stage], v_ring.parity);\n"
PV = "        issue_p_v<__half>(acc, probs, walk.v_desc + ring.stage * (TILE_BYTES / 16));\n"
PACKED = "        pack_probs<__half>(probs, scores);\n"
BY_STAGE = """\
        if (tile > 0) {
            if (walk.thread == 0) mbarrier_arrive(&barriers.empty[last_stage]);
            last_stage = (last_stage + 1) % NUM_STAGES;
        }
"""
PART_1 = "wait_in_the_next_turn(const Walk& walk, float (&acc)[TILE / 2]) {\n"
AT_ONCE = (
    "        wgmma_wait_group<0>();\n        if (walk.thread == 0) mbarrier_arrive(&barriers.empty[ring.stage]);\n"
)

ANSWERS = [
    Right("loop 0: both waits at the top", (
        (LOOP_0, LOOP_0.replace(V_WAIT, "")), (HEAD_0, HEAD_0 + V_WAIT))),
    Right("loop 0: asking again and again", (
        (LOOP_0, LOOP_0.replace("mbarrier_wait_parity(", "while (!mbarrier_try_wait_parity(").replace(
            "ring.parity);", "ring.parity)) {}")),)),
    Right("loop 0: a lane of each warp waits", (
        (LOOP_0, LOOP_0.replace(
            V_WAIT, "        if (walk.thread % 32 == 0)\n    " + V_WAIT + "        __syncwarp();\n")),)),
    Right("loop 1: a ring of its own for the release", (
        (RELEASE, BY_STAGE),
        (PART_1, PART_1 + "    int last_stage = 0;\n"))),
    Right("loop 1: waited for and released at once", ((RELEASE, ""), (END_1, AT_ONCE + END_1))),
    Right("loop 1: released after the weights are packed", (
        (RELEASE, ""), (PACKED + V_WAIT + PV + END_1, PACKED + RELEASE + V_WAIT + PV + END_1))),
    Right("loop 1: V waited for before the scores are scaled", (
        (RELEASE, V_WAIT + RELEASE), (PACKED + V_WAIT + PV + END_1, PACKED + PV + END_1))),
    Right("loop 2: asking again and again", (
        (V_OF_2, V_OF_2.replace("mbarrier_wait_parity(", "while (!mbarrier_try_wait_parity(").replace(
            "v_ring.parity);", "v_ring.parity)) {}")),)),
    Right("loop 0: a flag, and a loop until it is set", (
        (LOOP_0, LOOP_0.replace("mbarrier_wait_parity(", "for (bool landed = false; !landed;) landed = "
                                "mbarrier_try_wait_parity(")),)),
    Right("loop 2: the scores waited for before the product with V", (
        (WAIT_2, ""), (V_OF_2, "        wgmma_wait_group<0>();\n" + V_OF_2))),
]  # fmt: skip

"""Mistakes in the ladder of flash_attention_3, each an edit of a rung, with words of the finding that it must get."""

from dataclasses import dataclass

RUNG_1, RUNG_3, RUNG_4, RUNG_5 = "01_wgmma", "03_producer_consumer", "04_overlap", "05_ping_pong"
RUNG_6, RUNG_7 = "06_tuned", "07_persistent"
WRONG_NUMBERS = "wrong numbers"  # no rule is broken: the bytes are those of another part of the tile


@dataclass(frozen=True)
class Mutant:
    """`says`: alternatives, of which each schedule must get one, as words of a finding or as its kind."""

    name: str
    rung: str
    says: tuple
    edits: tuple  # (find, replace); each `find` is once in the rung


WAIT_K = "mbarrier_wait_parity(&barriers.k_full[ring.stage], ring.parity);"
WAIT_V = "mbarrier_wait_parity(&barriers.v_full[ring.stage], ring.parity);"
WAIT_Q = "if (tile.num_kv_tiles > 0) mbarrier_wait_parity(&barriers.q_full, 0);"
WAIT_SCORES = "wgmma_wait_group<0>();\n        wgmma_keep_order(scores);"
WAIT_0 = "wgmma_wait_group<0>();  // before it, neither acc nor probs"
WAIT_1 = "wgmma_wait_group<1>();"
EMPTY_K = "mbarrier_wait_parity(&barriers.k_empty[ring.stage], ring.parity ^ 1);"
EMPTY_V = EMPTY_K.replace("k_empty", "v_empty")
EXPECT = "mbarrier_arrive_expect_tx(k_full, KV_BYTES)"
FREE_K = "if (thread == 0) mbarrier_arrive(&barriers.k_empty[ring.stage]);"
FREE_V = "if (thread == 0) mbarrier_arrive(&barriers.v_empty[v_ring.stage]);\n        v_ring.advance();"
FREE_Q = "mbarrier_arrive(&barriers.q_empty[q_ring.stage]);"
K_DESC = "wgmma_descriptor(k_smem, 16, 8 * PANEL_ROW_BYTES)"
V_DISTANCE = "wgmma_descriptor(v_smem, BLOCK_N * PANEL_ROW_BYTES"
INIT_EMPTY = "mbarrier_init(&barriers.k_empty[stage], NUM_CONSUMERS)"
ISSUE_P_V = "issue_p_v<ELEMENT>(acc, probs, v_desc + ring.stage"
OUT_BARRIER = "named_barrier_sync(FIRST_OUT_BARRIER + consumer, 128);  // separates the consumer's"
SYNC_INIT = "__syncthreads();  // separates the initialisation"
FIRST_TURN = "if (consumer == NUM_CONSUMERS - 1 && tile.num_kv_tiles > 1) named_barrier_arrive(next_turn, 256);"
OUT = "out_smem = v_smem + NUM_STAGES * KV_BYTES;"
Q_DESC = "const unsigned long long q_desc = first"
STORED = "if (thread == 0) bulk_wait_group_read<0>();"

NOT_LANDED = ("which the bulk load of",)
IN_FLIGHT = ("while the wgmma of line",)
READ = ("which the wgmma of line",)
STORE_READS = ("which the bulk store of",)
OVERWRITES = ("writes 16 bytes", "have come already")
NO_FENCE = ("without fence_proxy_async()",)


def mutant(name, rung, says, *edits):
    return Mutant(name, rung, says, edits)


MUTANTS = (
    # waits
    mutant("no wait for K", RUNG_3, NOT_LANDED, (WAIT_K, "")),
    mutant("no wait for V", RUNG_3, NOT_LANDED, (WAIT_V, "")),
    mutant("no wait for Q", RUNG_3, NOT_LANDED, (WAIT_Q, "")),
    mutant("no wait 1", RUNG_4, IN_FLIGHT, (WAIT_1, "")),
    mutant("no wait 0", RUNG_4, IN_FLIGHT, (WAIT_0, "//")),
    mutant("no wait for the scores", RUNG_3, IN_FLIGHT, (WAIT_SCORES, "")),
    mutant("parity swapped by the consumers", RUNG_3, (*NOT_LANDED, "wait forever for parity 1 of the mbarrier"),
           (WAIT_K, WAIT_K.replace("ring.parity)", "ring.parity ^ 1)"))),
    mutant("parity swapped by the producer", RUNG_3, ("wait forever for parity 0 of the mbarrier",),
           (EMPTY_K, EMPTY_K.replace(" ^ 1", ""))),
    mutant("no wait for an empty K", RUNG_3, OVERWRITES, (EMPTY_K, "")),
    mutant("no wait for an empty V", RUNG_3, OVERWRITES, (EMPTY_V, "")),
    # bytes and arrivals
    mutant("bytes halved", RUNG_3, ("expected 16,384 bytes", *NOT_LANDED), (EXPECT, EXPECT.replace("S)", "S / 2)"))),
    mutant("bytes doubled", RUNG_3, ("65,536 bytes are expected, 32,768 arrived",),
           (EXPECT, EXPECT.replace("S)", "S * 2)"))),
    mutant("bytes absent", RUNG_3, NOT_LANDED, (EXPECT, "mbarrier_arrive(k_full)")),
    mutant("too few arrivals", RUNG_3, READ, (INIT_EMPTY, INIT_EMPTY.replace("NUM_CONSUMERS", "1"))),
    mutant("too many arrivals", RUNG_3, ("wait forever",), (INIT_EMPTY, INIT_EMPTY.replace("NUM", "128 * NUM"))),
    # not in 04: there the producer's wait for V, which is released later, covers the product with K
    mutant("K released before its product is done", RUNG_3, READ, (FREE_K + "  // the producer", "//"),
           (WAIT_SCORES, FREE_K + WAIT_SCORES)),
    mutant("V released before its product is done", RUNG_4, READ, (FREE_V, ""), (WAIT_1, FREE_V + WAIT_1)),
    mutant("Q released before its products", RUNG_7, (*READ, *NOT_LANDED), (FREE_Q, "//"),
           (Q_DESC, FREE_Q + Q_DESC)),
    # proxies
    mutant("no proxy fence before the store", RUNG_6, NO_FENCE, ("fence_proxy_async();  ", "//")),
    mutant("no proxy fence before the products", RUNG_1, NO_FENCE, ("fence_proxy_async();  ", "//")),
    mutant("no barrier before the store", RUNG_6, ("with no barrier between them",), (OUT_BARRIER, "//")),
    mutant("barriers not fenced", RUNG_3, ("without fence_mbarrier_init()",), ("fence_mbarrier_init();", "")),
    mutant("no barrier after the initialisation", RUNG_3, ("with no barrier of the block between",), (SYNC_INIT, "//")),
    # descriptors
    mutant("wrong swizzle", RUNG_3, ("says the swizzle of 64 bytes",),
           (K_DESC, K_DESC.replace("BYTES)", "BYTES, SWIZZLE_64B)"))),
    mutant("wrong stride", RUNG_3, ("stride_bytes = 512",), (K_DESC, K_DESC.replace("8 *", "4 *"))),
    mutant("wrong distance of panels", RUNG_3, (WRONG_NUMBERS,), (V_DISTANCE, V_DISTANCE + " / 2")),
    mutant("wrong step along k", RUNG_3, (WRONG_NUMBERS, "bad_wgmma"), ("k_desc + ring.st", "k_desc + 4 + ring.st")),
    # registers in flight
    mutant("P packed early", RUNG_4, IN_FLIGHT, (WAIT_0, "pack_probs<ELEMENT>(probs, scores);\n" + WAIT_0)),
    mutant("acc rescaled early", RUNG_4, IN_FLIGHT, (WAIT_0, "rescale(acc, alpha);\n" + WAIT_0)),
    # warps, registers, turns
    mutant("one warp absent", RUNG_3, ("warp 3",), (ISSUE_P_V, "if (thread < 96) " + ISSUE_P_V)),
    mutant("registers oversubscribed", RUNG_3, ("setmaxnreg",), ("? 240 : 160)", "? 248 : 168)")),
    mutant("wrong count at a named barrier", RUNG_5, ("gives named barrier 1 a count of 128 threads",),
           ("named_barrier_sync(own_turn, 256)", "named_barrier_sync(own_turn, 128)")),
    mutant("the first turn never given", RUNG_5, ("named barrier",), (FIRST_TURN, "")),
    # the persistent kernel
    mutant("out over Q", RUNG_7, STORE_READS, (OUT, "out_smem = q_smem;")),
    mutant("the last store not awaited", RUNG_7, STORE_READS, (STORED, "")),
)  # fmt: skip

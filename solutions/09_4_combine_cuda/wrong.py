"""Wrong answers to 09.4, each an edit of answer.cu."""

from course_lib.grading.exercise.submissions import Wrong

WALK = "for (int s = threadIdx.x; s < num_splits; s += WARP_SIZE)"
PARTIAL_LSE = "partial_lse[s * (size_t)num_rows + row]"
M_LOOP = f"{WALK} m = fmaxf(m, {PARTIAL_LSE});"
M = "m = warp_max(m);"
L_LOOP = WALK + " {"
WEIGHT = f"const float weight = exp_shifted({PARTIAL_LSE}, m);"
L_ADD = "l += weight;"
L = "l = warp_sum(l);"
DIVIDE = f"{WALK} weight_smem[s] /= l > 0.0f ? l : 1.0f;"
LSE = "if (threadIdx.x == 0) lse[row] = m + logf(l);  // without a key: -inf\n    }\n"
BARRIER = "__syncthreads();  // separates the first warp's writes of the weights from all reads"
COLUMNS = "for (int d = threadIdx.x; d < HEAD_DIM; d += NUM_THREADS) {"
SPLITS = "for (int s = 0; s < num_splits; ++s) {"
GUARD = "if (weight > 0.0f) acc"
ADD = "acc += weight * partial_out[(s * (size_t)num_rows + row) * HEAD_DIM + d];"
AT = "(s * (size_t)num_rows + row) * HEAD_DIM + d];"
OUT = "out[row * HEAD_DIM + d] = acc;"
COUNT = f"int empty = 0; for (int s = 0; s < num_splits; ++s) empty += {PARTIAL_LSE} == NEG_INF;"

ANSWERS = [
    # threads
    Wrong("no barrier", ((BARRIER, ""),), "race", "shared memory"),
    Wrong(
        "barrier inside the if",
        ((BARRIER, ""), (LSE, LSE.replace("    }\n", "    __syncthreads();\n    }\n"))),
        "divergent_barrier",
        "",
    ),
    Wrong(
        "32 splits at most",
        (
            (M_LOOP, M_LOOP.replace("num_splits", "min(num_splits, 32)")),
            (L_LOOP, L_LOOP.replace("num_splits", "min(num_splits, 32)")),
            (DIVIDE, DIVIDE.replace("num_splits", "min(num_splits, 32)")),
            (SPLITS, SPLITS.replace("num_splits", "min(num_splits, 32)")),
        ),
        "splits_beyond_lanes",
        "walk on",
    ),
    Wrong(
        "weights of 32 splits",
        ((SPLITS, SPLITS.replace("num_splits", "min(num_splits, 32)")),),
        "splits_beyond_lanes",
        "went into out",
    ),
    Wrong("a lane's maximum", ((M, ""),), "own_maximum", "warp_max"),
    Wrong("a lane's sum", ((L, ""),), "sum_of_a_lane", "must be added"),
    Wrong(
        "all splits by every lane, then added",
        ((L_ADD, ""), (L, f"{SPLITS} l += exp_shifted({PARTIAL_LSE}, m); }}\n        {L}")),
        "counted_by_every_lane",
        "every lane",
    ),
    Wrong("64 columns of 128", ((COLUMNS, "{ const int d = threadIdx.x;"),), "unwritten", "column"),
    # the weights
    Wrong(
        "plain mean",
        ((WEIGHT, f"const float weight = {PARTIAL_LSE} == NEG_INF ? 0.0f : 1.0f;"),),
        "plain_mean",
        "plain mean",
    ),
    Wrong("never divided", ((DIVIDE, ""),), "no_division", "never divided"),
    Wrong(
        "weighed by lse",
        ((WEIGHT, f"const float weight = {PARTIAL_LSE} == NEG_INF ? 0.0f : {PARTIAL_LSE};"),),
        "weights_are_lse",
        "its exponential",
    ),
    Wrong(
        "inverse weight",
        ((WEIGHT, f"const float weight = {PARTIAL_LSE} == NEG_INF ? 0.0f : expf(m - {PARTIAL_LSE});"),),
        "inverse_weight",
        "sign",
    ),
    Wrong(
        "exp2 of a natural logarithm",
        ((WEIGHT, f"const float weight = exp2f({PARTIAL_LSE} - m);"),),
        "exp_exp2_mix",
        "2 to the",
    ),
    Wrong("no maximum", ((M, "m = 0.0f;"),), "no_max", "exp(100)"),
    Wrong(
        "weights in half",
        ((ADD, "acc += (float)(int)(weight * 2048.0f) / 2048.0f * " + ADD.split("weight * ")[1]),),
        "low_precision",
        "Nearly right",
    ),
    # lse
    Wrong("lse in base 2", ((LSE, LSE.replace("m + logf(l)", "(m + logf(l)) * LOG2_E")),), "lse_base_2", "base 2"),
    Wrong("log2 of l", ((LSE, LSE.replace("logf(l)", "log2f(l)")),), "lse_base_2", "natural m"),
    Wrong("lse without the maximum", ((LSE, LSE.replace("m + logf(l)", "logf(l)")),), "lse_without_max", "add m again"),
    Wrong("the largest lse", ((LSE, LSE.replace("m + logf(l)", "m")),), "lse_max_alone", "log of the sum"),
    Wrong("lse not written", ((LSE, "}\n"),), "unwritten", "lse"),
    # splits without keys
    Wrong("0 times NaN", ((GUARD, "acc"),), "empty_split", "0 times NaN"),
    Wrong(
        "1000 too much where only some splits are empty",
        ((OUT, f"{COUNT} {OUT.replace('acc', 'acc + (empty > 0 && empty < num_splits ? 1000.0f : 0.0f)')}"),),
        "empty_split",
        "must give what they give alone",
    ),
    Wrong(
        "plain mean where only some splits are empty",
        (
            (
                OUT,
                f"{COUNT} if (empty > 0 && empty < num_splits) {{ acc = 0.0f; {SPLITS} if ({PARTIAL_LSE} > NEG_INF) "
                f"{ADD.replace('weight', '1.0f / (num_splits - empty)')} }} }} {OUT}",
            ),
        ),
        "plain_mean",
        "only adds a weight of 0",
    ),
    Wrong(
        "-inf minus -inf", ((WEIGHT, f"const float weight = expf({PARTIAL_LSE} - m);"),), "all_empty", "-inf minus -inf"
    ),
    Wrong(
        "0 / 0 hidden by the guard, lse of nothing",
        ((LSE, LSE.replace("m + logf(l)", "m + logf(fmaxf(l, 1e-20f))")), (M, "m = fmaxf(warp_max(m), -1e30f);")),
        "all_empty",
        "0 exactly",
    ),
    Wrong("m starts at 0", ((M_LOOP, "m = 0.0f; " + M_LOOP),), "no_max", "-200"),
    Wrong(
        "the last split left out",
        ((SPLITS, SPLITS.replace("s < num_splits", "s < num_splits - 1")),),
        "split_dropped",
        "last split",
    ),
    # addresses
    Wrong(
        "partial_lse with the row first",
        (
            (M_LOOP, M_LOOP.replace("s * (size_t)num_rows + row", "row * num_splits + s")),
            (WEIGHT, WEIGHT.replace("s * (size_t)num_rows + row", "row * num_splits + s")),
        ),
        "places_moved",
        "are contiguous",
    ),
    Wrong(
        "partial_out with the row first",
        ((ADD, ADD.replace("s * (size_t)num_rows + row", "row * num_splits + s")),),
        "places_moved",
        "10 s + r",
    ),
    Wrong("row forgotten in partial_out", ((ADD, ADD.replace(" + row)", ")")),), "row_forgotten", "row 0"),
    Wrong("row forgotten in out", ((OUT, "out[d] = acc;"),), "race", "out"),
]

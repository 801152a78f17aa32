"""Right answers to 09.4 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

WALK = "for (int s = threadIdx.x; s < num_splits; s += WARP_SIZE)"

KEPT = "{ weight_smem[s] = partial_lse[s * (size_t)num_rows + row]; m = fmaxf(m, weight_smem[s]); }"
INT_OFFSET = "acc += weight * partial_out[(s * num_rows + (int)row)"

PAIR_OF_COLUMNS = (
    (
        "for (int d = threadIdx.x; d < HEAD_DIM; d += NUM_THREADS) {\n        float acc = 0.0f;",
        "{\n        const int d = threadIdx.x;\n        float2 acc = make_float2(0.0f, 0.0f);",
    ),
    (
        "if (weight > 0.0f) acc += weight * partial_out[(s * (size_t)num_rows + row) * HEAD_DIM + d];",
        "if (weight == 0.0f) continue;\n            const float2 pair = reinterpret_cast<const float2*>(partial_out)"
        "[(s * (size_t)num_rows + row) * NUM_THREADS + d];\n            acc.x += weight * pair.x;\n"
        "            acc.y += weight * pair.y;",
    ),
    ("out[row * HEAD_DIM + d] = acc;", "reinterpret_cast<float2*>(out)[row * NUM_THREADS + d] = acc;"),
)

ANSWERS = [
    Right(
        "partial_lse read once, kept in weight_smem",
        (
            ("m = fmaxf(m, partial_lse[s * (size_t)num_rows + row]);", KEPT),
            ("exp_shifted(partial_lse[s * (size_t)num_rows + row], m)", "exp_shifted(weight_smem[s], m)"),
        ),
    ),
    Right("a pair of neighbouring columns a thread", PAIR_OF_COLUMNS),
    Right("offsets in int", (("acc += weight * partial_out[(s * (size_t)num_rows + row)", INT_OFFSET),)),
    Right("m starts at -1e30", (("float m = NEG_INF, l = 0.0f;", "float m = -1e30f, l = 0.0f;"),)),
    Right("every lane of the warp writes lse", (("if (threadIdx.x == 0) lse[row]", "lse[row]"),)),
    Right(
        "divided at the end",
        (
            (f"{WALK} weight_smem[s] /= l > 0.0f ? l : 1.0f;", ""),
            ("float acc = 0.0f;", "float acc = 0.0f, l = 0.0f;"),
            ("if (weight > 0.0f) acc", "l += weight;\n            if (weight > 0.0f) acc"),
            ("= acc;", "= l > 0.0f ? acc / l : 0.0f;"),
        ),
    ),
    Right(
        "weights in base 2, from lse itself",
        (
            (
                "exp_shifted(partial_lse[s * (size_t)num_rows + row], m)",
                "m == NEG_INF ? 0.0f : exp2f((partial_lse[s * (size_t)num_rows + row] - m) * LOG2_E)",
            ),
        ),
    ),
]

"""Right answers to 06.3 that look different from the solution."""

from course_lib.grading.contestants import Right

ANSWERS = [
    Right(
        "base 2",
        (
            (
                "const float old_sum = l_old * exp_shifted(m_old, m_new);",
                "const float old_sum = l_old * exp2f((m_old - m_new) * LOG2_E);",
            ),
        ),
    ),
    Right(
        "a barrier more",
        (
            (
                "__syncthreads();  // separates the loads from everybody's reads",
                "__syncthreads();\n        __syncthreads();",
            ),
        ),
    ),
    Right(
        "division as a product",
        (
            (
                "out[(size_t)q_row * HEAD_DIM + d] = acc / l_new;",
                "out[(size_t)q_row * HEAD_DIM + d] = acc * (1.0f / l_new);",
            ),
        ),
    ),
    Right(
        "q scaled before the product",
        (
            (
                "const float q_d = q[(size_t)q_row * HEAD_DIM + d];",
                "const float q_d = q[(size_t)q_row * HEAD_DIM + d] * softmax_scale;",
            ),
            (
                "probs[tile_key] = tile_key < num_keys ? probs[tile_key] * softmax_scale : NEG_INF;",
                "probs[tile_key] = tile_key < num_keys ? probs[tile_key] : NEG_INF;",
            ),
        ),
    ),
]

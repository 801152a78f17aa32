"""Right answers to 10.2 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

ANSWERS = [
    Right(
        "one pool after the other",
        (
            ("        k_pages[start + d] = k_row[d];\n", ""),
            (
                "        v_pages[start + d] = v_row[d];\n    }",
                "        k_pages[start + d] = k_row[d];\n    }\n"
                "    for (int d = head_dim - 1 - (int)threadIdx.x; d >= 0; d -= 32) v_pages[start + d] = v_row[d];",
            ),
        ),
    ),
    Right(
        "pointers to the row of each pool",
        (
            (
                "const long long slot = slot_mapping[token];",
                "const long long slot = slot_mapping[token], page = slot / page_size;",
            ),
            ("    const long long page = slot / page_size, offset = slot % page_size;\n", ""),
            (
                "const long long start = page * stride_page + offset * stride_slot + kv_head * stride_kv_head;",
                "const long long start = page * (stride_page - page_size * stride_slot) + "
                "slot * stride_slot + kv_head * stride_kv_head;",
            ),
        ),
    ),
    Right(
        "lane 0 reads the slot",
        (
            (
                "    const long long slot = slot_mapping[token];",
                (
                    "    long long slot = threadIdx.x == 0 ? slot_mapping[token] : 0;\n"
                    "    slot = __shfl_sync(0xffffffffu, slot, 0);"
                ),
            ),
        ),
    ),
    Right(
        "backwards",
        (
            (
                "    for (int d = threadIdx.x; d < head_dim; d += WARP_SIZE) {",
                "    for (int d = head_dim - 1 - (int)threadIdx.x; d >= 0; d -= WARP_SIZE) {",
            ),
        ),
    ),
    Right(
        "vectors",
        (
            (
                (
                    "    for (int d = threadIdx.x; d < head_dim; d += WARP_SIZE) {\n"
                    "        k_pages[start + d] = k_row[d];\n"
                    "        v_pages[start + d] = v_row[d];\n"
                    "    }"
                ),
                (
                    "    const bool aligned = head_dim % 4 == 0 && ((unsigned long long)k_row | (unsigned "
                    "long long)v_row | (unsigned long long)(k_pages + start) | (unsigned long "
                    "long)(v_pages + start)) % 16 == 0;\n"
                    "    if (aligned) {\n"
                    "        for (int d = threadIdx.x; d < head_dim / 4; d += WARP_SIZE) {\n"
                    "            ((int4*)(k_pages + start))[d] = ((const int4*)k_row)[d];\n"
                    "            ((int4*)(v_pages + start))[d] = ((const int4*)v_row)[d];\n"
                    "        }\n"
                    "        return;\n"
                    "    }\n"
                    "    for (int d = threadIdx.x; d < head_dim; d += WARP_SIZE) {\n"
                    "        k_pages[start + d] = k_row[d];\n"
                    "        v_pages[start + d] = v_row[d];\n"
                    "    }"
                ),
            ),
        ),
    ),
]

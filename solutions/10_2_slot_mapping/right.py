"""Right answers to 10.2 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

ANSWERS = [
    Right(
        "one pool after the other",
        (
            ("        k_pages[start + d] = k_row[d];\n", ""),
            ("        v_pages[start + d] = v_row[d];\n    }", "        k_pages[start + d] = k_row[d];\n    }\n"
             "    for (int d = head_dim - 1 - (int)threadIdx.x; d >= 0; d -= 32) v_pages[start + d] = v_row[d];"),
        ),
    ),
    Right(
        "pointers to the row of each pool",
        (
            ("const long long slot = slot_mapping[token];",
             "const long long slot = slot_mapping[token], page = slot / page_size;"),
            ("    const long long page = slot / page_size, offset = slot % page_size;\n", ""),
            (
                "const long long start = page * stride_page + offset * stride_slot + kv_head * stride_kv_head;",
                "const long long start = page * (stride_page - page_size * stride_slot) + "
                "slot * stride_slot + kv_head * stride_kv_head;",
            ),
        ),
    ),
]  # fmt: skip

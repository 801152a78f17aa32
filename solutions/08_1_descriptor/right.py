"""Right answers to 08.1: the same bits, put together in other ways."""

from course_lib.grading.exercise.submissions import Right

STEP = "const int step_bytes = is_mn ? step * 16 * PANEL_ROW : step / 4 * panel_bytes + step % 4 * 32;"
LEADING = "const unsigned long long leading = panel_bytes, stride = 8 * PANEL_ROW;"
LEADING_OF = LEADING.replace("= panel_bytes", "= is_mn ? panel_bytes : {}")
ADDRESS = "const unsigned long long address = __cvta_generic_to_shared(operand_smem) + step_bytes;"
BODY = """\
    descriptor |= (address & 0x3ffff) >> 4;
    descriptor |= (leading & 0x3ffff) >> 4 << 16;  // used where the operand's rows cross a panel
    descriptor |= (stride & 0x3ffff) >> 4 << 32;   // 8 rows of the tile further
    descriptor |= 1ull << 62;                      // swizzle of 128 bytes
"""
FIELDS = """\
    const unsigned first = (unsigned)__cvta_generic_to_shared(operand_smem) / 16;
    const unsigned low = first + step_bytes / 16 | (is_mn ? panel_rows * 8u : 0u) << 16;
    const unsigned high = 64u | 1u << 30;
    descriptor = low | (unsigned long long)high << 32;
"""

ANSWERS = [
    Right(
        "no leading dimension where k runs along the rows",
        ((LEADING, LEADING.replace("= panel_bytes", "= is_mn ? panel_bytes : 0")),),
    ),
    Right(
        "16 as the leading dimension there, as CUTLASS writes it",
        ((LEADING, LEADING.replace("= panel_bytes", "= is_mn ? panel_bytes : 16")),),
    ),
    Right("two halves of 32 bits", ((ADDRESS, ""), (LEADING, ""), (BODY, FIELDS))),
    Right(
        "the common helper",
        (
            (ADDRESS, ""),
            (LEADING, ""),
            (
                BODY,
                "    const char* begins_smem = (const char*)operand_smem + step_bytes;\n"
                "    descriptor = wgmma_descriptor(begins_smem, panel_bytes, 8 * PANEL_ROW);\n",
            ),
        ),
    ),
    Right(
        "columns first",
        (
            (
                STEP,
                "const int column = is_mn ? 0 : step * 16, row = is_mn ? step * 16 : 0;\n    const int step_bytes = "
                "column / "
                "PANEL_COLS * panel_bytes + column % PANEL_COLS * 2 + row * PANEL_ROW;",
            ),
        ),
    ),
    Right(
        "the first step's descriptor, moved on",
        (
            (ADDRESS, "const unsigned long long address = __cvta_generic_to_shared(operand_smem);"),
            (
                BODY,
                "    descriptor = 1ull << 62 | stride / 16 << 32 | leading / 16 << 16 | address / 16;\n"
                "    descriptor += step_bytes / 16;\n",
            ),
        ),
    ),
    Right(
        "step after step",
        (
            (
                STEP,
                "int step_bytes = 0;\n    for (int i = 0; i < step; ++i)\n        step_bytes += is_mn ? 16 * "
                "PANEL_ROW : i % 4 == 3 ? panel_bytes - 96 : 32;",
            ),
        ),
    ),
    Right(
        "from the highest field down",
        (
            (
                BODY,
                "    for (unsigned long long field : {1ull << 14, 64ull, leading / 16, address / 16})\n"
                "        descriptor = descriptor << 16 | field;\n",
            ),
        ),
    ),
    Right(
        "added in place of or'ed",
        ((BODY, "    descriptor = (1ull << 62) + (stride / 16 << 32) + (leading / 16 << 16) + address / 16;\n"),),
    ),
]

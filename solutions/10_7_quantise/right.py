"""Right answers to 10.7 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

ANSWERS = [
    Right(
        "multiplied by the inverse, rounded away from 0",
        (
            (
                "const float small = largest > 0.0f ? rintf(value / scale) : 0.0f;",
                "const float inverse = largest > 0.0f ? 127.0f / largest : 0.0f;\n"
                "    const int small = (int)(value * inverse + copysignf(0.5f, value));",
            ),
        ),
    ),
    Right(
        "a row of zeros with a scale of 1",
        (
            ("const float scale = largest / 127.0f;", "const float scale = largest > 0.0f ? largest / 127.0f : 1.0f;"),
            ("largest > 0.0f ? rintf(value / scale) : 0.0f", "rintf(value / scale)"),
        ),
    ),
    Right(
        "int rounding",
        (
            (
                "    const float small = largest > 0.0f ? rintf(value / scale) : 0.0f;  // -127 to 127",
                "    const int small = largest > 0.0f ? __float2int_rn(value / scale) : 0;",
            ),
        ),
    ),
    Right(
        "own reduction",
        (
            (
                "    const float largest = warp_max(fabsf(value));",
                (
                    "    float largest = fabsf(value);\n"
                    "    for (int s = 16; s > 0; s >>= 1) largest = fmaxf(largest, "
                    "__shfl_xor_sync(0xffffffffu, largest, s));"
                ),
            ),
        ),
    ),
    Right(
        "char4 by a quarter of the lanes",
        (
            (
                "    pages[row * HEAD_DIM + lane] = (signed char)small;",
                (
                    "    int packed = 0;\n"
                    "    for (int i = 0; i < 4; ++i) packed |= ((int)__shfl_sync(0xffffffffu, small, (lane "
                    "% 8) * 4 + i) & 255) << (8 * i);\n"
                    "    if (lane < 8) ((int*)(pages + row * HEAD_DIM))[lane] = packed;"
                ),
            ),
        ),
    ),
    Right(
        "last lane writes the scale",
        (("    if (lane == 0) scales[row] = scale;", "    if (lane == 31) scales[row] = scale;"),),
    ),
]

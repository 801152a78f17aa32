"""Right answers to 12.5 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

ANSWERS = [
    Right(
        "sums of x for the zeros, products for the numbers",
        (
            ("        float part = 0.0f;\n", "        float part = 0.0f, of_x = 0.0f;\n"),
            (
                "            part += ((float)number - zero) * x[8 * i + j];\n",
                "            const float value = x[8 * i + j];\n"
                "            part += (float)number * value;\n"
                "            of_x += value;\n",
            ),
            ("        sum += scales[which] * part;\n", "        sum += scales[which] * (part - zero * of_x);\n"),
        ),
    ),
    Right(
        "shifted word, x in two vectors of four",
        (
            (
                "        for (int j = 0; j < 8; ++j) {\n"
                "            const unsigned number = (word >> (4 * j)) & 15u;\n"
                "            part += ((float)number - zero) * x[8 * i + j];\n"
                "        }\n",
                "        const float4 low = ((const float4*)x)[2 * i], high = ((const float4*)x)[2 * i + 1];\n"
                "        const float values[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};\n"
                "        unsigned rest = word;\n"
                "        for (int j = 0; j < 8; ++j, rest >>= 4) {\n"
                "            part += ((float)(rest & 15u) - zero) * values[j];\n"
                "        }\n",
            ),
        ),
    ),
    Right(
        "a number at a time scaled, lanes from the end",
        (
            (
                "for (int i = lane; i < num_words; i += WARP_SIZE)",
                "for (int i = num_words - 1 - lane; i >= 0; i -= 32)",
            ),
            ("        float part = 0.0f;\n", "        const float scale = scales[which];\n"),
            ("            part += ((float)number - zero)", "            sum += scale * ((float)number - zero)"),
            ("        sum += scales[which] * part;\n", ""),
        ),
    ),
]

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
]

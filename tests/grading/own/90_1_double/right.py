"""Right answers to 90.1 that look different."""

from course_lib.grading.exercise.submissions import Right

ANSWERS = [Right("a sum", (("return 2 * x", "return x + x"),))]

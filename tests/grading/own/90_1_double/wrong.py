"""Wrong answers to 90.1."""

from course_lib.grading.exercise.submissions import Wrong

RETURN = "return 2 * x"
ANSWERS = [
    Wrong("three times", ((RETURN, "return 3 * x"),), "wrong_factor", "it is 3"),
    Wrong("a copy", ((RETURN, "return x.clone()"),), "copy_of_input"),
    Wrong("zeros", ((RETURN, "return 0 * x"),), "all_zeros"),
]

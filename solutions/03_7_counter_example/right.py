"""Right answers to 03.7 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

ROW = "torch.full((8,), -200.0)"

ANSWERS = [
    Right("one score", ((ROW, "torch.tensor([-150.0])"),)),
    Right("just below the last subnormal", ((ROW, "torch.full((3,), -104.5)"),)),
    Right("long and different", ((ROW, "torch.linspace(-130.0, -120.0, 500)"),)),
    Right("the lowest scores that float32 holds", ((ROW, "torch.tensor([-3.4e38, -1e30, -3.4e38])"),)),
    Right("as many as the contract allows, of one number in memory", ((ROW, "torch.tensor([-110.0]).expand(4096)"),)),
]

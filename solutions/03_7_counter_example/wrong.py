"""Wrong answers to 03.7, each an edit of answer.py."""

from course_lib.grading.exercise.submissions import Wrong

ROW = "torch.full((8,), -200.0)"

ANSWERS = [
    Wrong("positive scores", ((ROW, "torch.arange(1.0, 9.0)"),), "harmless_row", "at least 0"),
    Wrong(
        "one score is positive",
        ((ROW, "torch.tensor([-200.0, -300.0, 5.0])"),),
        "harmless_row",
        "largest score of your row is 5",
    ),
    Wrong("mildly negative", ((ROW, "torch.full((8,), -5.0)"),), "harmless_row", "exp(-5) = 0.0067"),
    Wrong("large and positive", ((ROW, "torch.full((8,), 200.0)"),), "harmless_row", "at least 0"),
    Wrong("all masked", ((ROW, "torch.full((8,), -torch.inf)"),), "not_finite_row", "finite"),
    Wrong("not a number", ((ROW, "torch.full((8,), torch.nan)"),), "not_finite_row", "finite"),
    Wrong("double precision", ((ROW, "torch.full((8,), -200.0, dtype=torch.float64)"),), "wrong_return", "float64"),
    Wrong("a list", ((ROW, "[-200.0] * 8"),), "wrong_return"),
    Wrong("a matrix", ((ROW, "torch.full((2, 4), -200.0)"),), "wrong_return", "shape"),
    Wrong("a long row", ((ROW, "torch.full((5000,), -200.0)"),), "long_row", "5,000 scores"),
    Wrong("400 MB", ((ROW, "torch.full((100_000_000,), -200.0)"),), "wrong_return", "100,000,000 numbers"),
    Wrong("no score at all", ((ROW, "torch.empty(0)"),), "empty_row"),
]

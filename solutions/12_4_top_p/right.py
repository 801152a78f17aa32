"""Right answers to 12.4 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

ANSWERS = [
    Right(
        "thresholds by their bits",
        (
            (
                "    low, high = torch.full_like(top_p, -1.0), probs.amax(dim=1)\n    for _ in range(64):\n"
                "        middle = (low + high) / 2\n"
                "        above = torch.where(probs > middle[:, None], probs, 0.0).sum(dim=1)\n",
                "    bits = probs.view(torch.int32)\n"
                "    high = bits.amax(dim=1).long()\n"
                "    low = torch.full_like(high, -1)\n    for _ in range(33):\n"
                "        middle = torch.div(low + high, 2, rounding_mode='floor')\n"
                "        above = torch.where(bits > middle[:, None], probs, 0.0).sum(dim=1)\n",
            ),
            (
                "    kept = torch.where(probs > low[:, None], probs, 0.0)\n",
                "    kept = torch.where(bits > low[:, None], probs, 0.0)\n",
            ),
        ),
    ),
    Right(
        "searchsorted for the draw",
        (
            (
                "    tokens = (cumulative <= target[:, None]).sum(dim=1)\n",
                "    tokens = torch.searchsorted(cumulative, target[:, None], right=True)[:, 0]\n",
            ),
        ),
    ),
    Right(
        "row by row, the largest level by level",
        (
            (
                "    low, high = torch.full_like(top_p, -1.0), probs.amax(dim=1)\n    for _ in range(64):\n"
                "        middle = (low + high) / 2\n"
                "        above = torch.where(probs > middle[:, None], probs, 0.0).sum(dim=1)\n"
                "        enough = above >= top_p\n"
                "        low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)\n"
                "    kept = torch.where(probs > low[:, None], probs, 0.0)\n",
                "    kept = torch.zeros_like(probs)\n"
                "    for row, left in enumerate(probs.clone()):\n"
                "        while kept[row].sum() < top_p[row] and left.max() > 0:\n"
                "            level = left == left.max()\n"
                "            kept[row, level] = left[level]\n"
                "            left[level] = 0.0\n",
            ),
        ),
    ),
    Right(
        "sums in float64",
        (
            ("probs = torch.softmax(scaled, dim=1)", "probs = torch.softmax(scaled.double(), dim=1)"),
            ("torch.full_like(top_p, -1.0)", "torch.full_like(top_p, -1.0, dtype=torch.float64)"),
        ),
    ),
]

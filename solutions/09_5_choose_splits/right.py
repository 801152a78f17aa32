"""Right answers to 09.5 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

# As FlashAttention writes it: a number counts when it has fewer tiles a split than the number before.
TWO_PASSES = """import math


def choose_num_splits(num_pairs, num_tiles, num_slots):
    efficiency, best = [], 0.0
    for n in range(1, num_tiles + 1):
        eligible = n == 1 or math.ceil(num_tiles / n) != math.ceil(num_tiles / (n - 1))
        waves = num_pairs * n / num_slots
        efficiency.append(waves / math.ceil(waves) if eligible else 0.0)
        best = max(best, efficiency[-1])
    for n, value in enumerate(efficiency, 1):
        if value >= 0.85 * best:
            return n
"""

WHOLE_NUMBERS = """def choose_num_splits(num_pairs, num_tiles, num_slots):
    def idle(n):
        return -num_pairs * n % num_slots

    def allowed(n):
        return sum(1 for start in range(0, num_tiles, (num_tiles + n - 1) // n)) == n

    numbers = [n for n in range(num_tiles, 0, -1) if allowed(n)]
    share = {n: (num_pairs * n, num_pairs * n + idle(n)) for n in numbers}
    best = numbers[0]
    for n in numbers:
        busy, all_of_them = share[n]
        if all(100 * busy * total >= 85 * blocks * all_of_them for blocks, total in share.values()):
            best = n
    return best
"""

SKIPPED = "if (num_splits - 1) * tiles >= num_tiles:"
EQUAL_TILES = "if num_splits > 1 and tiles == -(-num_tiles // (num_splits - 1)):"

ANSWERS = [
    Right("FlashAttention's own form", text=TWO_PASSES),
    Right("whole numbers alone", text=WHOLE_NUMBERS),
    Right("returns a float", (("return min(", "return 1.0 * min("),)),
    Right("as many tiles a split as with one split less", ((SKIPPED, EQUAL_TILES),)),
]

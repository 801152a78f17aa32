"""Lists of triples that an answer returns as one row of numbers.

May import: nothing of the course.
"""


def lists_of_triples(numbers):
    """The lists of a row of numbers: of each list its length in triples, then its triples, one number after another."""
    lists, start = [], 0
    while start < len(numbers):
        end = start + 1 + 3 * numbers[start]
        flat = numbers[start + 1 : end]
        lists.append(list(zip(flat[::3], flat[1::3], flat[2::3], strict=True)))
        start = end
    return lists

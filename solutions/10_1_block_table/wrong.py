"""Wrong answers to 10.1, each an edit of answer.py."""

from course_lib.grading.exercise.submissions import Wrong

TOKENS = "tokens = torch.arange(start, end)"
PAGES = "pages = block_row[tokens // page_size].long()"
SLOTS = "slots = pages * page_size + tokens % page_size"
BEFORE = "pages_before, pages_after = -(-start // page_size), -(-end // page_size)"
NEW = "new_pages = pages_after - pages_before"
UNUSED = "unused = pages_after * page_size - end"


def one(find, text):
    """One edit."""
    return ((find, text),)


ANSWERS = [
    # slots
    Wrong("the token's own number", one(SLOTS, "slots = tokens"), "logical_as_physical", "own number"),
    Wrong("page of the sequence", one(PAGES, "pages = tokens // page_size"), "logical_as_physical", "own number"),
    Wrong("slots in 32 bits", one(SLOTS, SLOTS.replace("= ", "= (") + ").int()"), "wrong_return", "int32"),
    Wrong(
        "int64 too late",
        (
            (PAGES, "pages = block_row[tokens // page_size]"),
            (SLOTS, "slots = (pages * page_size).long() + tokens % page_size"),
        ),
        "int32_overflow",
        "wrapped round",
    ),
    Wrong("start of the page", one(SLOTS, "slots = pages * page_size"), "offset_forgotten", "begins"),
    Wrong("page for slot", one(SLOTS, "slots = pages"), "page_alone", "page alone"),
    Wrong("page plus offset", one(SLOTS, "slots = pages + tokens % page_size"), "page_not_scaled", "page + offset"),
    Wrong(
        "offset times pages",
        one(SLOTS, "slots = pages + tokens % page_size * len(block_row)"),
        "strides_swapped",
        "are contiguous",
    ),
    Wrong(
        "counted from the new tokens",
        one(TOKENS, "tokens = torch.arange(end - start)"),
        "counted_from_start",
        "as if it were token 0",
    ),
    Wrong("one further", one(TOKENS, "tokens = torch.arange(start + 1, end + 1)"), "off_by_one", "the slot of token"),
    Wrong(
        "the last token left out",
        one(TOKENS, "tokens = torch.arange(start, max(start, end - 1))"),
        "wrong_return",
        "shape",
    ),
    # pages
    Wrong("all pages", one(NEW, "new_pages = pages_after"), "whole_sequence", "holds already"),
    Wrong(
        "pages of the new tokens",
        one(NEW, "new_pages = -(-(end - start) // page_size)"),
        "appended_alone",
        "room for",
    ),
    Wrong("rounded down", one(NEW, "new_pages = end // page_size - start // page_size"), "rounded_down", "rounds down"),
    Wrong(
        "one more to be sure",
        one(NEW, "new_pages = end // page_size + 1 - pages_before"),
        "one_too_many",
        "one page too many",
    ),
    # unused
    Wrong(
        "a whole page too much",
        one(UNUSED, "unused = page_size - end % page_size"),
        "no_page_boundary",
        "whole page",
    ),
    Wrong("used for unused", one(UNUSED, "unused = end % page_size"), "used_not_unused", "the others are free"),
    Wrong("before the growth", one(UNUSED, "unused = pages_before * page_size - start"), "before_the_append", "before"),
    Wrong(
        "changes the table",
        one(TOKENS, TOKENS + "\n    block_row[block_row < 0] = 0"),
        "input_modified",
        "block_row",
    ),
]

"""Right answers to 10.1 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

BY_HAND = """import torch


def append_slots(block_row, start, end, page_size):
    slots = []
    for token in range(start, end):
        page, offset = divmod(token, page_size)
        slots.append(int(block_row[page]) * page_size + offset)
    held = [(tokens + page_size - 1) // page_size for tokens in (start, end)]
    return torch.tensor(slots, dtype=torch.int64), held[1] - held[0], (-end) % page_size
"""

ALL_SLOTS = """import torch


def append_slots(block_row, start, end, page_size):
    # every slot of every page, then the part that is asked for
    pages = block_row[block_row >= 0].to(torch.int64)
    every = pages[:, None] * page_size + torch.arange(page_size)
    new_pages = torch.tensor(len(pages) - (start + page_size - 1) // page_size)
    return every.flatten()[start:end], new_pages, len(pages) * page_size - end
"""

ANSWERS = [Right("token by token", text=BY_HAND), Right("a table of all slots", text=ALL_SLOTS)]

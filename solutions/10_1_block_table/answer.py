import torch


def append_slots(block_row, start, end, page_size):
    """(slots, new_pages, unused) of a sequence growing from `start` to `end` tokens. block_row (max_pages,) int32."""
    ### BEGIN SOLUTION
    tokens = torch.arange(start, end)
    pages = block_row[tokens // page_size].long()  # physical pages; int32 times page_size may pass 2^31
    slots = pages * page_size + tokens % page_size
    pages_before, pages_after = -(-start // page_size), -(-end // page_size)
    new_pages = pages_after - pages_before
    unused = pages_after * page_size - end
    ### END SOLUTION
    return slots, new_pages, unused

"""Right answers to 14.6 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

FILL = """    for name, buffer in buffers.items():
        buffer[:batch] = -1 if name == "slots" else 0
    for row, request in enumerate(requests):
        page, offset = divmod(request.num_computed, page_size)
        buffers["token_ids"][row] = request.token
        buffers["positions"][row] = request.num_computed
        buffers["slots"][row] = request.pages[page] * page_size + offset
        buffers["seq_lens"][row] = request.num_computed + 1
        buffers["block_tables"][row, : len(request.pages)] = torch.tensor(request.pages)
"""
COLUMNS = """    count = len(requests)
    computed = torch.tensor([request.num_computed for request in requests])
    tables = torch.zeros_like(buffers["block_tables"])
    for row, request in enumerate(requests):
        for place, page in enumerate(request.pages):
            tables[row, place] = page
    pages = tables[torch.arange(count), computed // page_size]
    columns = {
        "token_ids": torch.tensor([request.token for request in requests]),
        "positions": computed,
        "slots": pages * page_size + computed % page_size,
        "seq_lens": computed + 1,
    }
    for name, column in columns.items():
        buffers[name].fill_(0 if name != "slots" else -1)  # all rows, those after the bucket too
        buffers[name][:count].copy_(column)
    buffers["block_tables"].copy_(tables)
"""

ANSWERS = [
    Right("column by column, all rows of the buffers", ((FILL, COLUMNS),)),
    Right(
        "bisection",
        (
            ("import torch\n", "from bisect import bisect_left\n\nimport torch\n"),
            (
                "    batch = next((size for size in batch_buckets if size >= len(requests)), None)\n"
                "    length = next((size for size in len_buckets if size >= longest), None)\n"
                "    if batch is None or length is None:\n"
                "        return None\n",
                "    where = bisect_left(batch_buckets, len(requests)), bisect_left(len_buckets, longest)\n"
                "    if where[0] == len(batch_buckets) or where[1] == len(len_buckets):\n"
                "        return None\n"
                "    batch, length = batch_buckets[where[0]], len_buckets[where[1]]\n",
            ),
            ("    return batch, length\n", "    return [batch, length]\n"),
        ),
    ),
]

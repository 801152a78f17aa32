"""Right answers to 15.8 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

SEND = """    world.send(seq_lens, 1)
    tokens = kv.flatten(2, 3)[:, :, slots(table, seq_lens, kv.shape[3])]
    world.send(tokens, 1)
"""
RECEIVE = """    layers, _, _, _, num_heads, head_dim = kv.shape
    tokens = world.recv(kv.new_empty(layers, 2, int(seq_lens.sum()), num_heads, head_dim), 0)
    kv.flatten(2, 3)[:, :, slots(table, seq_lens, page_size)] = tokens
"""

BY_LAYER_SEND = """    world.send(seq_lens, 1)
    places = slots(table, seq_lens, kv.shape[3])
    for layer in kv:
        world.send(layer.flatten(1, 2)[:, places], 1)
"""
BY_LAYER_RECEIVE = """    places = slots(table, seq_lens, page_size)
    for layer in kv:
        flat = layer.flatten(1, 2)
        flat[:, places] = world.recv(torch.empty_like(flat[:, places]), 0)
"""

BY_SEQUENCE_SEND = """    world.send(seq_lens, 1)
    for row, seq_len in zip(table, seq_lens.tolist(), strict=True):
        if seq_len:
            world.send(kv[:, :, row[: -(-seq_len // kv.shape[3])]].flatten(2, 3)[:, :, :seq_len].contiguous(), 1)
"""
BY_SEQUENCE_RECEIVE = """    for row, seq_len in zip(table, seq_lens.tolist(), strict=True):
        if seq_len:
            places = slots(row[None], torch.tensor([seq_len]), page_size)
            rows = kv.new_empty(*kv.shape[:2], seq_len, *kv.shape[4:])
            kv.flatten(2, 3)[:, :, places] = world.recv(rows, 0)
"""

PENDING_RECEIVE = """    shape = (*kv.shape[:2], int(seq_lens.sum()), *kv.shape[4:])
    pending = world.start_exchange([], [(kv.new_empty(shape), 0)])
    places = slots(table, seq_lens, page_size)
    (tokens,) = pending.wait()
    kv.flatten(2, 3)[:, :, places] = tokens
"""

ANSWERS = [
    Right("layer by layer", ((SEND, BY_LAYER_SEND), (RECEIVE, BY_LAYER_RECEIVE))),
    Right("sequence by sequence", ((SEND, BY_SEQUENCE_SEND), (RECEIVE, BY_SEQUENCE_RECEIVE))),
    Right("received while the places are found", ((RECEIVE, PENDING_RECEIVE),)),
]

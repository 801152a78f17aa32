"""Right answers to 15.2 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

FETCH = """        if hop:
            k, v, key_positions = world.ring_exchange(k, v, key_positions)
"""
START = """        pending = world.start_ring(k, v, key_positions) if hop + 1 < world.num_ranks else None
"""
END = "        lse = total\n"

MERGE = """        total = torch.logaddexp(lse, new_lse)
        base = total.clamp(min=-1e30)  # where no key was seen yet: -inf less a number is -inf, less itself NaN
        out = out * (lse - base).exp()[..., None] + new_out * (new_lse - base).exp()[..., None]
        lse = total
"""
SIGMOID = """        share = torch.sigmoid(new_lse - lse).nan_to_num(0.0)[..., None]
        out = out + share * (new_out - out)
        lse = torch.logaddexp(lse, new_lse)
"""
SUMS = """        m = torch.maximum(lse, new_lse)
        m = torch.where(m == -torch.inf, 0.0, m)
        a, b = torch.exp(lse - m), torch.exp(new_lse - m)
        out = (a[..., None] * out + b[..., None] * new_out) / (a + b).clamp(min=1e-30)[..., None]
        lse = m + torch.log(a + b)
"""
EXCHANGE = """        if hop:
            after, before = (world.rank + 1) % world.num_ranks, (world.rank - 1) % world.num_ranks
            fresh = [torch.empty_like(x) for x in (k, v, key_positions)]
            world.exchange([(x, after) for x in (k, v, key_positions)], [(x, before) for x in fresh])
            k, v, key_positions = fresh
"""
SKIP = """        if not bool(mask.any()):
            continue
        new_out, new_lse = attend(q, k, v, mask, softmax_scale)
"""
EVEN_FIRST = """        if hop:
            after, before = (world.rank + 1) % world.num_ranks, (world.rank - 1) % world.num_ranks
            fresh = [torch.empty_like(x) for x in (k, v, key_positions)]
            for x, out_x in zip((k, v, key_positions), fresh):
                if world.rank == 0:
                    world.recv(out_x, before)
                    world.send(x, after)
                else:
                    world.send(x, after)
                    world.recv(out_x, before)
            k, v, key_positions = fresh
"""

ANSWERS = [
    Right("the next block on its way while this one is computed", (
        (FETCH, START),
        (END, END + "        if pending:\n            k, v, key_positions = pending.wait()\n"),
    )),
    Right("the share of the new block by a sigmoid", ((MERGE, SIGMOID),)),
    Right("largest lse first, sums of weights", ((MERGE, SUMS),)),
    Right("by exchange", ((FETCH, EXCHANGE),)),
    Right("rank 0 receives first, the others send first", ((FETCH, EVEN_FIRST),)),
    Right("blocks without a visible pair left out", (
        ("        new_out, new_lse = attend(q, k, v, mask, softmax_scale)\n", SKIP),
    )),
]  # fmt: skip

"""Tensor parallel layers against one rank in float64, and the bytes that they send."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.parallel import run
from course_lib.parallel import tensor as tp
from course_lib.reference.attention import attention

HIDDEN, INNER, TOKENS, HEAD_DIM, VOCAB = 16, 32, 5, 4, 23


def random(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_mlp_with_biases_equals_one_rank(num_ranks):
    x, up, down = random(TOKENS, HIDDEN), random(INNER, HIDDEN, seed=1), random(HIDDEN, INNER, seed=2)
    up_bias, down_bias = random(INNER, seed=3), random(HIDDEN, seed=4)

    def function(world):
        own_up, own_bias = (tp.part_of(w, world.rank, num_ranks) for w in (up, up_bias))
        own_down = tp.part_of(down, world.rank, num_ranks, dim=1)
        return tp.mlp(world, x, own_up, own_down, F.gelu, own_bias, down_bias)

    outcome = run(function, num_ranks)
    for found in outcome.results:
        close(found, F.linear(F.gelu(F.linear(x, up, up_bias)), down, down_bias))
    assert outcome.count("all_reduce") == 1 and len(outcome.events) == num_ranks
    assert outcome.sent(0) == TOKENS * tp.layer_bytes(num_ranks, HIDDEN, 8) / 2


def test_gates_and_ups_are_cut_apart():
    x, both, down = random(TOKENS, HIDDEN), random(2 * INNER, HIDDEN, seed=1), random(HIDDEN, INNER, seed=2)

    def swiglu(pair):
        gate, up = pair.chunk(2, dim=-1)
        return F.silu(gate) * up

    def function(world):
        own = tp.parts_of_groups(both, (INNER, INNER), world.rank, 2)
        return tp.mlp(world, x, own, tp.part_of(down, world.rank, 2, dim=1), swiglu)

    for found in run(function, 2).results:
        close(found, swiglu(x @ both.T) @ down.T)


@pytest.mark.parametrize("num_ranks, heads, kv_heads", [(1, 4, 2), (2, 4, 4), (2, 4, 2), (4, 8, 2), (4, 4, 1)])
def test_attention_equals_one_rank(num_ranks, heads, kv_heads):
    x, sizes = random(TOKENS, HIDDEN), [heads * HEAD_DIM, kv_heads * HEAD_DIM, kv_heads * HEAD_DIM]
    qkv, out = random(sum(sizes), HIDDEN, seed=1), random(HIDDEN, heads * HEAD_DIM, seed=2)
    bias, out_bias = random(sum(sizes), seed=3), random(HIDDEN, seed=4)

    def attend(q, k, v):
        return attention(*(each.transpose(0, 1) for each in (q, k, v)), causal=True).transpose(0, 1)

    def function(world):
        own = [tp.qkv_part(w, world.rank, num_ranks, heads, kv_heads, HEAD_DIM) for w in (qkv, bias)]
        columns = tp.part_of(out, world.rank, num_ranks, dim=1)
        shape = (heads, kv_heads, HEAD_DIM)
        return tp.attention(world, x, own[0], columns, attend, *shape, own[1], out_bias)

    outcome = run(function, num_ranks)
    q, k, v = (part.unflatten(-1, (-1, HEAD_DIM)) for part in F.linear(x, qkv, bias).split(sizes, dim=-1))
    for found in outcome.results:
        close(found, F.linear(attend(q, k, v).flatten(1), out, out_bias))
    assert outcome.count("all_reduce") == 1


def test_heads_cover_all_and_a_kv_head_may_be_on_several_ranks():
    found = [tp.heads_of(rank, 4, 8, 2) for rank in range(4)]
    assert [list(queries) for queries, _ in found] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert [list(kv) for _, kv in found] == [[0], [0], [1], [1]]


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_vocabulary_parallel_embedding_logits_and_loss(num_ranks):
    table, ids, x = random(VOCAB, HIDDEN), torch.tensor([0, 22, 7, 11, 12]), random(TOKENS, HIDDEN, seed=1)
    targets = torch.tensor([22, 0, 5, 6, 18])

    def function(world):
        part = tp.vocabulary_part(table, world.rank, num_ranks)
        loss, gradient = tp.cross_entropy(world, x @ part.T, targets, VOCAB)
        return tp.embedding(world, ids, part, VOCAB), tp.logits(world, x, part, VOCAB), loss, gradient

    whole = (x @ table.T).requires_grad_()
    loss = F.cross_entropy(whole, targets)
    loss.backward()
    results = run(function, num_ranks).results
    for rows, logits, found, _ in results:
        close(rows, table[ids])
        close(logits, whole.detach())
        close(found, loss.detach())
    close(torch.cat([gradient for *_, gradient in results], dim=1)[:, :VOCAB], whole.grad)


def test_more_ranks_than_tokens_of_the_vocabulary_parts():
    table = random(5, HIDDEN)  # parts of 2, 2, 1 and 0 rows
    x, targets = random(3, HIDDEN, seed=1), torch.tensor([0, 3, 4])

    def function(world):
        part = tp.vocabulary_part(table, world.rank, 4)
        return tp.cross_entropy(world, x @ part.T, targets, 5)[0]

    for loss in run(function, 4).results:
        close(loss, F.cross_entropy(x @ table.T, targets))

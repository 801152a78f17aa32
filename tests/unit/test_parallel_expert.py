"""Expert parallelism, and prefill and decode on two ranks, against one rank; the bytes of both."""

import pytest
import torch

from course_lib.errors import OutOfPages, WorldError
from course_lib.model import ModelConfig, Transformer, generate, random_weights
from course_lib.parallel import disaggregated as split
from course_lib.parallel import expert as ep
from course_lib.parallel import page_kernel, run
from course_lib.parallel.threads import Threads
from course_lib.reference import moe as reference
from tests.unit.parallel_schemes import sharing

HIDDEN, WIDTH, EXPERTS, TOP_K = 8, 6, 8, 2
CONFIG = ModelConfig("llama", 61, 32, 2, 4, 2, 8, 40, 48, tie_embeddings=False)
PROMPTS = [[7, 3, 19, 60, 0], [11], [42, 8, 23, 5, 5, 17, 2, 30, 1]]


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def layer(num_ranks, tokens, logits):
    """The outcome of a layer whose rank r has tokens[r] tokens, and what one rank gives."""
    w_up, w_down = random(EXPERTS, 2 * WIDTH, HIDDEN, seed=1), random(EXPERTS, HIDDEN, WIDTH, seed=2)
    x = random(sum(tokens), HIDDEN)
    xs, rows = x.split(tokens), logits.split(tokens)

    def function(world):
        own = [w.chunk(num_ranks)[world.rank] for w in (w_up, w_down)]
        return ep.moe(world, xs[world.rank], rows[world.rank], *own, top_k=TOP_K)

    return run(function, num_ranks), reference.moe(x, logits, w_up, w_down, top_k=TOP_K)


@pytest.mark.parametrize("num_ranks, tokens", [(1, [5]), (2, [5, 3]), (4, [3, 0, 1, 6])])
def test_experts_over_ranks_equal_one_rank(num_ranks, tokens):
    logits = random(sum(tokens), EXPERTS, seed=3)
    outcome, expected = layer(num_ranks, tokens, logits)
    torch.testing.assert_close(torch.cat(outcome.results), expected, rtol=1e-12, atol=1e-12)
    experts, _ = reference.route(logits, TOP_K)
    sizes = (num_ranks, EXPERTS, HIDDEN, 8)
    wanted = [ep.moe_bytes(part, rank, *sizes) for rank, part in enumerate(experts.split(tokens))]
    for rank, (rows, counts) in enumerate(wanted):
        assert outcome.sent(rank, label="dispatch") == rows and outcome.sent(rank, label="counts") == counts
    assert outcome.sent(label="return") == sum(rows for rows, _ in wanted)


def test_all_tokens_to_one_expert_are_none_dropped():
    logits = torch.zeros(6, EXPERTS, dtype=torch.float64)
    logits[:, 5] = 9.0
    logits[:, 4] = 5.0
    outcome, expected = layer(2, [4, 2], logits)
    torch.testing.assert_close(torch.cat(outcome.results), expected, rtol=1e-12, atol=1e-12)
    assert outcome.sent(0, label="dispatch") == 4 * TOP_K * HIDDEN * 8 and outcome.sent(1, label="dispatch") == 0


def test_expected_bytes_are_those_of_an_even_router():
    experts = torch.tensor([[token % EXPERTS, (token + 4) % EXPERTS] for token in range(EXPERTS)])
    rows = sum(ep.moe_bytes(experts, rank, 2, EXPERTS, HIDDEN, 8)[0] for rank in range(2))
    assert 2 * rows == 2 * EXPERTS * ep.expected_bytes(2, TOP_K, HIDDEN, 8)


def test_prefill_and_decode_on_two_ranks_give_the_tokens_of_one():
    weights = random_weights(CONFIG, 3)
    for tensor in weights.tensors.values():
        tensor.add_(0.2 * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(1)))
    model = Transformer(weights)
    expected = [generate(model, [prompt], max_new_tokens=6)[0] for prompt in PROMPTS]
    outcome = run(split.serve, 2, model, PROMPTS, 6)
    assert outcome.results[1] == expected
    wanted = [split.transfer_bytes(CONFIG, len(prompt), 4) for prompt in PROMPTS]
    assert outcome.sent(0, label="pages") == sum(wanted) and outcome.sent(1) == 0
    assert outcome.sent(0) == sum(wanted) + len(PROMPTS) * split.HEADER_BYTES


@pytest.mark.parametrize("chunk_bytes", [1, 1 << 20])
def test_pages_have_other_numbers_on_the_other_rank(chunk_bytes, monkeypatch):
    monkeypatch.setattr(split, "CHUNK_BYTES", chunk_bytes)

    def function(world):
        pages = split.KVPages(CONFIG, 8, 4, dtype=torch.float64)
        if world.rank == 1:
            pages.new("another", 5)
            pages.kv.fill_(-1.0)
            token = split.recv_sequence(world, pages, "a", 0)
            kv, other = (pages.read(pages.slots(name)) for name in ("a", "another"))
            return token, pages.pool.pages("a"), kv, other
        pages.new("a", 7)
        pages.write(pages.slots("a"), random(2, 2, 7, 2, 8))
        split.send_sequence(world, pages, "a", 1, first_token=9)
        return pages.pool.pages("a")

    outcome = run(function, 2)
    token, pages, kv, other = outcome.results[1]
    assert token == 9 and set(pages) != set(outcome.results[0])
    assert torch.equal(kv, random(2, 2, 7, 2, 8)) and bool((other == -1.0).all())
    assert outcome.sent(0, label="pages") == split.transfer_bytes(CONFIG, 7, 8)


def test_pages_are_written_by_the_other_rank(monkeypatch):
    sharing(monkeypatch)

    def function(world):
        pages = split.KVPages(CONFIG, 8, 4, world=world)
        if world.rank == 1:
            pages.new("another", 5)
            pages.kv.fill_(-1.0)
            token = split.recv_sequence(world, pages, "a", 0)
            found = pages.read(pages.slots("a"))
            pages.write(pages.slots("a"), torch.full_like(found, -1.0))
            return token, pages.pool.pages("a"), found, bool((pages.kv == -1.0).all())
        pages.new("a", 7)
        pages.write(pages.slots("a"), random(2, 2, 7, 2, 8).float())
        before = pages.kv.clone()
        split.send_sequence(world, pages, "a", 1, first_token=9)
        return pages.pool.pages("a"), torch.equal(pages.kv, before)

    outcome = run(function, 2)
    (sent, unchanged), (token, pages, kv, others_untouched) = outcome.results
    assert token == 9 and pages != sent and unchanged and others_untouched
    assert torch.equal(kv, random(2, 2, 7, 2, 8).float())
    num_bytes = split.transfer_bytes(CONFIG, 7, 4)
    assert outcome.sent(0, "exchange") == num_bytes + split.HEADER_BYTES + split.DONE_BYTES
    assert outcome.sent(1, "exchange") == 7 * split.SLOT_BYTES
    assert [event.received for event in outcome.events if event.label == "pages" and event.rank == 1] == [num_bytes]


def test_serving_by_pages_that_are_shared_gives_the_same_tokens(monkeypatch):
    model = Transformer(random_weights(CONFIG, 3))
    expected = run(split.serve, 2, model, PROMPTS, 4).results[1]
    sharing(monkeypatch)
    outcome = run(split.serve, 2, model, PROMPTS, 4)
    assert outcome.results[1] == expected and outcome.count("all_gather") == 1


def test_pools_of_other_sizes_are_not_shared(monkeypatch):
    sharing(monkeypatch)
    with pytest.raises(WorldError, match=r"the ranks share \[8192, 16384\] bytes; .* same number and size"):
        run(lambda world: split.KVPages(CONFIG, 8 << world.rank, 4, world=world), 2)
    monkeypatch.setattr(Threads, "can_share", False)
    assert run(lambda world: split.KVPages(CONFIG, 8, 4, world=world).peers, 2).results == [None, None]


@pytest.mark.parametrize("heads", [1, 3])
def test_the_page_kernel_moves_rows_as_torch_does(heads):
    pool, other = (torch.randn(2, 2, size, heads, 8) for size in (24, 30))
    slots, places = torch.tensor([5, 23, 0, 7, 8, 9, 2, 3, 17, 11]), torch.tensor([29, 0, 4, 5, 6, 7, 1, 20, 21, 9])
    values, before, expected = torch.zeros(2, 2, 10, heads, 8), pool.clone(), other.clone()
    page_kernel.copy(pool, values, src_slots=slots)
    assert torch.equal(values, before[:, :, slots]) and torch.equal(pool, before)
    expected[:, :, places] = values
    page_kernel.copy(pool, other, src_slots=slots, dst_slots=places)
    assert torch.equal(other, expected) and torch.equal(pool, before)
    page_kernel.copy(-values, pool, dst_slots=slots)
    before[:, :, slots] *= -1
    assert torch.equal(pool, before)


def test_a_pool_that_is_too_small_is_a_sentence_and_keeps_nothing():
    pages = split.KVPages(CONFIG, 2, 4)
    with pytest.raises(OutOfPages):
        pages.new("a", 9)
    assert "a" not in pages.pool and pages.pool.allocator.num_free == 2
    with pytest.raises(WorldError, match="3 ranks; rank 0 prefills and rank 1 decodes"):
        run(split.serve, 3, None, [], 1)

"""The all-reduce in one shot, all ranks in one launch: numbers, calls in a row, the end of a product, refusals."""

import pytest
import torch

from course_lib.device import has_gpu
from course_lib.errors import ShapeError, UnsupportedError
from course_lib.ops import all_reduce, linear_all_reduce
from course_lib.ops.all_reduce import Inbox, one_shot
from course_lib.ops.examples import all_reduce as examples

WHERE = "cuda" if has_gpu() else "cpu"  # these tests also run on a GPU
SCHEDULES = ("forward", "reverse", "random", "resident")


def random(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(WHERE, dtype)


def inbox_of(num_ranks, max_bytes=1 << 13):
    return Inbox.of_all_ranks(num_ranks, max_bytes, device=WHERE, num_blocks=3)


def require_sum(found, expected):
    """All ranks have the same bits: the sum, which is in float, rounded once."""
    limit = torch.finfo(found.dtype).eps / 2 * expected.abs() + 1e-5
    assert ((found[0].double() - expected).abs() <= limit).all()
    assert all(torch.equal(row, found[0]) for row in found)


@pytest.mark.parametrize("num_ranks, dtype", [(2, torch.float32), (3, torch.bfloat16), (4, torch.float16)])
def test_calls_in_a_row_of_changing_sizes_are_right(num_ranks, dtype):
    inbox = inbox_of(num_ranks)
    for call, size in enumerate((8, 2000, 4, 1500, 8)):  # either half of the inbox, more packets than threads
        x = random(num_ranks, size, seed=call, dtype=dtype)
        require_sum(one_shot(x, inbox), x.double().sum(0))
    assert inbox.epochs.eq(5).all()


def test_the_sum_goes_into_x_or_into_the_residual():
    x, residual, inbox = random(2, 16), random(16, seed=1).expand(2, 16).contiguous(), inbox_of(2)
    expected = x.double().sum(0) + residual[0].double()
    kept = x.clone()
    assert one_shot(x, inbox, residual=residual, out=residual) is residual and torch.equal(x, kept)
    require_sum(residual, expected)
    assert one_shot(x, inbox, out=x) is x
    require_sum(x, kept.double().sum(0))


@pytest.mark.parametrize("sizes", [(2, 1, 21, 72), (4, 3, 46, 40), (3, 8, 10, 136)], ids=str)
def test_a_product_ends_in_the_sum_over_ranks(sizes):
    num_ranks, num_tokens, size_n, size_k = sizes
    inbox, bias = inbox_of(num_ranks), random(size_n, seed=3, dtype=torch.bfloat16)
    for call in range(3):
        x = random(num_ranks, num_tokens, size_k, seed=call, dtype=torch.bfloat16)
        weight = (random(num_ranks, size_n, size_k, seed=9 + call) / size_k**0.5).bfloat16()
        residual = random(num_tokens, size_n, seed=5, dtype=torch.bfloat16).expand(num_ranks, -1, -1).contiguous()
        expected = torch.einsum("rtk,rnk->tn", x.double(), weight.double()) + bias.double() + residual[0].double()
        options = {"bias": bias, "residual": residual, "out": residual}
        require_sum(linear_all_reduce.linear_all_reduce(x, weight, inbox, **options), expected)


@pytest.mark.parametrize("example", list(examples.examples("cpu")), ids=lambda example: example.name)
def test_no_finding_under_any_schedule(example):
    for schedule in SCHEDULES:
        report = example.plan().profile(schedule=schedule)
        assert report.ok, (schedule, report)


def test_one_rank_finds_the_inboxes_by_their_addresses():
    words = torch.zeros(all_reduce.num_words(2, 64), dtype=torch.int64)
    start = words.data_ptr()
    inbox = Inbox.of_rank(1, [start - 4096, start], words, 64, num_blocks=5)
    assert inbox.offsets.tolist() == [-512, 0] and inbox.first_rank == 1 and inbox.epochs.shape == (1, 5)
    assert inbox.takes(torch.zeros(16)) and not inbox.takes(torch.zeros(18))
    assert not inbox.takes(torch.zeros(3)) and not inbox.takes(torch.zeros(16)[1:15])
    assert not inbox.takes(torch.zeros(4, dtype=torch.int32)) and not inbox.takes(torch.zeros(4, 4).T)


def test_refusals():
    inbox = inbox_of(2, 64)
    with pytest.raises(ShapeError, match="inbox is a Tensor; expected what Inbox.of_rank"):
        one_shot(torch.zeros(2, 4, device=WHERE), torch.zeros(4))
    with pytest.raises(ShapeError, match="x has 72 bytes a rank; this inbox takes at most 64"):
        one_shot(torch.zeros(2, 18, device=WHERE), inbox)
    with pytest.raises(ShapeError, match="expected a multiple of 8 bytes for each"):
        one_shot(torch.zeros(2, 3, device=WHERE), inbox)
    with pytest.raises(ShapeError, match="they must be equal"):
        one_shot(torch.zeros(2, 4, device=WHERE), inbox, residual=torch.zeros(2, 6, device=WHERE))
    with pytest.raises(UnsupportedError, match="9 ranks; this kernel takes 2 to 8"):
        one_shot(torch.zeros(9, 4, device=WHERE), inbox_of(9, 64))
    x, weight = (torch.zeros(2, *shape, dtype=torch.float16, device=WHERE) for shape in ((3, 8), (12, 8)))
    with pytest.raises(ShapeError, match="3 tokens of 12 sums are more than the 8 pairs"):
        linear_all_reduce.linear_all_reduce(x, weight, inbox)
    with pytest.raises(ShapeError, match="expected 3 dimensions, the first of 2 ranks"):
        linear_all_reduce.linear_all_reduce(x[0], weight, inbox)


def tagged(x, epoch):
    """The words that a rank sends of a row of float32, (packets, 2)."""
    return x.cpu().view(torch.int32).long().bitwise_and(0xFFFFFFFF).bitwise_or(epoch << 32).view(-1, 2).to(WHERE)


def test_one_rank_a_launch_sends_and_collects_where_its_peer_does():
    """Rank 1 of two, whose peer has sent already: calls 1 to 3 use the second, the first and the second half."""
    words, capacity = torch.zeros(2, all_reduce.num_words(2, 64), dtype=torch.int64, device=WHERE), 8
    addresses = [row.data_ptr() for row in words]
    inbox = Inbox.of_rank(1, addresses, words, 64, num_blocks=2)  # all words: a CPU engine moves what it is given
    of_peer, own = (row.view(2, 2, capacity, 2) for row in words)
    for call in (1, 2, 3):
        parts = [random(10, seed=10 * call + rank) for rank in range(2)]
        own[call % 2, 0, :5] = tagged(parts[0], call)
        assert torch.equal(one_shot(parts[1], inbox), parts[0] + parts[1])
        assert torch.equal(of_peer[call % 2, 1, :5], tagged(parts[1], call)) and not of_peer[:, 0].any()

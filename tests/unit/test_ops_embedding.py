"""Embedding and the gradient of its table: both twins, any width, padding, positions, repeated ids, bytes."""

import pytest
import torch
from norm_cases import assert_near, rows

from course_lib.device import has_gpu
from course_lib.errors import ShapeError
from course_lib.ops import embedding as ops
from course_lib.reference import embedding as reference

LANGUAGES = ("cuda", "triton")
WHERE = "cuda" if has_gpu() else "cpu"  # these tests also run on a GPU
WIDTHS = (1, 33, 1000, 4104)


def inputs(num_cols, dtype=torch.float32, index=torch.int64, num_ids=7):
    """(ids (3, 4) with padding and repeats, table with rows a stride apart)."""
    ids = torch.tensor([[0, 6, -1, 3], [3, 3, 3, 3], [3, 0, 7, 2]], dtype=index, device=WHERE)
    return ids, rows(num_ids, num_cols, dtype, device=WHERE, stride=num_cols + 8)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("num_cols", WIDTHS)
@pytest.mark.parametrize(("dtype", "index"), [(torch.float32, torch.int64), (torch.bfloat16, torch.int32)])
def test_rows_and_positions_are_right(num_cols, dtype, index, language):
    ids, table = inputs(num_cols, dtype, index)
    got = ops.embedding(ids, table, language=language)
    assert torch.equal(got.double(), reference.lookup(ids, table))
    assert not got[0, 2].any() and not got[2, 2].any()  # -1 and 7 name no row
    positions = torch.tensor([[0, 1, 2, 3]] * 3, dtype=index, device=WHERE)
    others = rows(4, num_cols, dtype, seed=1, device=WHERE)
    out = torch.full((3, 4, num_cols), torch.nan, dtype=dtype, device=WHERE)
    got = ops.embedding(ids, table, positions=positions, position_table=others, out=out, language=language)
    assert got is out
    assert_near(out, reference.lookup(ids, table, positions, others), dtype)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("num_cols", WIDTHS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_gradient_is_right_and_adds(num_cols, dtype, language):
    ids, _ = inputs(num_cols)
    d_out = rows(12, num_cols, dtype, seed=2, device=WHERE).view(3, 4, num_cols)
    want = reference.lookup_backward(d_out, ids, 7)
    got = ops.embedding_backward(d_out, ids, 7, language=language)
    assert_near(got, want, dtype)
    assert not got[[1, 4, 5]].any()
    assert torch.equal(got, ops.embedding_backward(d_out, ids.int(), 7, language=language))
    before = rows(7, num_cols, dtype, seed=3, device=WHERE)
    out = before.clone()
    assert ops.embedding_backward(d_out, ids, 7, out=out, language=language) is out
    assert_near(out, before.double() + want, dtype)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    "counts", [(64, 64), (1, 63, 65, 128), (100, 0, 200, 1), (63, 66), (10, 54, 64, 1), (300,)], ids=str
)
def test_rows_of_many_tokens_are_cut_into_pieces_and_joined(counts, language):
    """Around the borders of the pieces; every id's tokens are far apart before the sort; the gradient adds."""
    ids = torch.cat([torch.full((count,), i, device=WHERE) for i, count in enumerate(counts)])
    ids = ids[torch.randperm(len(ids), generator=torch.Generator().manual_seed(0)).to(WHERE)]
    d_out, out = rows(len(ids), 33, seed=1, device=WHERE), rows(5, 33, seed=2, device=WHERE)
    want = out.double() + reference.lookup_backward(d_out, ids, 5)
    got = ops.embedding_backward(d_out, ids, 5, out=out, language=language)
    assert_near(got, want, torch.float32)


@pytest.mark.parametrize("language", LANGUAGES)
def test_one_row_of_many_tokens(language):
    """Its sum is kept in float32: 3,000 ones in float16 stop at 2,048 when they are added in halves."""
    d_out = torch.ones(3000, 8, dtype=torch.float16, device=WHERE)
    got = ops.embedding_backward(d_out, torch.full((3000,), 2, device=WHERE), 4, language=language)
    assert got[2].tolist() == [3000.0] * 8 and not got[[0, 1, 3]].any()


@pytest.mark.parametrize("language", LANGUAGES)
def test_traffic_is_one_read_and_one_write(language):
    ids, table = inputs(1000, torch.float16)
    launch = ops.plan(ids, table, language=language)
    threads = launch.grid[0] * launch.grid[1] * (launch.block if language == "cuda" else 1)  # each reads an id
    assert launch.traffic() == (10 * 2000 + 8 * threads, 12 * 2000)  # ten of twelve ids name a row


@pytest.mark.parametrize("schedule", ["forward", "random"])
def test_cuda_kernels_are_free_of_findings(schedule):
    for num_cols in (33, 1000):
        ids, table = inputs(num_cols, torch.bfloat16)
        many = torch.cat((ids.flatten(), torch.full((200,), 3)))
        d_out = rows(212, num_cols, torch.bfloat16)
        both = {"positions": ids, "position_table": rows(7, num_cols, torch.bfloat16)}
        for launch in (ops.plan(ids, table, **both), *ops.plan_backward(d_out, many, 7).launches):
            report = launch.profile(schedule)
            assert report.ok, report
            launch.run()


def test_what_does_not_fit_is_refused_in_words():
    ids, table = inputs(8)
    for wrong, sentence in (
        (lambda: ops.embedding(ids.float(), table), "ids is torch.float32"),
        (lambda: ops.embedding(ids, table[0]), r"table has the shape \(8,\)"),
        (lambda: ops.embedding(ids, table, positions=ids), "go together"),
        (
            lambda: ops.embedding(ids, table, positions=ids[:2], position_table=table),
            r"positions is torch.int64 \(2, 4\)",
        ),
        (
            lambda: ops.embedding(ids, table, positions=ids, position_table=table),
            "expected contiguous torch.float32 rows",
        ),
        (lambda: ops.embedding(ids, table, out=table), r"expected torch.float32 \(3, 4, 8\)"),
        (lambda: ops.embedding_backward(table, ids, 7), "a row for each id"),
    ):
        with pytest.raises(ShapeError, match=sentence):
            wrong()

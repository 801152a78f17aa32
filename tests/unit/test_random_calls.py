"""The public functions of course_lib.ops under what does not belong there: a right result or a sentence."""

import pytest
import torch

from course_lib.errors import CourseError, ShapeError, UnsupportedError
from course_lib.ops import attention, decode, first_kernels, paged, paged_prefill
from course_lib.ops._foundation import values
from tests.unit import random_calls

X = torch.ones(64)


def test_random_calls_give_a_right_result_or_a_sentence():
    right, refused, wrong = random_calls.run(80, seed=5)
    assert not wrong and right > 10 and refused > 20


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: first_kernels.add(X, X, block=0), "block=0; expected at least 1"),
        (lambda: first_kernels.add(X, X, block="x"), "block='x'; expected a whole number"),
        (lambda: first_kernels.add([1.0], X), "x is a list; expected a torch tensor"),
        (
            lambda: first_kernels.add(X.numpy(), X),
            "x is a ndarray; expected a torch tensor; torch.from_numpy makes one",
        ),
        (lambda: first_kernels.add(X, X.to("meta")), "y is a tensor on meta"),
        (lambda: first_kernels.add(X.to_sparse(), X), "x is a tensor of layout torch.sparse_coo"),
        (
            lambda: attention.attention(*[X.view(1, 1, 4, 16)] * 3, softmax_scale="x"),
            "softmax_scale='x'; expected a fin",
        ),
        (lambda: attention.attention(None, None, None), "q is a NoneType; expected a torch tensor"),
    ],
)
def test_wrong_types_get_a_sentence(call, sentence):
    with pytest.raises(CourseError, match=None) as raised:
        call()
    assert sentence in str(raised.value)


def _pools():
    return torch.randn(4, 8, 1, 64).half(), torch.randn(4, 8, 1, 64).half()


def _ints(*numbers):
    return torch.tensor(numbers, dtype=torch.int32)


def _paged(lens=(9,), table=(0, 1), **options):
    paged.paged_attention(torch.randn(1, 2, 64).half(), *_pools(), _ints(*table)[None], _ints(*lens), **options)


def _prefill(starts, most=5):
    arguments = torch.randn(5, 2, 64).half(), *_pools(), _ints(0, 1, 2, 3).view(2, 2), _ints(9, 9), _ints(*starts)
    paged_prefill.paged_prefill(*arguments, max_seq_len_q=most)


def _decode(lens, **options):
    kv = torch.randn(1, 1, 8, 64).half()
    decode.decode_attention(torch.randn(1, 2, 64).half(), kv, kv, _ints(lens), **options)


def _write(*slots):
    k = torch.randn(len(slots), 1, 64).half()
    paged.reshape_and_cache(k, k, *_pools(), torch.tensor(slots))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: _decode(9), "seq_lens holds lengths from 9 to 9; expected 0 to capacity=8"),
        (lambda: _decode(-1), "seq_lens holds lengths from -1"),
        (lambda: _decode(8, max_seq_len=7), "max_seq_len=7, and seq_lens holds 8"),
        (lambda: _paged(lens=(17,)), "max_pages * page_size=16"),
        (lambda: _paged(table=(0, 4)), "block_table[0, 1] is 4; the pool has the pages 0 to 3"),
        (lambda: _paged(table=(-1, 0)), "block_table[0, 0] is -1"),
        (lambda: _paged(max_seq_len=8), "max_seq_len=8, and seq_lens holds 9"),
        (lambda: _prefill((0, 3, 2)), "rise from 0 to 5"),
        (lambda: _prefill((0, 2, 6)), "rise from 0 to 5"),
        (lambda: _prefill((0, 2, 5), most=2), "max_seq_len_q=2, and a sequence of cu_seqlens_q has 3"),
        (lambda: _write(3, 32), "slot_mapping holds 32; the pool has the slots 0 to 31"),
        (lambda: _write(3, 3), "slot_mapping holds a slot twice"),
        (lambda: paged.copy_pages(*_pools(), torch.tensor([[0, 4]])), "the pool has the pages 0 to 3"),
        (lambda: paged.copy_pages(*_pools(), torch.tensor([[0, 1], [1, 2]])), "reads one that it writes"),
    ],
)
def test_values_that_cannot_be_right_get_a_sentence(call, sentence):
    with pytest.raises(ShapeError) as raised:
        call()
    assert sentence in str(raised.value)


def test_unused_entries_of_a_table_may_be_anything_and_minus_one_is_no_slot():
    _paged(lens=(8,), table=(3, 99))
    _write(-1, 3)


def test_on_a_gpu_values_are_looked_at_only_when_asked():
    class OnGpu:
        is_cuda = True

    assert values.looked_at(OnGpu, validate=True) and not values.looked_at(OnGpu, validate=False)
    with pytest.raises(UnsupportedError):
        _decode(4, num_splits=0)

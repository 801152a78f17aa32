"""Sequences that grow in turn, and random moves: they reach every kind of move and find broken bookkeeping."""

import pytest

from course_lib import kv


def test_growing_sequences_take_a_page_when_they_need_one():
    pool = kv.PagePool(20, 16)
    kv.grow(pool, {"A": 70, "B": 32, "C": 5})
    assert [pool.num_tokens(name) for name in "ABC"] == [70, 32, 5]
    assert [pool.pages(name) for name in "ABC"] == [(0, 3, 5, 6, 7), (1, 4), (2,)]


def test_random_moves_are_of_every_kind_and_keep_the_books():
    pool = kv.PagePool(24, 4)
    seen = set()
    for words in kv.random_moves(pool, 600, seed=10):
        seen.add(words)
        pool.audit()
    assert seen == {"new", "fork", "free", "append", "append with a copy", "out of pages"}


def test_a_pool_that_does_not_copy_is_found(monkeypatch):
    monkeypatch.setattr(kv.PagePool, "_must_copy", lambda self, own: False)
    with pytest.raises(AssertionError, match="another sequence holds too"):
        list(kv.random_moves(kv.PagePool(24, 4), 600, seed=10))

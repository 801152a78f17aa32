"""Tasks of chapter 10: the pool that judges 10.6 counts the same pages as course_lib.kv."""

import pytest

from course_lib.errors import OutOfPages
from course_lib.grading.exercise import registry
from course_lib.grading.exercise.inputs import generator
from course_lib.kv import PagePool

TRACES = registry.module(registry.folder_of("10.6"), "traces")


@pytest.mark.parametrize(("num_pages", "page_size"), [(12, 4), (5, 3), (10, 1), (40, 16)])
def test_the_judge_and_the_course_count_the_same_pages(num_pages, page_size):
    """After every step of a random trace, model and pool agree."""
    model, pool = TRACES.Model(num_pages, page_size), PagePool(num_pages, page_size)
    for kind, name, value in TRACES.random_trace(num_pages, page_size, 200, generator(num_pages, "trace")):
        refused = False
        try:
            if kind == TRACES.APPEND:
                pool.append(name, value)
            elif kind == TRACES.FORK:
                pool.fork(name, value)
            else:
                (pool.add if kind == TRACES.ADD else pool.free)(name)
        except OutOfPages:
            refused = True
        assert model.step(kind, name, value) == refused
        assert model.num_free == pool.allocator.num_free
        assert {other: len(tokens) for other, tokens in model.tokens.items()} == {
            other: pool.num_tokens(other) for other in pool.names
        }

"""Triton 3.6 with numpy 2.5: a number that is an array of one element still becomes an int."""

from types import SimpleNamespace

import numpy as np
import pytest

from course_lib.triton import _scalars


def triton_36():
    """The part of Triton 3.6's interpreter that matters: int() of the array as it is, with numpy 2.5's refusal."""

    def patch_lang_tensor(tensor):
        def index(self):
            if self.handle.data.ndim:
                raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
            return int(self.handle.data)

        tensor.__index__ = index

    return SimpleNamespace(_patch_lang_tensor=patch_lang_tensor)


def number(interpreter, value):
    """A tensor of one number, after the language was patched."""
    kind = type("tensor", (), {"handle": SimpleNamespace(data=np.array([value]))})
    interpreter._patch_lang_tensor(kind)
    return kind()


def test_range_over_a_number_of_the_interpreter():
    interpreter = triton_36()
    with pytest.raises(TypeError, match="0-dimensional"):
        range(number(interpreter, 3))
    _scalars.correct(interpreter)
    assert list(range(number(interpreter, 3))) == [0, 1, 2]


def test_a_scope_that_restores_names_is_passed_on():
    seen = []
    interpreter = SimpleNamespace(_patch_lang_tensor=lambda tensor, scope: seen.append(scope))
    _scalars.correct(interpreter)
    interpreter._patch_lang_tensor(type("tensor", (), {}), "scope")
    assert seen == ["scope"]


def test_the_variable_of_a_loop_over_tl_range_can_be_converted():
    lang = SimpleNamespace()
    interpreter = triton_36()
    interpreter._patch_lang_core = lambda lang, scope: setattr(lang, "range", range)
    _scalars.correct(interpreter)
    interpreter._patch_lang_core(lang, "scope")
    whole, real = (SimpleNamespace(is_floating=lambda kind=kind: kind) for kind in (False, True))
    assert [(row.to(whole), row.to(real)) for row in lang.range(0, 3, 2)] == [(0, 0.0), (2, 2.0)]
    assert type(next(lang.range(1)).to(real)) is float

"""The installed triton has the private API that the course uses."""

from types import SimpleNamespace

import pytest
import triton

from course_lib.errors import UnsupportedError
from course_lib.triton import _bf16, _private


@pytest.mark.parametrize("name", _private.NEEDED)
def test_nothing_is_missing(name):
    import importlib

    module = importlib.import_module(name)
    gone = _private.missing(module)
    assert not gone, (
        f"triton {triton.__version__} moved what course_lib/triton/_private.py uses: {name} lacks {', '.join(gone)}; "
        "find the new names there, or pin an older triton"
    )
    assert module._course_adapted


def test_every_operation_of_the_interpreter_is_sorted():
    """A new operation is refused on bfloat16 until it is added to a list; these are the unlisted ones."""
    builder = triton.runtime.interpreter.InterpreterBuilder
    known = _bf16.TRANSPARENT | _bf16.ARITHMETIC | _bf16.CASTS
    names = {name.removeprefix("create_") for name in dir(builder) if name.startswith("create_")}
    integers = {name for name in names if name.startswith(("icmp", "min", "max"))}
    integers |= set("add sub mul sdiv udiv srem urem idiv umulhi iabs".split())
    others = set("histogram atomic_rmw atomic_cas extern_elementwise inline_asm print".split())
    new = names - known - integers - others
    assert not new, f"triton {triton.__version__} has operations that _bf16.py refuses on bfloat16: {sorted(new)}"


def test_a_triton_that_moved_something_is_refused_with_a_sentence():
    module = SimpleNamespace(__name__="triton.runtime.jit", JITFunction=object)
    with pytest.raises(UnsupportedError, match="lacks JITFunction.run.*triton 3.6 and 3.7"):
        _private.adapt(module)


def test_adapting_twice_changes_nothing():
    interpreter = triton.runtime.interpreter
    before = interpreter.InterpreterBuilder.create_fadd, interpreter.InterpretedFunction.run
    _private.adapt(interpreter)
    assert before == (interpreter.InterpreterBuilder.create_fadd, interpreter.InterpretedFunction.run)

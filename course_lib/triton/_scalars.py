"""Convert the interpreter's scalars to Python ints, as ``range(0, num_cols, BLOCK_N)`` needs, and back where one loops.

The interpreter holds every scalar in an array of one element. Triton 3.6 converts it with int(array), which numpy 2.5
accepts for 0-dimensional arrays only; Triton 3.7 squeezes the array first, and so does this correction.

On a GPU the variable of a loop over tl.range is a scalar of Triton, and ``row.to(tl.int64)`` converts it; in the
interpreter it is a Python int, which gets a `to` here.

May import: nothing of the course.
"""


class LoopIndex(int):
    """The variable of a loop over tl.range; a Python int has as many bits as it needs."""

    def to(self, dtype, **_options):
        """Return the number itself, or what it is as a float."""
        return float(self) if dtype.is_floating() else self


def correct(interpreter):
    """Apply it. `interpreter` is the module triton.runtime.interpreter."""
    patch = interpreter._patch_lang_tensor

    def patch_lang_tensor(tensor, *scope):
        patch(tensor, *scope)
        tensor.__index__ = lambda self: int(self.handle.data.squeeze())

    interpreter._patch_lang_tensor = patch_lang_tensor
    patch_core = getattr(interpreter, "_patch_lang_core", None)

    def patch_lang_core(lang, *scope):
        patch_core(lang, *scope)
        plain = lang.range
        lang.range = lambda *bounds, **options: map(LoopIndex, plain(*bounds, **options))

    if patch_core is not None:
        interpreter._patch_lang_core = patch_lang_core

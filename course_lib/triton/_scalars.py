"""Convert the interpreter's scalars to Python ints, as ``range(0, num_cols, BLOCK_N)`` needs.

The interpreter holds every scalar in an array of one element. Triton 3.6 converts it with int(array), which numpy 2.5
accepts for 0-dimensional arrays only; Triton 3.7 squeezes the array first, and so does this correction.

May import: nothing of the course.
"""


def correct(interpreter):
    """Apply it. `interpreter` is the module triton.runtime.interpreter."""
    patch = interpreter._patch_lang_tensor

    def patch_lang_tensor(tensor, *scope):
        patch(tensor, *scope)
        tensor.__index__ = lambda self: int(self.handle.data.squeeze())

    interpreter._patch_lang_tensor = patch_lang_tensor

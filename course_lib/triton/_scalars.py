"""A number of the interpreter as a Python int: what ``range(0, num_cols, BLOCK_N)`` asks for.

The interpreter keeps every number as an array of one element. Triton 3.6 converts it with int(array), which numpy 2.5
refuses for anything but a 0-dimensional array; Triton 3.7 squeezes the array first, and so does this.

May import: nothing of the course.
"""


def correct(interpreter):
    """Apply it. `interpreter` is the module triton.runtime.interpreter."""
    patch = interpreter._patch_lang_tensor

    def patch_lang_tensor(tensor, *scope):
        patch(tensor, *scope)
        tensor.__index__ = lambda self: int(self.handle.data.squeeze())

    interpreter._patch_lang_tensor = patch_lang_tensor

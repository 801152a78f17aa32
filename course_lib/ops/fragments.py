"""A recording of chapter 04: which lane holds which number, as ldmatrix and mma of the SIMT machine leave them.

May import: cuda, torch.
"""

import torch


def record_fragments():
    """Run kernels_cu/access/12_fragments on the SIMT machine.

    Returns
    -------
    dict, "a" (16 x 16), "b" (16 x 8), "out" (16 x 8) -> {(row, column): (lane, register)}; a register of a and b holds
    two halves, one of out a float
    """
    from .. import cuda

    def places(rows, columns):
        return torch.arange(rows * columns, device="cpu").reshape(rows, columns).half()

    left, right = torch.zeros(16, 16, device="cpu").half(), torch.zeros(16, 8, device="cpu").half()
    left[:, 0], left[:, 1] = 8 * torch.arange(16), 1  # left @ right [i][j] = 8 i + j
    right[0], right[1] = 1, torch.arange(8)
    outputs = {"a": (32, 4, 2), "b": (32, 2, 2), "out": (32, 4, 1)}
    found = {name: torch.empty(shape, device="cpu") for name, shape in outputs.items()}
    kernel = cuda.load("access/12_fragments.cu", "fragment_places_kernel")
    arguments = (places(16, 16), places(16, 8), left, right, *found.values())
    kernel.profile(1, 32, *arguments, outputs=tuple(found.values()))
    return {name: _owners(values, 16 if name == "a" else 8) for name, values in found.items()}


def _owners(values, columns):
    """{(row, column): (lane, register)} of values that are places, (lanes, registers, numbers of a register)."""
    return {
        divmod(int(place), columns): (lane, register)
        for lane, registers in enumerate(values.tolist())
        for register, numbers in enumerate(registers)
        for place in numbers
    }

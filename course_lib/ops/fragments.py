"""A recording of chapter 04: which lane holds which number, as ldmatrix and mma leave them.

May import: ops._foundation, torch.
"""

import torch

from ._foundation.launch import cuda_launch


def plan(device="cpu"):
    """The launch of kernels_cu/access/12_fragments, not yet run; its outputs are the registers of a, b and out."""

    def places(rows, columns):
        return torch.arange(rows * columns, device=device).reshape(rows, columns).half()

    left, right = torch.zeros(16, 16, device=device).half(), torch.zeros(16, 8, device=device).half()
    left[:, 0], left[:, 1] = 8 * torch.arange(16, device=device), 1  # left @ right [i][j] = 8 i + j
    right[0], right[1] = 1, torch.arange(8, device=device)
    outputs = tuple(torch.empty(32, *shape, device=device) for shape in ((4, 2), (2, 2), (4, 1)))
    arguments = (places(16, 16), places(16, 8), left, right, *outputs)
    return cuda_launch("access/12_fragments", 1, 32, arguments, outputs)


def record_fragments():
    """Run it on the SIMT machine.

    Returns
    -------
    dict, "a" (16 x 16), "b" (16 x 8), "out" (16 x 8) -> {(row, column): (lane, register)}; a register of a and b holds
    two halves, one of out a float
    """
    launch = plan()
    launch.profile()
    named = zip(("a", "b", "out"), launch.outputs, strict=True)
    return {name: owners(values, 16 if name == "a" else 8) for name, values in named}


def owners(values, columns):
    """{(row, column): (lane, register)} of values that are places, (lanes, registers, numbers of a register)."""
    return {
        divmod(int(place), columns): (lane, register)
        for lane, registers in enumerate(values.tolist())
        for register, numbers in enumerate(registers)
        for place in numbers
    }

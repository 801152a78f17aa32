"""A tensor that is the end of a larger one, of which nothing else exists: addresses beyond 2^31 without the memory.

May import: torch.
"""

import torch


class Far(torch.Tensor):
    """A tensor whose address, as a kernel gets it, lies `elements` before its first element.

    Index ``elements + i`` is then element i of the memory, and every smaller index lies in no memory at all. For the
    SIMT machine and Triton's interpreter, which check each access; Triton on a GPU refuses such an address.
    """

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def of(tensor, elements):
        """`tensor`, its memory shared, behind `elements` others."""
        made = torch.Tensor._make_subclass(Far, tensor)
        made.elements = elements
        return made

    def data_ptr(self):
        return (address(self) - self.elements * self.element_size()) % 2**64


def address(tensor):
    """Where the memory of a tensor begins, a Far one's too."""
    return torch.Tensor.data_ptr(tensor)

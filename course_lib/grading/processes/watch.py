"""What the operators of torch make while a torch answer runs: the ledger of exercises that ask for tiles.

Right values do not tell whether an answer held all weights of a row at once. The operators do: an exponential of a
whole row of scores, or a product that adds up a whole row of them. Views and copies are not counted, so an answer may
arrange its inputs as it likes.

May import: torch.
"""

import math

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_EXPONENTIALS = ("exp", "exp2", "expm1", "pow", "sigmoid")
_PRODUCTS = {"mm": 0, "bmm": 0, "mv": 0, "dot": 0, "addmm": 1, "baddbmm": 1, "addbmm": 1, "addmv": 1}  # left operand


class Watch(TorchDispatchMode):
    """Counts inside ``with Watch() as watch:``; `watch.ledger()` tells.

    Attributes
    ----------
    exponentials : most numbers that one operator took an exponential of
    longest : the longest axis of such a tensor
    terms : most terms that one matrix product added up for an element
    """

    def __init__(self):
        super().__init__()
        self.exponentials, self.longest, self.terms = 0, 0, 0

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # else the first operator imports torch.compile's machinery, which takes more than a second

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__.rstrip("_")
        if name in _EXPONENTIALS and isinstance(made, Tensor):
            self.exponentials = max(self.exponentials, math.prod(made.shape))
            self.longest = max(self.longest, *made.shape, 1)
        if name in _PRODUCTS:
            self.terms = max(self.terms, args[_PRODUCTS[name]].shape[-1])
        return made

    def ledger(self):
        """The counts, as a dict for RunResult.ledger."""
        return {"exponentials": self.exponentials, "longest": self.longest, "terms": self.terms}

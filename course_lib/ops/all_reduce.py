"""Launcher of the all-reduce in one step: every rank writes its part into the inboxes of all others.

May import: errors, ops._foundation, torch.
"""

from dataclasses import dataclass

import torch

from ..errors import ShapeError, UnsupportedError
from ._foundation.checks import require_contiguous
from ._foundation.launch import cuda_launch, ran
from ._foundation.plans import planned
from ._foundation.rows import ROW_ELEMENTS

PACKET_BYTES = 8  # of a tensor, which a thread sends as two words of 64 bits
NUM_THREADS = 128  # of a block: with its registers it fits beside the blocks of two products of a decode step
NUM_BLOCKS = 64  # of a rank: the largest messages of a decode step keep each thread busy for a few packets
MAX_RANKS = 8


@dataclass(frozen=True, eq=False)
class Inbox:
    """Where the parts of the peers arrive, and how many have; the same tensors for every call.

    Attributes
    ----------
    words : tensor, int64, contiguous: the inbox of the first rank here, 2 * num_ranks * capacity * 2 words
    offsets : tensor, (num_ranks,), int64: words from `words` to the inbox of each rank
    epochs : tensor, (ranks_here, num_blocks), int32: calls so far
    capacity : int, packets of 8 bytes that a rank can send in a call
    first_rank : int; ranks first_rank to first_rank + ranks_here - 1 run in one launch
    """

    words: torch.Tensor
    offsets: torch.Tensor
    epochs: torch.Tensor
    capacity: int
    first_rank: int = 0

    @classmethod
    def of_rank(cls, rank, addresses, words, max_bytes, *, num_blocks=NUM_BLOCKS):
        """The inbox of one rank, `words`, zeroed; addresses: those of every rank's inbox, as this rank maps them."""
        offsets = [(address - words.data_ptr()) // words.element_size() for address in addresses]
        offsets = torch.tensor(offsets, dtype=torch.int64, device=words.device)
        epochs = torch.zeros(1, num_blocks, dtype=torch.int32, device=words.device)
        return cls(words, offsets, epochs, max_bytes // PACKET_BYTES, rank)

    @classmethod
    def of_all_ranks(cls, num_ranks, max_bytes, *, device=None, num_blocks=NUM_BLOCKS):
        """Inboxes of all ranks on one device, to run them in one launch: x of a call has a row for each rank."""
        size, capacity = num_words(num_ranks, max_bytes), max_bytes // PACKET_BYTES
        words = torch.zeros(num_ranks, size, dtype=torch.int64, device=device)
        offsets = torch.arange(num_ranks, device=device) * size
        return cls(words, offsets, torch.zeros(num_ranks, num_blocks, dtype=torch.int32, device=device), capacity)

    @property
    def num_ranks(self):
        return len(self.offsets)

    def takes(self, x):
        """Whether a rank's tensor can be sent in one call: its type, size and alignment."""
        fits = 0 < x.nbytes <= self.capacity * PACKET_BYTES and x.nbytes % PACKET_BYTES == 0
        return fits and x.dtype in ROW_ELEMENTS and x.is_contiguous() and x.data_ptr() % PACKET_BYTES == 0


def num_words(num_ranks, max_bytes):
    """Words of 64 bits of one rank's inbox: two halves, a place for each rank, two words a packet of 8 bytes."""
    return 2 * num_ranks * (max_bytes // PACKET_BYTES) * 2


def one_shot(x, inbox, *, residual=None, out=None):
    """The sum of x over all ranks, plus residual: one launch of 01_one_shot, on every rank.

    Parameters
    ----------
    x : tensor of any shape, float32, float16 or bfloat16, contiguous, a multiple of 8 bytes at a multiple of 8 bytes;
        (num_ranks, …) where all ranks run in one launch
    inbox : Inbox of this rank, the same at every call
    residual : tensor like `x`, or None
    out : tensor like `x`, which may be `x` or `residual`, or None for a new one

    Returns
    -------
    out : tensor, the same bits on every rank

    Raises
    ------
    ShapeError        shapes, dtypes, strides or addresses that do not fit; more bytes than the inbox has room for
    UnsupportedError  fewer than 2 or more than 8 ranks

    Notes
    -----
    Cost      (num_ranks - 1) * bytes of x sent by each rank, each 4 bytes of data in a word of 8
    Numerics  sum in float32 in the order of the ranks, then the residual, rounded once
    Waits     for all ranks; a rank that does not come for some 20 seconds ends the kernels of the others in a trap
    """
    return ran(plan(x, inbox, residual=residual, out=out))


def plan(x, inbox, *, residual=None, out=None):
    """The launch of 01_one_shot, not yet run."""
    require_inbox(inbox)
    memory = inbox.words, inbox.offsets, inbox.epochs
    return _plan(x, *memory, inbox.capacity, inbox.first_rank, residual=residual, out=out)


@planned
def _plan(x, words, offsets, epochs, capacity, first_rank, *, residual=None, out=None):
    ranks_here, num_blocks = epochs.shape
    out = torch.empty_like(x) if out is None else out
    for name, tensor in (("x", x), ("residual", residual), ("out", out)):
        if tensor is not None:
            _require(name, tensor, x, ranks_here)
    num_bytes = x.nbytes // ranks_here
    if num_bytes > capacity * PACKET_BYTES:
        raise ShapeError(f"x has {num_bytes} bytes a rank; this inbox takes at most {capacity * PACKET_BYTES}.")
    if not 2 <= len(offsets) <= MAX_RANKS:
        raise UnsupportedError(f"{len(offsets)} ranks; this kernel takes 2 to {MAX_RANKS}.")
    defines = {"ELEMENT": ROW_ELEMENTS[x.dtype], "NUM_RANKS": len(offsets), "NUM_THREADS": NUM_THREADS}
    tensors = (x, residual, offsets, out, words, epochs)
    arguments = (*tensors, num_bytes // PACKET_BYTES, capacity, first_rank)
    return cuda_launch(
        "all_reduce/01_one_shot", (num_blocks, ranks_here), NUM_THREADS, arguments, (out,), defines=defines
    )


def require_inbox(inbox):
    """Raise where this is no Inbox."""
    if not isinstance(inbox, Inbox):
        kind = type(inbox).__name__
        raise ShapeError(f"inbox is a {kind}; expected what Inbox.of_rank or Inbox.of_all_ranks gives.")


def _require(name, tensor, x, ranks_here):
    require_contiguous({name: tensor}, (x.dtype,) if x.dtype in ROW_ELEMENTS else tuple(ROW_ELEMENTS))
    if tensor.shape != x.shape:
        raise ShapeError(f"{name} has the shape {tuple(tensor.shape)} and x {tuple(x.shape)}; they must be equal.")
    if not x.numel() or x.nbytes % (PACKET_BYTES * ranks_here) or tensor.data_ptr() % PACKET_BYTES:
        raise ShapeError(
            f"{name} is {tensor.dtype} {tuple(tensor.shape)} for {ranks_here} rank(s); expected a multiple of "
            f"{PACKET_BYTES} bytes for each, at a multiple of {PACKET_BYTES} bytes."
        )

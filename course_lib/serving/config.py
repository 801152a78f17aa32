"""What a serving engine is told once, before its first request.

May import: errors, expect.
"""

from dataclasses import dataclass

from .. import expect
from ..errors import ArgumentError, RefusedError

CHOICES = {
    "admission": ("watermark", "reserve", "optimistic"),
    "prefix": ("radix", "hash", None),
    "preempt": ("recompute", "swap"),
}
FLAGS = ("chunked", "deterministic", "graphs", "overlap")
MAY_LACK = ("max_chunk", "max_model_len")


@dataclass(frozen=True)
class ServingConfig:
    """Limits and policies.

    Attributes
    ----------
    num_pages : int, pages of the KV pool
    page_size : int, tokens a page
    max_num_tokens : int, the budget: tokens that one step computes at most
    max_num_seqs : int, sequences that run at one time at most
    max_chunk : int or None, the longest piece of one prompt in a step
    max_model_len : int or None, the longest prompt and output together, in tokens
    max_waiting : int, requests in the queue; one more is told to come back later
    admission : when a request may start
        optimistic  the pages of its first piece are free
        watermark   the pages of its whole prompt are free, and after that this share of all pages
        reserve     prompt and max_new_tokens of everyone running fit in the pool: nothing is ever preempted
    watermark : float, share of the pages that stays free for those who run
    prefix : "radix", "hash" or None, the prefix cache
    preempt : "recompute" or "swap", what happens to the keys and values of a preempted sequence
    num_swap_pages : int, pages of host memory; when they are used up, the next one is recomputed
    chunked : bool; False computes whole prompts in batches of their own, before anyone decodes
    deterministic : bool; batch-invariant kernels: a request's tokens do not depend on its neighbours
    graphs : bool; record CUDA graphs of decode steps
    overlap : bool; schedule a step while the one before still runs on the device
    speculate : int, tokens that a draft proposes per sequence and step; above 0 there is no overlap
    """

    num_pages: int
    page_size: int = 16
    max_num_tokens: int = 2048
    max_num_seqs: int = 64
    max_chunk: int | None = None
    max_model_len: int | None = None
    max_waiting: int = 1024
    admission: str = "watermark"
    watermark: float = 0.01
    prefix: str | None = "radix"
    preempt: str = "recompute"
    num_swap_pages: int = 0
    chunked: bool = True
    deterministic: bool = False
    graphs: bool = True
    overlap: bool = True
    speculate: int = 0

    def __post_init__(self):
        least = {"num_pages": 1, "page_size": 1, "max_num_tokens": 1, "max_num_seqs": 1, "max_waiting": 1}
        least |= {"max_chunk": 1, "max_model_len": 2, "num_swap_pages": 0, "speculate": 0}
        for name, smallest in least.items():
            value = getattr(self, name)
            if value is not None or name not in MAY_LACK:
                object.__setattr__(self, name, expect.whole(name, value, smallest))
        for name in FLAGS:
            expect.flag(name, getattr(self, name))
        for name, values in CHOICES.items():
            value = getattr(self, name)
            if not isinstance(value, str | None) or value not in values:
                raise ArgumentError(f"{name} is {getattr(self, name)!r}; choose one of {', '.join(map(repr, values))}.")
        if self.preempt == "swap" and not self.num_swap_pages:
            raise ArgumentError("preempt is 'swap' and num_swap_pages 0; give the host some pages.")
        if not 0 <= expect.real("watermark", self.watermark) < 1:
            raise ArgumentError(f"watermark is {self.watermark}; it is a share of the pages, from 0 to below 1.")
        if self.max_num_tokens < self.max_num_seqs:
            raise ArgumentError(
                f"max_num_tokens is {self.max_num_tokens} and max_num_seqs {self.max_num_seqs}; every running sequence "
                "gets a token each step, so the budget must be at least max_num_seqs."
            )

    def pages_for(self, num_tokens):
        """Pages that hold num_tokens tokens of one sequence."""
        return -(-num_tokens // self.page_size)

    @property
    def max_in_flight(self):
        """Steps that may be scheduled and not committed at one time."""
        return 2 if self.overlap and not self.speculate else 1

    def check(self, request):
        """Raise RefusedError when `request` could never be served, even alone."""
        total = len(request.prompt) + request.max_new_tokens
        needed = self.pages_for(request.max_computed)
        if not request.prompt:
            reason = "its prompt is empty; a model continues at least one token"
        elif request.max_new_tokens < 1:
            reason = f"max_new_tokens is {request.max_new_tokens}; at least 1 token must be asked for"
        elif self.max_model_len is not None and total > self.max_model_len:
            reason = (
                f"its prompt of {len(request.prompt)} tokens and {request.max_new_tokens} new ones make {total}; the "
                f"model takes {self.max_model_len}"
            )
        elif needed > self.num_pages:
            reason = (
                f"its prompt of {len(request.prompt)} tokens and {request.max_new_tokens} new ones need {needed} pages "
                f"of {self.page_size}; the whole pool has {self.num_pages}"
            )
        elif not self.chunked and request.max_computed > self.max_num_tokens:
            reason = (
                f"without chunked prefill its {request.max_computed} tokens must fit in one step after a preemption; a "
                f"step computes {self.max_num_tokens}"
            )
        else:
            return
        raise RefusedError(f"{request.name!r} can never be served: {reason}.")

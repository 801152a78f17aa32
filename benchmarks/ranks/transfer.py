"""Keys and values of a prompt from one rank's pages to another's, beside a raw send and a copy between the two GPUs.

The shape is that of an 8B Llama, bfloat16, pages of 16 tokens taken at random. gbps counts the keys and values alone;
the course takes them from pages and leaves them in pages in the same time: as messages that are gathered and scattered,
or one-sided, by a kernel that writes into the receiver's pages.
"""

import random

import torch
import torch.distributed as dist

from course_lib.model import ModelConfig
from course_lib.parallel import disaggregated as split

from .report import clear, ratio

DRY = ModelConfig("llama", 61, 32, 2, 4, 2, 8, 40, 96)
TOKENS, DRY_TOKENS, PAGE_SIZE = (2048, 8192, 32768), (40,), 16


@torch.no_grad()
def rows(world, report):
    config = DRY if report.dry else ModelConfig.named("llama-3-8b")
    for tokens in DRY_TOKENS if report.dry else TOKENS:
        one(world, report, config, tokens)
        clear()


def one(world, report, config, tokens):
    """The rows of one length."""
    dtype = torch.float32 if report.dry else torch.bfloat16
    num_bytes = split.transfer_bytes(config, tokens, dtype.itemsize)
    common = {"op": "KV transfer", "seq_len": tokens, "bytes": num_bytes}
    common["bus_gbps"] = lambda us: f"{num_bytes / us / 1e3:.1f}"
    times = peer_times(world, report, torch.zeros(num_bytes, dtype=torch.uint8, device=world.device), common)
    common["ratio_to_best_peer"] = lambda us: ratio(min(filter(None, times), default=None), us)
    sent = num_bytes + split.HEADER_BYTES if world.rank == 0 else 0
    course(world, report, "course", filled(world, config, tokens, dtype), sent, common)
    if world.can_share:
        clear()
        sent = (sent + split.DONE_BYTES, tokens * split.SLOT_BYTES, *[0] * world.num_ranks)[world.rank]
        try:
            pages = filled(world, config, tokens, dtype, shared=world)
        except RuntimeError as problem:
            return report.skip("course, one-sided", problem, **common)
        course(world, report, "course, one-sided", pages, sent, common)


def course(world, report, variant, pages, sent, columns):
    """The row of a way to move the sequence, checked first."""
    error = moved(world, report, pages)
    report.add(variant, transfer(world, pages), bytes_of=sent, error=error, limit=0.0, **columns)


def peer_times(world, report, flat, columns):
    """Microseconds of the peers, for a tensor that is already contiguous."""

    def raw():
        if world.rank < 2:
            dist.send(flat, 1) if world.rank == 0 else dist.recv(flat, 0)

    times = [report.add("torch.distributed send", raw, **columns)] if report.peers else []
    return times if report.dry else [*times, report.add("peer copy", peer_copy(world, flat), **columns)]


def peer_copy(world, flat):
    """Rank 0 copies to the memory of GPU 1, which it opens itself; the others wait."""
    if world.rank:
        return lambda: None
    other = torch.empty_like(flat, device="cuda:1")
    return lambda: other.copy_(flat)


def filled(world, config, tokens, dtype, shared=None):
    """Pages with one sequence, "a", on random pages of rank 0."""
    num_pages = 2 * (-(-tokens // PAGE_SIZE)) + 1
    pages = split.KVPages(config, num_pages, PAGE_SIZE, dtype=dtype, device=world.device, world=shared)
    names = list(range(num_pages))
    for name in names:
        pages.new(name, PAGE_SIZE)
    random.Random(world.rank).shuffle(names)
    for name in names:  # what is freed last is taken first
        pages.pool.free(name)
    pages.kv.normal_(generator=torch.Generator(world.device).manual_seed(world.rank))
    if world.rank == 0:
        pages.new("a", tokens)
    return pages


def transfer(world, pages):
    """The function that moves the sequence once; rank 1 gives its pages back."""

    def call():
        if world.rank == 0:
            split.send_sequence(world, pages, "a", 1)
        elif world.rank == 1:
            split.recv_sequence(world, pages, "b", 0)
            pages.pool.free("b")

    return call


def moved(world, report, pages):
    """1 where what arrived differs from what was sent, else 0."""
    sums = torch.zeros(1, len(pages.kv), dtype=torch.float64, device=world.device)
    if world.rank == 0:
        split.send_sequence(world, pages, "a", 1)
        sums[0] = digests(pages, "a")
    elif world.rank == 1:
        split.recv_sequence(world, pages, "b", 0)
        sums[0] = digests(pages, "b")
        pages.pool.free("b")
    everyone = world.all_gather(sums)
    return report.largest(0.0 if torch.equal(everyone[0], everyone[1]) else 1.0)


def digests(pages, name):
    """A number for each layer that depends on every value and its place."""
    slots, found = pages.slots(name), []
    for layer in range(len(pages.kv)):
        kv = pages.read(slots, slice(layer, layer + 1)).flatten()
        found.append((kv.double() * (torch.arange(kv.numel(), device=kv.device) % 1009 + 1)).sum())
    return torch.stack(found)

"""Collectives of the course's World beside the raw calls of torch.distributed: bus bandwidth over sizes.

Bus bandwidth is the bytes that one rank sends by the formula, over the time: what its link carried, whatever the number
of ranks. One call at a time, launched from Python: for small sizes the time is that of the launch. In a graph, as a
decode step has it, the time is that of the GPU.
"""

import torch
import torch.distributed as dist

from course_lib.parallel import wire_bytes

from .recorded import Recorded
from .report import clear, ratio

SIZES, DRY_SIZES = tuple(1 << power for power in (10, 14, 18, 22, 26, 30)), (1 << 10, 1 << 12)
DECODE_SIZES = tuple(1 << power for power in (13, 16, 19))  # 1, 8 and 64 rows of 4,096 halves
MOST = DECODE_SIZES[-1]  # of one shot, and in a graph
IN_GRAPH = 20  # calls


def rows(world, report):
    if not report.dry:
        one_shot(world)
    for op in (all_reduce, all_gather, reduce_scatter, all_to_all, send):
        sizes = sorted(SIZES + (DECODE_SIZES if op is all_reduce else ()))
        for size in DRY_SIZES if report.dry else sizes:
            one(world, report, op, size)
            if op is all_reduce and size <= MOST and not report.dry:
                in_graphs(world, report, size)
            clear()


def one_shot(world):
    """Try the all-reduce into the peers' memory; without it there are no rows of that name."""
    try:
        world.enable_one_shot(MOST)
    except Exception:
        world.disable_one_shot()


def one(world, report, op, size):
    """The rows of one operation and size."""
    course, raw, sent = op(world, size)
    inner = 20 if size <= 1 << 18 else 4 if size <= 1 << 26 else 2

    def columns(us):
        return f"{sent / us / 1e3:.2f}"

    common = {"op": op.__name__, "bytes": size, "inner": inner, "bus_gbps": columns}
    peer = report.add("torch.distributed", raw, **common) if report.peers else None
    common["ratio_to_best_peer"] = lambda us: ratio(peer, us)
    buffers = world.disable_one_shot() if hasattr(world, "disable_one_shot") else None
    own = sent if op is not send or world.rank == 0 else 0
    report.add("course", course, bytes_of=own, **common)
    if buffers and op is all_reduce:
        world.enable_one_shot(buffers=buffers)
        if size <= MOST:
            report.add("course, one shot", course, bytes_of=wire_bytes("one_shot", size, world.num_ranks), **common)


def in_graphs(world, report, size):
    """The rows of an all-reduce as a graph has it, by NCCL and in one shot."""
    course, raw, sent = all_reduce(world, size)
    common = {"op": "all_reduce", "bytes": size, "inner": IN_GRAPH, "bus_gbps": lambda us: f"{sent / us / 1e3:.2f}"}
    peer = report.add("torch.distributed, in a graph", Recorded(raw, IN_GRAPH), **common) if report.peers else None
    if world.one_shot_enabled:
        common["ratio_to_best_peer"] = lambda us: ratio(peer, us)
        report.add("course, one shot, in a graph", Recorded(course, IN_GRAPH), **common)


def all_reduce(world, size):
    """(the course's call, the raw call, bytes that a rank sends)."""
    x = torch.zeros(size // 4, device=world.device)
    return lambda: world.all_reduce(x), lambda: dist.all_reduce(x), wire_bytes("all_reduce", size, world.num_ranks)


def all_gather(world, size):
    """size : of the result."""
    x = torch.zeros(size // 4 // world.num_ranks, device=world.device)
    out = torch.zeros(size // 4, device=world.device)
    sent = wire_bytes("all_gather", x.nbytes, world.num_ranks)
    return lambda: world.all_gather(x), lambda: dist.all_gather_into_tensor(out, x), sent


def reduce_scatter(world, size):
    x = torch.zeros(size // 4, device=world.device)
    out = torch.zeros(size // 4 // world.num_ranks, device=world.device)
    sent = wire_bytes("reduce_scatter", size, world.num_ranks)
    return lambda: world.reduce_scatter(x), lambda: dist.reduce_scatter_tensor(out, x), sent


def all_to_all(world, size):
    x, out = (torch.zeros(size // 4, device=world.device) for _ in range(2))
    sent = size * (world.num_ranks - 1) // world.num_ranks
    return lambda: world.all_to_all(x), lambda: dist.all_to_all_single(out, x), sent


def send(world, size):
    """Rank 0 to rank 1."""
    x = torch.zeros(size // 4, device=world.device)

    def course():
        if world.rank < 2:
            world.send(x, 1) if world.rank == 0 else world.recv(x, 0)

    def raw():
        if world.rank < 2:
            dist.send(x, 1) if world.rank == 0 else dist.recv(x, 0)

    return course, raw, size

"""A world of processes on torch.distributed: gloo on the CPU, NCCL with a GPU for each rank.

`run(function, 2, backend="gloo")` starts the processes itself. Under torchrun, a script joins the world that it made:

    # sum.py                                     torchrun --nproc-per-node 2 sum.py
    import torch
    from course_lib.parallel import joined

    with joined() as world:                      # nccl where there is a GPU for each rank, else gloo
        x = torch.full((4,), float(world.rank), device=world.device)
        print(world.rank, world.all_reduce(x), world.events[-1].sent, "bytes")

May import: errors, ops.all_reduce, ops.linear_all_reduce, parallel.world, torch.
"""

import datetime
import functools
import os
import time
from contextlib import contextmanager

import torch
import torch.distributed as dist

from ..errors import WorldError
from ..ops.all_reduce import MAX_RANKS, Inbox, num_words, one_shot
from ..ops.linear_all_reduce import num_blocks
from .world import World

# NVLink multicast stays off: a program that fails in it can take the GPUs of a shared host out of service
ENVIRONMENT = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
STATUS_BYTES = 200


class Processes(World):
    """One rank of a world of processes.

    Times are those of the host's monotonic clock, which all processes of a machine share. With stream_times=True on a
    GPU they are those at which the stream reached a call, which is what a timeline of kernels needs.
    """

    def __init__(self, rank, num_ranks, device, *, stream_times=False, status=None):
        super().__init__(rank, num_ranks, device)
        self._stream_times, self._status = stream_times and self.device.type == "cuda", status
        self._inboxes = {}  # where the peers write their parts of an all-reduce, while it is enabled
        self._say("")
        if self._stream_times:
            torch.cuda.synchronize()
            self._origin = torch.cuda.Event(enable_timing=True), time.monotonic()
            self._origin[0].record()

    def finished_events(self):
        """The events, with times in seconds; those recorded in a CUDA graph have none and are at 0."""
        if not self._stream_times:
            return self.events
        torch.cuda.synchronize()
        return [e._replace(begin=self._seconds(e.begin), end=self._seconds(e.end)) for e in self.events]

    def _seconds(self, mark):
        if isinstance(mark, float):
            return mark
        return self._origin[1] + self._origin[0].elapsed_time(mark) / 1e3

    def _now(self):
        if not self._stream_times:
            return time.monotonic()
        if torch.cuda.is_current_stream_capturing():
            return 0.0
        mark = torch.cuda.Event(enable_timing=True)
        mark.record()
        return mark

    def _say(self, kind, more=""):
        if self._status is not None:
            self._status[:STATUS_BYTES] = _status_text(kind, more)

    def enable_one_shot(self, max_bytes=512 << 10, *, products=True, buffers=None):
        """All-reduces of at most this size by one kernel that writes into the peers' memory; every rank calls it.

        For the few kilobytes of a decode step NCCL's ring waits longer for its 2 (n - 1) steps than for its bytes.
        products : bool; of few tokens the product itself does it, see `ops.linear_all_reduce`
        buffers : what `disable_one_shot` returned, to use them again

        Raises
        ------
        WorldError    a world on the CPU, of one rank or of more than 8
        RuntimeError  this machine has no access to the peers' memory
        """
        if self.device.type != "cuda" or not 2 <= self.num_ranks <= MAX_RANKS:
            raise WorldError(
                f"one shot takes 2 to {MAX_RANKS} ranks on GPUs; here are {self.num_ranks} on {self.device.type}.",
                self.rank,
            )
        if buffers is None:
            buffers = {"sums": self._new_inbox(max_bytes)}
            if products:
                buffers["products"] = self._new_inbox(
                    max_bytes, num_blocks=num_blocks(torch.empty(0, device=self.device))
                )
        self._inboxes = buffers

    def disable_one_shot(self):
        """All all-reduces by NCCL again; returns the buffers, which are empty where one shot was not enabled."""
        buffers, self._inboxes = self._inboxes, {}
        return buffers

    @property
    def products(self):
        return self._inboxes.get("products")

    @property
    def one_shot_enabled(self):
        """Whether small all-reduces go into the peers' memory."""
        return bool(self._inboxes)

    def _new_inbox(self, max_bytes, **shape):
        """An Inbox in memory that every rank maps; all are zero when this returns."""
        words = self._share((num_words(self.num_ranks, max_bytes),), torch.int64)
        return Inbox.of_rank(self.rank, [each.data_ptr() for each in words], words[self.rank], max_bytes, **shape)

    @property
    def can_share(self):
        return self.device.type == "cuda" and self.num_ranks > 1

    def _share(self, shape, dtype):
        """`share` without its check: memory of this rank, and that of the peers as this rank maps it."""
        import torch.distributed._symmetric_memory as symmetric

        own = symmetric.empty(shape, dtype=dtype, device=self.device)
        handle = symmetric.rendezvous(own, dist.group.WORLD.group_name)
        own.zero_()
        self._barrier()  # no rank writes into memory that is yet to be zeroed
        ranks = range(self.num_ranks)
        return [own if rank == self.rank else handle.get_buffer(rank, shape, dtype) for rank in ranks]

    def _takes_one_shot(self, x):
        return self.one_shot_enabled and self._inboxes["sums"].takes(x)

    def _one_shot(self, x, _op, residual=None):
        one_shot(x, self._inboxes["sums"], residual=residual, out=x if residual is None else residual)

    def _all_reduce(self, x, op):
        dist.all_reduce(x, {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX}[op])

    def _all_gather(self, out, x):
        dist.all_gather_into_tensor(out.view(-1), x.view(-1))

    def _reduce_scatter(self, out, parts):
        dist.reduce_scatter_tensor(out.view(-1), parts.view(-1))

    def _all_to_all(self, out, x, send_sizes, recv_sizes, equal):
        dist.all_to_all_single(out, x, *((None, None) if equal else (recv_sizes, send_sizes)))

    def _barrier(self):
        if self.device.type == "cuda":
            dist.barrier(device_ids=[self.device.index])
            torch.cuda.synchronize()
        else:
            dist.barrier()

    def _start(self, sends, recvs):
        """One batch, so that sends and receives between two ranks cannot block each other."""
        own = [x for x, to in sends if to == self.rank], [x for x, source in recvs if source == self.rank]
        for x, out in zip(*own, strict=True):
            out.copy_(x)
        batch = [dist.P2POp(dist.isend, x, to) for x, to in sends if to != self.rank]
        batch += [dist.P2POp(dist.irecv, out, source) for out, source in recvs if source != self.rank]
        return (dist.batch_isend_irecv(batch) if batch else []), [rank for _, rank in (*sends, *recvs)]

    def _finish(self, handle):
        works, others = handle
        if self._status is not None:
            self._say("an exchange with rank ", ", ".join(map(str, others)))
        for work in works:
            work.wait()
        self._say("")


@functools.lru_cache(256)
def _status_text(kind, more):
    """What a rank waits in, as the bytes of its status; the same few come at every step."""
    text = f"is in {kind}{more}" if kind else "computes"
    return text.encode().ljust(STATUS_BYTES)[:STATUS_BYTES]


@contextmanager
def joined(backend=None, *, init_method="env://", seconds=600.0, stream_times=False, status=None):
    """The World of this process, one of those that torchrun or `run` started; left again at the end.

    backend : "gloo", "nccl" or None: nccl where this machine has a GPU for each of its ranks
    """
    os.environ.update(ENVIRONMENT)
    try:
        rank, num_ranks, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    except KeyError as error:
        raise WorldError(f"{error} is not set; start with torchrun, or by course_lib.parallel.run.") from None
    if backend is None:
        on_gpu = torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", num_ranks))
        backend = "nccl" if on_gpu else "gloo"
    device = torch.device("cuda", local) if backend == "nccl" else torch.device("cpu")
    if backend == "nccl":
        torch.cuda.set_device(device)
    options = {"device_id": device, "pg_options": _first_on_the_card()} if backend == "nccl" else {}
    timeout = datetime.timedelta(seconds=seconds)
    dist.init_process_group(backend, init_method, timeout, num_ranks, rank, **options)
    world = Processes(rank, num_ranks, device, stream_times=stream_times, status=status)
    try:
        yield world
        world.require_nothing_pending()
        dist.barrier(**({"device_ids": [local]} if backend == "nccl" else {}))
    finally:
        dist.destroy_process_group()


def _first_on_the_card():
    """Options of NCCL: blocks of a transfer are placed before those of a kernel that is meant to run beside it."""
    options = dist.ProcessGroupNCCL.Options()
    options.is_high_priority_stream = True
    return options

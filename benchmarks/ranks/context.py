"""Causal attention over a sequence on all ranks: the course's ring and Ulysses beside torch's context_parallel.

The shape is that of an 8B Llama: 32 query heads on 8 KV heads of 128, bfloat16, one sequence. ``one rank`` is the
course's kernel on the whole sequence; speedup is its time over the variant's.
"""

from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from course_lib.ops.flash_attention_2 import flash_attention_lse
from course_lib.parallel import context as cp
from course_lib.reference.attention import attention

from .report import clear, fastest, ratio, reason

HEADS, KV_HEADS, HEAD_DIM = 32, 8, 128
LENGTHS, DRY_LENGTHS = (32768, 65536, 131072), (64,)
CHECK = {"seq_len": 2048, "heads": 8, "kv_heads": 2}
ONE, COURSE = "one rank", ("course ring", "course Ulysses")
LIMIT = 0.02  # bfloat16: weights and output rounded to 2^-8, values of about 1
PEERS = {
    f"torch context_parallel, {name}, {rotate}{', KV repeated' if repeated else ''}": (backend, rotate, repeated)
    for repeated in (False, True)  # where enable_gqa is not taken, every query head gets a KV head of its own
    for name, backend in (("flash", SDPBackend.FLASH_ATTENTION), ("cuDNN", SDPBackend.CUDNN_ATTENTION))
    for rotate in ("allgather", "alltoall")
}


@torch.no_grad()
def rows(world, report):
    """The course first: a peer that hangs ends the part."""
    lengths = DRY_LENGTHS if report.dry else LENGTHS
    ours = {name: checked(world, report, name) for name in COURSE}
    times = {seq_len: length(world, report, seq_len, ours, {}) for seq_len in lengths}
    peers = {}
    for name in PEERS if report.peers else ():
        if isinstance(peers.get(name.removesuffix(", KV repeated"), ""), str):  # repeated only where need be
            peers[name] = checked(world, report, name)
    for seq_len in lengths:
        best = fastest(length(world, report, seq_len, peers, times[seq_len]).values())
        for name in COURSE if best else ():
            found = {"variant": name, "seq_len": seq_len}
            report.amend(found, ratio_to_best_peer=ratio(best, times[seq_len][name]))


def checked(world, report, name):
    """The largest error of a variant on a short sequence, or the sentence that says why it does not run."""
    sizes = {"seq_len": 64, "heads": 4, "kv_heads": 2} if report.dry else CHECK
    generator = torch.Generator().manual_seed(3)
    shapes = [(1, sizes[heads], sizes["seq_len"], HEAD_DIM) for heads in ("heads", "kv_heads", "kv_heads")]
    whole = [torch.randn(shape, generator=generator).bfloat16().to(world.device) for shape in shapes]
    order = "contiguous" if name == "course Ulysses" else "zigzag"
    own = [cp.shard(x, world.rank, world.num_ranks, order=order) for x in whole]
    try:
        with prepared(world, name, own, whole) as call:
            found = call()
        expected = cp.shard(attention(*whole, causal=True), world.rank, world.num_ranks, order=order)
        return report.largest((found.double() - expected).abs().max())
    except Exception as problem:
        return reason(problem)
    finally:
        clear()


@contextmanager
def prepared(world, name, own, whole=None):
    """The function without arguments that runs a variant on this rank's q, k and v."""
    if name == "course ring":
        yield lambda: cp.ring_attention(world, *own)[0]
    elif name == "course Ulysses":
        yield lambda: cp.ulysses_attention(world, *own)
    else:
        with torch_context_parallel(world, *PEERS[name], own, whole) as call:
            yield call


@contextmanager
def torch_context_parallel(world, backend, rotate, repeated, own, whole):
    """scaled_dot_product_attention under torch's context_parallel; it cuts whole tensors itself, as `zigzag` does."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.experimental import _attention, context_parallel

    _attention.set_rotate_method(rotate)
    mesh = init_device_mesh(world.device.type, (world.num_ranks,))
    if whole is None:
        shapes = [(1, x.shape[1], x.shape[2] * world.num_ranks, x.shape[3]) for x in own]
        whole = [torch.randn(shape, dtype=own[0].dtype, device=world.device) for shape in shapes]
    num_q_per_kv = own[0].shape[1] // own[1].shape[1] if repeated else 1
    buffers = [whole[0].clone(), *(x.repeat_interleave(num_q_per_kv, dim=1) for x in whole[1:])]
    options = {"buffers": buffers, "buffer_seq_dims": [2, 2, 2], "no_restore_buffers": set(buffers)}
    with torch.no_grad(), context_parallel(mesh, **options), sdpa_kernel(backend):
        yield lambda: F.scaled_dot_product_attention(*buffers, is_causal=True, enable_gqa=not repeated)


def length(world, report, seq_len, errors, before):
    """Variants at one length, name -> microseconds; before: those that were timed earlier, "one rank" among them."""
    n, heads = world.num_ranks, (HEADS, KV_HEADS) if not report.dry else (4, 2)
    flop = 2 * heads[0] * seq_len**2 * HEAD_DIM

    def tensors(tokens):
        shapes = [(1, h, tokens, HEAD_DIM) for h in (heads[0], heads[1], heads[1])]
        return [torch.randn(shape, dtype=torch.bfloat16, device=world.device) for shape in shapes]

    common = {"op": "causal attention", "seq_len": seq_len, "tflops": lambda us: f"{flop / n / us / 1e6:.1f}"}
    times = {} if ONE in before else {ONE: one_rank(report, tensors(seq_len), flop, common)}
    common["speedup"] = lambda us: ratio((before | times)[ONE], us)
    own, sizes = tensors(seq_len // n), (HEAD_DIM, 2)
    wire = {COURSE[0]: cp.ring_bytes(n, seq_len, heads[1], *sizes)}
    wire[COURSE[1]] = cp.ulysses_bytes(n, seq_len, *heads, *sizes)
    for name, error in errors.items():
        times[name] = variant(world, report, name, own, error, common | {"bytes_of": wire.get(name)})
    return times


def one_rank(report, tensors, flop, columns):
    """The microseconds of the course's kernel on the whole sequence."""
    columns = columns | {"tflops": lambda us: f"{flop / us / 1e6:.1f}"}
    return report.add(ONE, lambda: flash_attention_lse(*tensors, causal=True)[0], **columns)


def variant(world, report, name, own, error, columns):
    """Time one variant; a peer that does not run here is a row that says so."""
    shown = {key: value for key, value in columns.items() if not callable(value) and key != "bytes_of"}
    if isinstance(error, str):
        note = f"wrong: {error}" if name in COURSE else error
        report.skip(name, note, **shown)
        return None
    try:
        with prepared(world, name, own) as call:
            return report.add(name, call, error=error, limit=LIMIT, **columns)
    except Exception as problem:
        report.skip(name, problem, **shown)
        return None
    finally:
        clear()

"""Every scheme of course_lib.parallel once, for threads and for processes, and threads that share memory as GPUs do."""

import torch
import torch.nn.functional as F

from course_lib.model import ModelConfig, Transformer
from course_lib.parallel import context
from course_lib.parallel import tensor as tp
from course_lib.parallel.disaggregated import serve
from course_lib.parallel.expert import moe
from course_lib.parallel.threads import Threads

CONFIG = ModelConfig("llama", 61, 32, 2, 4, 2, 8, 40, 48, tie_embeddings=False)


def _random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def every_scheme(world):
    """Each scheme once."""
    rank, n = world.rank, world.num_ranks
    x, up, down = _random(5, 16), _random(32, 16, seed=1), _random(16, 32, seed=2)
    qkv = [context.shard(tensor, rank, n) for tensor in [_random(1, heads, 24, 8, seed=heads) for heads in (4, 2, 2)]]
    experts = _random(8, 2 * 32, 16, seed=3), _random(8, 16, 32, seed=4)
    model = Transformer.random(CONFIG, 3)
    pair = world.exchange([(x, 1 - rank)], [(torch.empty_like(x), 1 - rank)])
    world.barrier()
    return (
        world.all_reduce(torch.tensor([rank, -rank]), "max"),
        world.all_gather(x, dim=1),
        world.reduce_scatter(x, dim=1),
        tp.mlp(world, x, tp.part_of(up, rank, n), tp.part_of(down, rank, n, dim=1), F.gelu),
        *context.ring_attention(world, *qkv),
        context.ulysses_attention(world, *qkv, causal=False),
        moe(world, x[: 2 + rank], x[: 2 + rank, :8], *(w.chunk(n)[rank] for w in experts), top_k=2),
        *pair,
        serve(world, model, [[7, 3, 19], [11]], 3),
    )


def sharing(monkeypatch):
    """Threads that can write into each other's memory, as ranks on GPUs of one host."""

    def share(world, shape, dtype):
        return world._meet("share", torch.zeros(shape, dtype=dtype), list, 0)

    monkeypatch.setattr(Threads, "can_share", True)
    monkeypatch.setattr(Threads, "_share", share, raising=False)

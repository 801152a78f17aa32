"""What test_parallel_gpu runs on each of two GPUs: the largest error of every scheme against one rank."""

import torch

from course_lib.model import ModelConfig, Transformer, random_weights
from course_lib.parallel import context, expert
from course_lib.parallel.disaggregated import KVPages, recv_sequence, send_sequence
from course_lib.parallel.tensor_model import TensorParallel
from course_lib.reference import moe as reference
from course_lib.reference.attention import attention

CONFIG = ModelConfig("llama", 512, 256, 2, 4, 2, 64, 512, 128, tie_embeddings=False)


@torch.no_grad()
def schemes(world):
    """Name -> error; bfloat16, sizes of a few hundred."""
    found = {"ring": ring(world), "ulysses": ulysses(world), "experts": experts(world), "pages": pages(world)}
    found["model"] = model(world)
    try:
        world.enable_one_shot()
    except RuntimeError:  # this machine has no access to the peers' memory
        return found
    return found | {"model, one shot": model(world)}


def draw(world, *shape, seed=0, dtype=torch.bfloat16):
    """The same on every rank."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(world.device, dtype)


def worst(found, expected):
    return ((found.double() - expected).abs().max() / expected.abs().max()).item()


def tensors(world):
    return [draw(world, 1, heads, 512, 128, seed=heads) for heads in (8, 2, 2)]


def ring(world):
    whole = tensors(world)
    own = [context.shard(x, world.rank, world.num_ranks) for x in whole]
    expected = context.shard(attention(*whole, causal=True), world.rank, world.num_ranks)
    return worst(context.ring_attention(world, *own)[0], expected)


def ulysses(world):
    whole = tensors(world)
    options = {"order": "contiguous"}
    own = [context.shard(x, world.rank, world.num_ranks, **options) for x in whole]
    expected = context.shard(attention(*whole, causal=True), world.rank, world.num_ranks, **options)
    return worst(context.ulysses_attention(world, *own), expected)


def experts(world):
    n, rank = world.num_ranks, world.rank
    x, logits = draw(world, 2 * 50, 64), draw(world, 2 * 50, 8, seed=1, dtype=torch.float32)
    w_up, w_down = draw(world, 8, 2 * 32, 64, seed=2) / 8, draw(world, 8, 64, 32, seed=3) / 6
    own = [part.chunk(n)[rank].contiguous() for part in (x, logits, w_up, w_down)]
    expected = reference.moe(x, logits, w_up, w_down, top_k=2).chunk(n)[rank]
    return worst(expert.moe(world, *own, top_k=2), expected)


def pages(world):
    """1 where what arrives is not what was sent."""
    store = KVPages(CONFIG, 16, 4, dtype=torch.bfloat16, device=world.device)
    sent = draw(world, 2, 2, 23, 2, 64)
    if world.rank == 0:
        store.new("a", 23)
        store.write(store.slots("a"), sent)
        send_sequence(world, store, "a", 1, first_token=7)
        return 0.0
    store.new("other", 9)
    token = recv_sequence(world, store, "a", 0)
    return 0.0 if token == 7 and torch.equal(store.read(store.slots("a")), sent) else 1.0


def model(world):
    """Logits of a prompt and a step."""
    weights = random_weights(CONFIG, 3, dtype=torch.bfloat16, device="cpu").to(device=world.device)
    ids = torch.arange(14, device=world.device).view(2, 7)
    found = []
    for each in (TensorParallel.shard(world, weights), Transformer(weights).use("torch")):
        cache = each.new_cache(2, 10)
        found.append(torch.cat((each.prefill(ids, [7, 4], cache), each.step(ids[:, 0].contiguous(), cache))))
    return worst(found[0], found[1].double())

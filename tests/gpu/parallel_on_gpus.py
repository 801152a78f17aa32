"""What test_parallel_gpu runs on each of several GPUs: the largest error of every scheme against one rank."""

import torch

from course_lib.model import ModelConfig, Transformer, random_weights
from course_lib.parallel import context, expert
from course_lib.parallel.disaggregated import KVPages, recv_sequence, send_sequence
from course_lib.parallel.tensor_model import TensorParallel
from course_lib.reference import moe as reference
from course_lib.reference.attention import attention

CONFIG = ModelConfig("llama", 512, 256, 2, 4, 2, 64, 512, 128, tie_embeddings=False)
DTYPES = (torch.bfloat16, torch.float16, torch.float32)
SIZES = (8, 4096, 24, 64 * 4096, 8 * 4096 + 40, 4, 3 * 4096)  # of an all-reduce
MOST = max(SIZES)


@torch.no_grad()
def schemes(world):
    """Name -> error; bfloat16, sizes of a few hundred."""
    found = {"ring": ring(world), "ulysses": ulysses(world), "experts": experts(world), "pages": pages(world)}
    found["model"] = model(world)
    try:
        world.enable_one_shot(MOST * 4, products=False)
    except RuntimeError:  # this machine has no access to the peers' memory
        return found
    found["pages, one-sided"] = pages(world, shared=world)
    one_shots = {f"one shot, {dtype}": one_shot_calls(world, dtype) for dtype in DTYPES}
    found |= one_shots | {"one shot in a graph": one_shot_graph(world)}
    found |= {"model, one shot": model(world), "model, one shot, one row": model(world, num_rows=1)}
    world.enable_one_shot(MOST * 4)
    return found | {f"model, one shot in products, {rows} rows": model(world, num_rows=rows) for rows in (1, 2)}


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
    x, logits = draw(world, n * 50, 64), draw(world, n * 50, 8, seed=1, dtype=torch.float32)
    w_up, w_down = draw(world, 8, 2 * 32, 64, seed=2) / 8, draw(world, 8, 64, 32, seed=3) / 6
    own = [part.chunk(n)[rank].contiguous() for part in (x, logits, w_up, w_down)]
    expected = reference.moe(x, logits, w_up, w_down, top_k=2).chunk(n)[rank]
    return worst(expert.moe(world, *own, top_k=2), expected)


def pages(world, shared=None):
    """1 where what arrives is not what was sent, or where anything else of the two pools changes; three sequences."""
    store = KVPages(CONFIG, 32, 4, dtype=torch.bfloat16, device=world.device, world=shared)
    store.kv.fill_(-1.0)
    wrong, taken = 0.0, 9 if world.rank == 1 else 0
    for name in range(taken):
        store.new(name, 4)
    for name in (3, 0, 7, 1, 5, 8)[:taken]:  # what is given out next is not in order
        store.pool.free(name)
    for name, num_tokens in enumerate((23, 1, 32), 100):
        sent = draw(world, 2, 2, num_tokens, 2, 64, seed=name)
        if world.rank == 0:
            store.new(name, num_tokens)
            store.write(store.slots(name), sent)
            before = store.kv.clone()
            send_sequence(world, store, name, 1, first_token=7)
            wrong = max(wrong, 0.0 if torch.equal(store.kv, before) else 1.0)
        elif world.rank == 1:
            token = recv_sequence(world, store, name, 0)
            found = store.read(store.slots(name))
            store.write(store.slots(name), torch.full_like(found, -1.0))
            right = token == 7 and torch.equal(found, sent) and bool((store.kv == -1.0).all())
            wrong = max(wrong, 0.0 if right else 1.0)
    return wrong


def one_shot_calls(world, dtype):
    """1 where one of 70 calls in a row, of changing sizes and numbers, is not the rounded sum on all ranks, else 0."""
    wrong = 0.0
    for call in range(70):
        size = SIZES[call % len(SIZES)]
        x = draw(world, world.num_ranks, size, seed=call, dtype=dtype)
        residual = draw(world, size, seed=1000 + call, dtype=dtype) if call % 3 else None
        own = x[world.rank].clone()
        found = world.all_reduce(own) if residual is None else world.all_reduce_add(own, residual.clone())
        wrong = max(wrong, not_the_sum(world, found, x, residual))
    return wrong


def one_shot_graph(world):
    """The same for a graph with three calls, replayed 20 times with other numbers."""
    n, size = world.num_ranks, 2 * 4096
    parts = [torch.zeros(size, dtype=dtype, device=world.device) for dtype in DTYPES]
    residual = torch.zeros(size, dtype=DTYPES[0], device=world.device)
    sums = [torch.empty_like(part) for part in parts]
    graph, wrong = torch.cuda.CUDAGraph(), 0.0
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        world.all_reduce_add(parts[0] + 0.0, torch.add(residual, 0.0, out=sums[0]))
        for part, total in zip(parts[1:], sums[1:], strict=True):
            world.all_reduce(torch.add(part, 0.0, out=total))
    for turn in range(20):
        drawn = [draw(world, n, size, seed=3 * turn + i, dtype=dtype) for i, dtype in enumerate(DTYPES)]
        for part, x in zip(parts, drawn, strict=True):
            part.copy_(x[world.rank])
        residual.copy_(draw(world, size, seed=1000 + turn, dtype=DTYPES[0]))
        graph.replay()
        for i, x in enumerate(drawn):
            wrong = max(wrong, not_the_sum(world, sums[i], x, None if i else residual))
    return wrong


def not_the_sum(world, found, x, residual):
    """1 where `found` is not sum(x) + residual, rounded once, or where another rank has other bits; else 0."""
    expected = x.double().sum(0) + (0.0 if residual is None else residual.double())
    limit = torch.finfo(x.dtype).eps / 2 * expected.abs() + 1e-5  # 1e-5: the sum itself is in float32
    near = bool(((found.double() - expected).abs() <= limit).all())
    same = all(torch.equal(found, other) for other in world.all_gather(found[None]))
    return 0.0 if near and same else 1.0


def model(world, num_rows=2):
    """Logits of a prompt and a step."""
    weights = random_weights(CONFIG, 3, dtype=torch.bfloat16, device="cpu").to(device=world.device)
    ids = torch.arange(7 * num_rows, device=world.device).view(num_rows, 7)
    found = []
    for each in (TensorParallel.shard(world, weights), Transformer(weights).use("torch")):
        cache = each.new_cache(num_rows, 10)
        first = each.prefill(ids, [7, 4][:num_rows], cache)
        found.append(torch.cat((first, each.step(ids[:, 0].contiguous(), cache))))
    return worst(found[0], found[1].double())

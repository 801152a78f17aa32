"""Prefill and decode of an 8B-shaped Llama: one rank, the course's tensor parallelism, and torch's.

Random weights, bfloat16, checked against torch in float32: the error of several ranks may be twice that of one, since a
sum over ranks rounds its parts too. A decode step is one token of each row after `seq_len` tokens, greedy, as a CUDA
graph; with one shot the all-reduces of a step go into the peers' memory instead of round NCCL's ring, in a kernel of
their own or at the end of the product of up to 8 tokens. speedup is against one rank of the course's model, on the same
load.
"""

import torch

from course_lib.model import ModelConfig, Transformer, random_weights
from course_lib.parallel.tensor_model import TensorParallel, model_bytes

from .model_peer import Peer
from .recorded import Recorded
from .report import clear, fastest, ratio, reason

DRY = ModelConfig("llama", 211, 128, 2, 4, 2, 64, 128, 96, tie_embeddings=False)
PREFILL, DECODE = (4096,), ((1, 2048), (16, 2048), (64, 2048))  # tokens; (batch_size, seq_len)
DRY_PREFILL, DRY_DECODE = (16,), ((2, 16),)
SPARE = 64  # further tokens that the cache has room for: each replay adds one
LEAST = 1e-4  # of max_error, in standard deviations of the logits: what float32 itself rounds
ONE, PEER, PEER_EAGER = "one rank", "torch tensor.parallel", "torch tensor.parallel, no graph"
NCCL, ONE_SHOT, IN_PRODUCT = COURSE = "course", "course, one shot", "course, one shot in the product"


@torch.no_grad()
def rows(world, report):
    """The course first: a peer that hangs ends the part."""
    config = DRY if report.dry else ModelConfig.named("llama-3-8b")
    dtype = torch.float32 if report.dry else torch.bfloat16
    weights = random_weights(config, 0, dtype=dtype, device=world.device)
    expected = probe(Transformer(weights.to(dtype=torch.float32)).use("torch"), config)
    clear()
    one, times = Transformer(weights), {}
    limit = max(LEAST, 2 * error_of(report, one, config, expected))
    for load in loads(report):
        times[load] = {ONE: measure(report, ONE, one, load, {}, (limit / 2, limit))}
    model = TensorParallel.shard(world, weights)
    del one, weights
    clear()
    for name in COURSE:
        if name != NCCL and not enabled(world, report, name):
            continue
        error = error_of(report, model, config, expected)
        for load in loads(report):
            times[load][name] = measure(report, name, model, load, times[load], (error, limit))
    del model
    clear()
    if report.peers:
        peer_rows(world, report, config, times)
    for (op, batch_size, tokens), found in times.items():
        best = fastest(found.get(name) for name in (PEER, PEER_EAGER))
        for name in COURSE if best else ():
            row = {"variant": name, "op": op, "batch_size": batch_size, "seq_len": tokens}
            report.amend(row, ratio_to_best_peer=ratio(best, found.get(name)))


def loads(report):
    """(op, batch_size, tokens)."""
    prefill, decode = (DRY_PREFILL, DRY_DECODE) if report.dry else (PREFILL, DECODE)
    return [*(("prefill", 1, tokens) for tokens in prefill), *(("decode", *sizes) for sizes in decode)]


def error_of(report, model, config, expected):
    """The largest error of the logits on any rank, over their standard deviation."""
    return report.largest((probe(model, config) - expected).abs().max() / expected.std())


def probe(model, config):
    """Logits after a short prompt and a step, float32."""
    ids = torch.randint(config.vocab_size, (1, 16), generator=torch.Generator().manual_seed(1)).to(model.device)
    cache = model.new_cache(1, 17)
    return torch.cat((model.prefill(ids, [16], cache), model.step(ids[:, 0], cache))).float()


def enabled(world, report, name):
    """Whether the all-reduce into the peers' memory works here."""
    if report.dry:
        return False
    try:
        world.enable_one_shot(products=name == IN_PRODUCT)
        return True
    except Exception as problem:
        report.skip(name, problem, op="decode")
        return False


def measure(report, name, model, load, times, check):
    """The row of a variant and load; check: (error, limit)."""
    op, batch_size, tokens = load
    cache = model.new_cache(batch_size, tokens + SPARE)
    call = prefill_call(model, cache, tokens) if op == "prefill" else decode_call(model, cache, tokens)
    columns = columns_of(load, times) | {"inner": 1 if op == "prefill" else 4}
    columns |= {"error": check[0], "limit": check[1]}
    if name == NCCL:
        sizes = (tokens, 1) if op == "prefill" else (batch_size, batch_size)
        whole, n = model.whole, model.world.num_ranks
        columns["bytes_of"] = model_bytes(whole, n, *sizes, cache.k.element_size())
    us = report.add(name, call, **columns)
    del cache, call
    clear()
    return us


def columns_of(load, times):
    """Columns of a row; times: variant -> microseconds of those that were timed before."""
    op, batch_size, tokens = load
    made = tokens if op == "prefill" else batch_size
    columns = {"op": op, "batch_size": batch_size, "seq_len": tokens}
    columns["tokens_per_s"] = lambda us: f"{made / us * 1e6:.0f}"
    if ONE in times:
        columns["speedup"] = lambda us: ratio(times[ONE], us)
    return columns


def prefill_call(model, cache, tokens):
    ids = torch.randint(model.config.vocab_size, (1, tokens), generator=torch.Generator().manual_seed(2))
    ids = ids.to(model.device)
    return lambda: model.prefill(ids, [tokens], cache)


def decode_call(model, cache, tokens):
    """A step that begins at `tokens` in every row again, so that each one takes as long as the others."""
    cache.set_lengths(tokens)
    cache.longest = tokens
    ids = torch.zeros(cache.batch_size, dtype=torch.int64, device=model.device)

    def step():
        with cache.lengths_on_device():
            model.kernels.greedy(model.step(ids, cache), out=ids)
        cache.set_lengths(tokens)

    return step if model.device.type == "cpu" else Recorded(step)


def peer_rows(world, report, config, times):
    """torch.distributed.tensor.parallel on the same loads."""
    try:
        peer = Peer(world, config)
    except Exception as problem:
        report.skip(PEER, problem)
        return
    for load in loads(report):
        op, batch_size, tokens = load
        for name in (PEER_EAGER, PEER):
            if name == PEER and op == "prefill":
                continue
            try:
                call = peer.prefill(tokens) if op == "prefill" else peer.decode(batch_size, tokens)
                if name == PEER and not report.dry:
                    call = Recorded(call)
                columns = columns_of(load, times[load]) | {"inner": 1 if op == "prefill" else 4}
                times[load][name] = report.add(name, call, **columns)
            except Exception as problem:
                report.skip(name, reason(problem), op=op, batch_size=batch_size, seq_len=tokens)
            clear()
    del peer
    clear()

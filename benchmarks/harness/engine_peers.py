"""Attention of mixed batches by FlashInfer and FlexAttention, on the same pools as the course's engine.

    PEERS      name -> function(case) that gives a function without arguments, or raises
    MLA_PEERS  the same over pages of latents
    MOD_PEERS  the same with a score modification: case.soft_cap, case.slopes (ALiBi), case.window

May import: torch, benchmark, decode_peers, variants, and the peers inside functions.
"""

from functools import partial

import torch

from .benchmark import Benchmark
from .decode_peers import _workspace
from .variants import Variants, ratio_to_best


def engines(options, inputs, prepared, peers, check, limit, modes=None):
    """The Variants of one load: the course's engine in every mode, then its peers, as CUDA graphs.

    Parameters
    ----------
    options : the parsed command line
    inputs : the load's tensors
    prepared : function(inputs, **mode) that gives the function to time
    peers : dict, name -> function(inputs) that gives the function to time, or refuses
    check, limit : as in Variants.add
    modes : dict, name -> keyword arguments of `prepared`; {"engine": {}} if None
    """
    variants = Variants(options, graphs=True)
    for name, mode in (modes or {"engine": {}}).items():
        variants.add({"variant": name}, partial(prepared, inputs, **mode), check, limit)
    for name, peer in peers.items():
        variants.add({"variant": name}, partial(peer, inputs), check, limit, optional=True)
    return variants


def benchmark_of_engines(doc, file, *, keys, values, loads, rows, more=()):
    """What a case file declares whose rows are those of `engines`.

    Parameters
    ----------
    doc, file, keys, loads, rows : as in Benchmark
    values : tuple of str, the columns that are printed for each row beside the median
    more : tuple of str, further columns
    """
    return Benchmark(
        doc,
        file,
        "medians of CUDA events, graphs, in turns, L2 flushed",
        keys=keys,
        values=("median_us", "low_us", "high_us", *values, *more, "max_error", "note"),
        loads=loads,
        rows=rows,
        shown=("median_us", *values),
    )


def rates(peers, flop, num_bytes=None, of_plan=None):
    """The function for `Variants.timed`: the rates of a row, and the best peer's time over its own.

    Parameters
    ----------
    peers, flop : the dict of peers; float, what every variant of the load computes
    num_bytes : int or None, what every variant moves; None: rows have no column gbps
    of_plan : dict or None, column -> cell that the row "engine" alone has; empty in the others
    """

    def speed(row, median_ms, times):
        columns = {} if num_bytes is None else {"gbps": f"{num_bytes / median_ms / 1e6:.0f}"}
        columns |= {"tflops": f"{flop / median_ms / 1e9:.1f}"}
        columns |= {"ratio_to_best_peer": ratio_to_best(peers, median_ms, times)}
        return columns | {name: cell if row["variant"] == "engine" else "" for name, cell in (of_plan or {}).items()}

    return speed


def _paged(case):
    """(indptr of tokens, indptr of pages, pages, keys in the last page), as FlashInfer takes them, on the device."""
    needed = [-(-keys // case.page_size) for keys in case.keys]
    pages = torch.cat([row[:count] for row, count in zip(case.table, needed, strict=True)]).contiguous()
    last = torch.tensor([(keys - 1) % case.page_size + 1 for keys in case.keys], dtype=torch.int32)
    indptr = torch.tensor([0, *needed]).cumsum(0).int()
    return torch.tensor(case.starts).int().cuda(), indptr.cuda(), pages.cuda(), last.cuda()


def _heads(case):
    return case.q.shape[1], case.k_pages.shape[2], case.q.shape[2]


def decode(case):
    """Batch decode on tensor cores: one token a request."""
    from flashinfer import BatchDecodeWithPagedKVCacheWrapper

    if set(case.new) != {1}:
        raise RuntimeError("takes one token a request")
    _, indptr, pages, last = _paged(case)
    wrapper = BatchDecodeWithPagedKVCacheWrapper(_workspace(), "NHD", use_tensor_cores=True, backend="fa2")
    wrapper.plan(
        indptr, pages, last, *_heads(case), case.page_size, q_data_type=case.q.dtype, kv_data_type=case.q.dtype,
        window_left=-1 if case.window is None else case.window,
    )  # fmt: skip
    return lambda: (wrapper.run(case.q, (case.k_pages, case.v_pages)),)


def prefill(case, backend, **options):
    """Batch prefill, which takes every mix."""
    from flashinfer import BatchPrefillWithPagedKVCacheWrapper

    wrapper = BatchPrefillWithPagedKVCacheWrapper(_workspace(), "NHD", backend=backend)
    wrapper.plan(
        *_paged(case), *_heads(case), case.page_size, causal=True, q_data_type=case.q.dtype, kv_data_type=case.q.dtype,
        window_left=-1 if case.window is None else case.window, **options,
    )  # fmt: skip
    return lambda: (wrapper.run(case.q, (case.k_pages, case.v_pages)),)


def mixed(case):
    """The mixed-batch API: one persistent launch."""
    from flashinfer import BatchAttention

    if case.window is not None:
        raise RuntimeError("has no window")
    starts, indptr, pages, _ = _paged(case)
    num_heads, num_kv_heads, head_dim = _heads(case)
    wrapper = BatchAttention(kv_layout="NHD")
    wrapper.plan(
        starts, indptr, pages, torch.tensor(case.keys).int().cuda(), num_heads, num_kv_heads, head_dim, head_dim,
        case.page_size, causal=True, q_data_type=case.q.dtype, kv_data_type=case.q.dtype,
    )  # fmt: skip
    return lambda: wrapper.run(case.q, (case.k_pages, case.v_pages))


def cascade(case):
    """Two levels: the pages that all requests share, and those of each."""
    from flashinfer import MultiLevelCascadeAttentionWrapper

    if len(case.shared) != 1 or case.shared[0][:2] != (0, len(case.keys)):
        raise RuntimeError("is for a prefix that all requests share")
    shared = case.shared[0][2] // case.page_size
    needed = [-(-keys // case.page_size) - shared for keys in case.keys]
    own = torch.cat([row[shared : shared + count] for row, count in zip(case.table, needed, strict=True)])
    last = torch.tensor([(keys - 1) % case.page_size + 1 for keys in case.keys], dtype=torch.int32)
    starts = torch.tensor(case.starts).int()
    wrapper = MultiLevelCascadeAttentionWrapper(2, _workspace(), "NHD")
    wrapper.plan(
        [starts[[0, -1]].cuda(), starts.cuda()],
        [torch.tensor([0, shared]).int().cuda(), torch.tensor([0, *needed]).cumsum(0).int().cuda()],
        [case.table[0, :shared].contiguous().cuda(), own.contiguous().cuda()],
        [torch.tensor([case.page_size]).int().cuda(), last.cuda()],
        *_heads(case), case.page_size, causal=True, q_data_type=case.q.dtype, kv_data_type=case.q.dtype,
    )  # fmt: skip
    return lambda: (wrapper.run(case.q, (case.k_pages, case.v_pages)),)


PEERS = {
    "flashinfer_decode": decode,
    "flashinfer_prefill_fa2": lambda case: prefill(case, "fa2"),
    "flashinfer_prefill_fa3": lambda case: prefill(case, "fa3"),
    "flashinfer_mixed": mixed,
    "flashinfer_cascade": cascade,
}


def mla(case, backend):
    """Multi-head latent attention, absorbed: latents and rope keys are two views of the same rows."""
    from flashinfer.mla import BatchMLAPagedAttentionWrapper

    starts, indptr, pages, _ = _paged(case)
    wrapper = BatchMLAPagedAttentionWrapper(_workspace(), backend=backend)
    wrapper.plan(
        starts, indptr, pages, torch.tensor(case.keys).int().cuda(), case.q.shape[1], 512, 64, case.page_size, True,
        case.scale, case.q.dtype, case.pages.dtype,
    )  # fmt: skip
    (q, q_rope), (latents, rope) = (x.split([512, 64], -1) for x in (case.q, case.pages))
    q, q_rope = q.contiguous(), q_rope.contiguous()
    return lambda: (wrapper.run(q, q_rope, latents, rope),)


MLA_PEERS = {
    "flashinfer_mla_fa2": lambda case: mla(case, "fa2"),
    "flashinfer_mla_fa3": lambda case: mla(case, "fa3"),
}


def modified(case, backend):
    """Batch prefill with what FlashInfer has built in: a soft cap, ALiBi with its own slopes, a window."""
    if case.slopes is not None:
        return prefill(case, backend, pos_encoding_mode="ALIBI")
    return prefill(case, backend, **({"logits_soft_cap": case.soft_cap} if case.soft_cap else {}))


def flex(case):
    """FlexAttention over K and V that were gathered before, since it takes no pages; compiled on a GPU."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    [new], [keys] = set(case.new), set(case.keys)  # requests of one length: its batch is a rectangle
    pages = case.block_table[:, : -(-keys // case.page_size)].long()
    k, v = (pool[pages].flatten(1, 2)[:, :keys].transpose(1, 2).contiguous() for pool in (case.k_pages, case.v_pages))
    q = case.q.unflatten(0, (-1, new)).transpose(1, 2)
    mask = create_block_mask(_visible(case, keys - new), None, None, new, keys, device=str(q.device))
    call = torch.compile(flex_attention, dynamic=False) if q.is_cuda else flex_attention
    mod = _score_mod(case, keys - new)
    return lambda: (call(q, k, v, mod, mask, enable_gqa=True).transpose(1, 2).flatten(0, 1),)


def _visible(case, offset):
    """FlexAttention's mask: the keys up to a query's own, in the window if there is one."""
    if case.window is None:
        return lambda b, h, query, key: key <= query + offset
    window = case.window
    return lambda b, h, query, key: (key <= query + offset) & (key >= query + offset - window)


def _score_mod(case, offset):
    """FlexAttention's score modification, or None."""
    cap, slopes = case.soft_cap, case.slopes
    if cap is not None:
        return lambda score, b, h, query, key: cap * torch.tanh(score / cap)
    if slopes is not None:
        return lambda score, b, h, query, key: score - slopes[h] * (query + offset - key)
    return None


MOD_PEERS = {
    "flashinfer_prefill_fa2": lambda case: modified(case, "fa2"),
    "flashinfer_prefill_fa3": lambda case: modified(case, "fa3"),
    "flex_attention": flex,
}

"""Paged decode by FlashInfer and cuDNN, where they are installed, on the same pools and tables as the course's kernels.

    PEERS      name -> function(case) that gives a function without arguments, or raises

May import: torch, and the peers inside functions.
"""

import torch

_workspaces = {}


def _workspace():
    if "bytes" not in _workspaces:
        _workspaces["bytes"] = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    return _workspaces["bytes"]


def flashinfer(case, tensor_cores):
    """FlashInfer's batch decode, planned beforehand: its plan runs on the host and is not counted."""
    from flashinfer import BatchDecodeWithPagedKVCacheWrapper

    page_size = case.page_size
    needed = [-(-length // page_size) for length in case.lengths]
    indptr = torch.tensor([0, *needed]).cumsum(0).int()
    indices = torch.cat([row[:count] for row, count in zip(case.block_table, needed, strict=True)]).contiguous()
    last = torch.tensor([(length - 1) % page_size + 1 for length in case.lengths], dtype=torch.int32)
    wrapper = BatchDecodeWithPagedKVCacheWrapper(
        _workspace(), "NHD", use_tensor_cores=tensor_cores, backend="fa2" if tensor_cores else "auto"
    )
    num_heads, head_dim = case.q.shape[1:]
    wrapper.plan(
        indptr.cuda(), indices, last.cuda(), num_heads, case.k_pages.shape[2], head_dim, page_size,
        q_data_type=case.q.dtype, kv_data_type=case.q.dtype,
    )  # fmt: skip
    return lambda: wrapper.run(case.q, (case.k_pages, case.v_pages))


def cudnn(case):
    """cuDNN's paged attention through its frontend, as FlashInfer calls it."""
    from flashinfer.cudnn.decode import _batch_decode_with_kv_cache

    if case.q.dtype != torch.bfloat16:
        raise RuntimeError("asked for in bfloat16 only")
    out = torch.empty_like(case.q)
    ones = torch.ones(len(case.lengths), 1, 1, 1, dtype=torch.int32, device="cuda")
    lengths = case.seq_lens.view(-1, 1, 1, 1)
    k_pages, v_pages = (pages.transpose(1, 2) for pages in (case.k_pages, case.v_pages))  # heads before slots
    table = case.block_table[:, : -(-max(case.lengths) // case.page_size)].clamp(min=0).contiguous()

    def call():
        return _batch_decode_with_kv_cache(
            case.q, k_pages, v_pages, case.q.shape[2] ** -0.5, _workspace(), max_sequence_kv=max(case.lengths),
            actual_seq_lens_q=ones, actual_seq_lens_kv=lengths, block_tables=table, block_size=case.page_size, out=out,
        )  # fmt: skip

    return call


PEERS = {
    "flashinfer_tensor_cores": lambda case: flashinfer(case, True),
    "flashinfer": lambda case: flashinfer(case, False),
    "cudnn_paged": cudnn,
}

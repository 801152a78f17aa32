import triton
import triton.language as tl


@triton.jit
def split_kernel(
    q_ptr,  # (batch_size, num_heads, HEAD_DIM) half, contiguous
    k_ptr, v_ptr,  # (batch_size, num_kv_heads, capacity, HEAD_DIM) half, contiguous
    seq_lens_ptr,  # (batch_size,) int, 0 to capacity: valid keys of each sequence
    partial_out_ptr,  # (num_splits, batch_size, num_heads, HEAD_DIM) float
    partial_lse_ptr,  # (num_splits, batch_size, num_heads) float, natural log
    num_q_per_kv, capacity, softmax_scale,
    HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr,  # HEAD_DIM: a power of two; BLOCK_N: keys of a tile
):  # fmt: skip
    """Decode attention over one split of one sequence's keys. Grid (num_splits, num_heads, batch_size)."""
    num_splits, num_heads, batch_size = tl.num_programs(0), tl.num_programs(1), tl.num_programs(2)
    split, head, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    row = batch * num_heads + head  # of q, over all batches
    d = tl.arange(0, HEAD_DIM)  # (HEAD_DIM,)
    q = tl.load(q_ptr + row * HEAD_DIM + d).to(tl.float32)  # (HEAD_DIM,)
    ### BEGIN SOLUTION
    seq_len = tl.load(seq_lens_ptr + batch)
    split_len = tl.cdiv(tl.cdiv(seq_len, num_splits), BLOCK_N) * BLOCK_N  # whole tiles
    first = split * split_len
    end = tl.minimum(first + split_len, seq_len)  # an empty split: not above first
    kv_head = batch * (num_heads // num_q_per_kv) + head // num_q_per_kv
    m, l = -float("inf"), 0.0
    acc = tl.zeros((HEAD_DIM,), tl.float32)
    for start in range(first, end, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)  # (BLOCK_N,)
        kv_offsets = (kv_head * capacity + keys[:, None]) * HEAD_DIM + d[None, :]  # (BLOCK_N, HEAD_DIM)
        k = tl.load(k_ptr + kv_offsets, mask=keys[:, None] < end, other=0.0).to(tl.float32)
        v = tl.load(v_ptr + kv_offsets, mask=keys[:, None] < end, other=0.0).to(tl.float32)
        scores = tl.sum(q[None, :] * k, axis=1) * softmax_scale  # (BLOCK_N,)
        scores = tl.where(keys < end, scores, -float("inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=0))
        probs_unnorm = tl.exp(scores - m_new)
        alpha = tl.exp(m - m_new)
        l = l * alpha + tl.sum(probs_unnorm, axis=0)
        acc = acc * alpha + tl.sum(probs_unnorm[:, None] * v, axis=0)
        m = m_new
    offset = split * batch_size * num_heads + row
    tl.store(partial_out_ptr + offset * HEAD_DIM + d, acc / l)  # an empty split: NaN, which the combine does not read
    tl.store(partial_lse_ptr + offset, m + tl.log(l))  # an empty split: -inf
    ### END SOLUTION

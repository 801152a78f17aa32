import triton
import triton.language as tl


@triton.jit
def paged_tiles_kernel(
    q_ptr,  # (batch_size, num_heads, HEAD_DIM) float, contiguous
    k_pages_ptr,  # float: page p, slot s, head h begins at p * stride_page + s * stride_slot + h * stride_kv_head
    v_pages_ptr,  # like k_pages
    block_table_ptr,  # (batch_size, max_pages) int32
    seq_lens_ptr,  # (batch_size,) int32
    out_ptr,  # like q
    lse_ptr,  # (batch_size, num_heads) float, natural log
    num_q_per_kv, max_pages,
    stride_page, stride_slot, stride_kv_head, softmax_scale,
    HEAD_DIM: tl.constexpr, PAGE_SIZE: tl.constexpr,  # PAGE_SIZE: a power of two
):  # fmt: skip
    """Decode attention, a page a tile. Grid (num_heads, batch_size)."""
    head, batch = tl.program_id(0), tl.program_id(1).to(tl.int64)
    row = batch * tl.num_programs(0) + head  # of q, out and lse
    d, slots = tl.arange(0, HEAD_DIM), tl.arange(0, PAGE_SIZE)
    ### BEGIN SOLUTION
    seq_len = tl.load(seq_lens_ptr + batch)
    kv_offset = (head // num_q_per_kv).to(tl.int64) * stride_kv_head
    q = tl.load(q_ptr + row * HEAD_DIM + d)  # (HEAD_DIM,)
    m, l, acc = -float("inf"), 0.0, tl.zeros((HEAD_DIM,), tl.float32)
    for i in range(0, tl.cdiv(seq_len, PAGE_SIZE)):
        page = tl.load(block_table_ptr + batch * max_pages + i).to(tl.int64)  # a pool may have more than 2^31 numbers
        mask = i * PAGE_SIZE + slots < seq_len  # (PAGE_SIZE,)
        offsets = page * stride_page + kv_offset + slots[:, None] * stride_slot + d[None, :]  # (PAGE_SIZE, HEAD_DIM)
        k = tl.load(k_pages_ptr + offsets, mask=mask[:, None], other=0.0)
        v = tl.load(v_pages_ptr + offsets, mask=mask[:, None], other=0.0)
        scores = tl.where(mask, tl.sum(q[None, :] * k, axis=1) * softmax_scale, -float("inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=0))
        alpha = tl.exp(m - m_new)
        probs_unnorm = tl.exp(scores - m_new)
        l = l * alpha + tl.sum(probs_unnorm, axis=0)
        acc = acc * alpha + tl.sum(probs_unnorm[:, None] * v, axis=0)
        m = m_new
    l_safe = tl.where(l > 0.0, l, 1.0)  # a sequence without tokens: 0 / 1, and m stays -inf
    tl.store(out_ptr + row * HEAD_DIM + d, acc / l_safe)
    tl.store(lse_ptr + row, m + tl.log(l_safe))
    ### END SOLUTION

import triton
import triton.language as tl


@triton.jit
def paged_int8_kernel(
    q_ptr,  # (batch_size, num_heads, HEAD_DIM) float, contiguous
    k_pages_ptr, v_pages_ptr,  # (num_pages, PAGE_SIZE, num_kv_heads, HEAD_DIM) int8, contiguous
    k_scales_ptr, v_scales_ptr,  # (num_pages, PAGE_SIZE, num_kv_heads) float, contiguous: k is k_pages * k_scales
    block_table_ptr,  # (batch_size, max_pages) int32
    seq_lens_ptr,  # (batch_size,) int32
    out_ptr,  # like q
    lse_ptr,  # (batch_size, num_heads) float, natural log
    num_q_per_kv, max_pages, softmax_scale,
    HEAD_DIM: tl.constexpr, PAGE_SIZE: tl.constexpr,  # PAGE_SIZE: a power of two
):  # fmt: skip
    """Decode attention over pages of bytes, a page a tile. Grid (num_heads, batch_size)."""
    head, batch = tl.program_id(0), tl.program_id(1).to(tl.int64)
    row = batch * tl.num_programs(0) + head  # of q, out and lse
    num_kv_heads, kv_head = tl.num_programs(0) // num_q_per_kv, head // num_q_per_kv
    d, slots = tl.arange(0, HEAD_DIM), tl.arange(0, PAGE_SIZE)
    seq_len = tl.load(seq_lens_ptr + batch)
    q = tl.load(q_ptr + row * HEAD_DIM + d)
    m, l, acc = -float("inf"), 0.0, tl.zeros((HEAD_DIM,), tl.float32)
    for i in range(0, tl.cdiv(seq_len, PAGE_SIZE)):
        page = tl.load(block_table_ptr + batch * max_pages + i).to(tl.int64)
        mask = i * PAGE_SIZE + slots < seq_len  # (PAGE_SIZE,)
        ### BEGIN SOLUTION
        scale_offsets = (page * PAGE_SIZE + slots) * num_kv_heads + kv_head  # (PAGE_SIZE,)
        offsets = scale_offsets[:, None] * HEAD_DIM + d[None, :]  # (PAGE_SIZE, HEAD_DIM)
        k = tl.load(k_pages_ptr + offsets, mask=mask[:, None], other=0).to(tl.float32)
        v = tl.load(v_pages_ptr + offsets, mask=mask[:, None], other=0).to(tl.float32)
        k_scale = tl.load(k_scales_ptr + scale_offsets, mask=mask, other=0.0)
        v_scale = tl.load(v_scales_ptr + scale_offsets, mask=mask, other=0.0)
        scores = tl.sum(q[None, :] * k, axis=1) * k_scale * softmax_scale
        scores = tl.where(mask, scores, -float("inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=0))
        alpha = tl.exp(m - m_new)
        probs_unnorm = tl.exp(scores - m_new)
        l = l * alpha + tl.sum(probs_unnorm, axis=0)
        acc = acc * alpha + tl.sum((probs_unnorm * v_scale)[:, None] * v, axis=0)
        m = m_new
        ### END SOLUTION
    l_safe = tl.where(l > 0.0, l, 1.0)  # a sequence without tokens: 0 / 1, and m stays -inf
    tl.store(out_ptr + row * HEAD_DIM + d, acc / l_safe)
    tl.store(lse_ptr + row, m + tl.log(l_safe))

"""Right answers to 07.2 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

LOAD_Q = "q = tl.load(q_ptr + q_offsets, mask=q_mask, other=0.0)"
LOAD_K = "k_t = tl.load(k_ptr + kv_offsets, mask=kv_mask, other=0.0)"
SCORES = 'scores = tl.dot(q, k_t, input_precision="ieee") * softmax_scale'

# Pointers that are advanced, base 2, and the keys from the last tile to the first.
BACKWARDS = """import triton
import triton.language as tl


@triton.jit
def flash_attention_2_kernel(q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, num_q_per_kv, seq_len_q, seq_len_kv, softmax_scale,
                             HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr,
                             BLOCK_N: tl.constexpr):
    head = (tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)).to(tl.int64)
    rows, keys, d = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_D)
    offsets = head * seq_len_q * HEAD_DIM + rows[:, None] * HEAD_DIM + d[None, :]
    mask = (rows < seq_len_q)[:, None] & (d < HEAD_DIM)[None, :]
    q = tl.load(q_ptr + offsets, mask=mask, other=0.0)
    last = (seq_len_kv - 1) // BLOCK_N
    first_row = head // num_q_per_kv * seq_len_kv + last * BLOCK_N
    first_offsets = first_row * HEAD_DIM + keys[:, None] * HEAD_DIM + d
    k_tile_ptr, v_tile_ptr = k_ptr + first_offsets, v_ptr + first_offsets
    m2 = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l = tl.full([BLOCK_M], 0.0, tl.float32)
    acc = tl.full([BLOCK_M, BLOCK_D], 0.0, tl.float32)
    for step in range(last + 1):
        remaining = seq_len_kv - (last - step) * BLOCK_N
        kv_mask = (keys < remaining)[:, None] & (d < HEAD_DIM)[None, :]
        k, v = tl.load(k_tile_ptr, mask=kv_mask, other=0.0), tl.load(v_tile_ptr, mask=kv_mask, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * (softmax_scale * 1.4426950408889634)
        scores += tl.where(keys < remaining, 0.0, float("-inf"))[None, :]
        m_new = tl.maximum(m2, tl.max(scores, 1))
        p = tl.exp2(scores - m_new[:, None])
        l = l * tl.exp2(m2 - m_new) + tl.sum(p.to(v.dtype).to(tl.float32), 1)
        acc = tl.dot(p.to(v.dtype), v, acc * tl.exp2(m2 - m_new)[:, None], input_precision="ieee")
        m2 = m_new
        k_tile_ptr -= BLOCK_N * HEAD_DIM
        v_tile_ptr -= BLOCK_N * HEAD_DIM
    tl.store(out_ptr + offsets, (acc * (1.0 / l)[:, None]).to(q.dtype), mask=mask)
    tl.store(lse_ptr + head * seq_len_q + rows, (m2 + tl.log2(l)) * 0.6931471805599453, mask=rows < seq_len_q)
"""

ANSWERS = [
    Right("advanced pointers, base 2, last keys first", text=BACKWARDS),
    Right(
        "q scaled before the product",
        (
            (LOAD_Q, LOAD_Q + "\n    q = (q * softmax_scale).to(q.dtype)"),
            (SCORES, SCORES.replace(" * softmax_scale", "")),
        ),
    ),
    Right(
        "k scaled before the product",
        (
            (LOAD_K, LOAD_K + "\n        k_t = (k_t * softmax_scale).to(k_t.dtype)"),
            (SCORES, SCORES.replace(" * softmax_scale", "")),
        ),
    ),
    Right(
        "a mean kept in every turn",
        (
            ("l = l * alpha + tl.sum", "l_old = l * alpha\n        l = l_old + tl.sum"),
            ("acc = acc * alpha[:, None] + tl.dot(", "acc = acc * l_old[:, None] + tl.dot("),
            ("        m = m_new\n", "        acc = acc / l[:, None]\n        m = m_new\n"),
            ("(acc / l[:, None]).to(", "acc.to("),
        ),
    ),
    Right(
        "m starts at the lowest float32",
        (('tl.full((BLOCK_M,), -float("inf"), tl.float32)', "tl.full((BLOCK_M,), -3.4028234e38, tl.float32)"),),
    ),
    Right(
        "lse by its own sum",
        (("m + tl.log(l), mask", "tl.log(l) + m, mask"), ("acc / l[:, None]", "acc * (1.0 / l[:, None])")),
    ),
]

"""Right answers to 13.1 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

BY_HAND = """import math
import torch


def gpt2_block(x, w1, b1, wa, ba, wp, bp, w2, b2, wf, bf, wm, bm, num_heads):
    def norm(rows, weight, bias):
        centred = rows - rows.mean(-1, keepdim=True)
        return centred * torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + 1e-5) * weight + bias

    batch_size, seq_len, hidden_size = x.shape
    head_dim = hidden_size // num_heads
    normed = norm(x, w1, b1)
    out = torch.empty_like(x)
    mask = torch.full((seq_len, seq_len), -math.inf).triu(1)
    for head in range(num_heads):
        columns = slice(head * head_dim, (head + 1) * head_dim)
        q, k, v = (
            normed @ wa[:, part * hidden_size :][:, columns] + ba[part * hidden_size :][columns] for part in range(3)
        )
        weights = (q @ k.transpose(1, 2) / math.sqrt(head_dim) + mask).softmax(-1)
        out[:, :, columns] = weights @ v
    h = x + (out @ wp + bp)
    y = norm(h, w2, b2) @ wf + bf
    y = 0.5 * y * (1 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y.pow(3))))
    return h + (y @ wm + bm)
"""

ANSWERS = [
    Right("head by head, by hand", text=BY_HAND),
    Right(
        "linear with the transposed weight",
        (
            ("normed @ c_attn_weight + c_attn_bias", "F.linear(normed, c_attn_weight.T, c_attn_bias)"),
            ("inner @ mlp_proj_weight + mlp_proj_bias", "F.linear(inner, mlp_proj_weight.T, mlp_proj_bias)"),
        ),
    ),
    Right(
        "addmm on flat rows",
        (
            (
                "    qkv = normed @ c_attn_weight + c_attn_bias\n",
                "    qkv = torch.addmm(c_attn_bias, normed.flatten(0, 1), c_attn_weight).view(*x.shape[:2], -1)\n",
            ),
        ),
    ),
    Right(
        "batches one after the other",
        (
            (
                "    heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)\n",
                "    heads = torch.cat([F.scaled_dot_product_attention(a[None], b[None], c[None], is_causal=True)\n"
                "                       for a, b, c in zip(q, k, v)])\n",
            ),
        ),
    ),
]

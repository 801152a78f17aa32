import torch
import torch.nn.functional as F


def llama_block(
    x, positions, input_norm, q_proj, k_proj, v_proj, o_proj, post_norm, gate_proj, up_proj, down_proj,
    num_heads, num_kv_heads, theta, eps,
):  # fmt: skip
    """x (batch_size, seq_len, hidden_size) after one block of Llama, with the weights as its checkpoint holds them."""
    ### BEGIN SOLUTION
    head_dim, group = q_proj.shape[0] // num_heads, num_heads // num_kv_heads
    exponents = torch.arange(0, head_dim, 2) / head_dim
    angles = positions[:, None].double() * theta ** -exponents.double()
    cos, sin = angles.cos().float()[:, None], angles.sin().float()[:, None]

    def turn(rows):
        first, second = rows.chunk(2, dim=-1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)

    normed = F.rms_norm(x, x.shape[-1:], input_norm, eps)
    q, k, v = ((normed @ w.T).unflatten(-1, (-1, head_dim)) for w in (q_proj, k_proj, v_proj))
    q, k = turn(q), turn(k)
    k, v = (rows.repeat_interleave(group, dim=2) for rows in (k, v))
    q, k, v = (rows.transpose(1, 2) for rows in (q, k, v))
    heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + heads.transpose(1, 2).flatten(2) @ o_proj.T
    normed = F.rms_norm(x, x.shape[-1:], post_norm, eps)
    return x + (F.silu(normed @ gate_proj.T) * (normed @ up_proj.T)) @ down_proj.T
    ### END SOLUTION
